// The order of the commands of one tool object, and methods that a subclass overrides.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Batch, type CallOptions, type Command, type Content, Memory, MemoryTool, ToolError } from 'memory-tool';
import { MapStore } from '../examples/map_store.js';
import { text, use } from './messages_api.js';
import { converse } from './sdk.js';
import { isLong, testOnDisks } from './support.js';

const TURNS = isLong ? 200 : 20;
const path = '/memories/a';
const view = { command: 'view', path } as const;

type Create = Extract<Command, { command: 'create' }>;
/** The commands of a turn, and the file after it. */
type Shape = (turn: number, old: string) => [Command[], string];

const deleteAndCreate: Shape = (turn) => [
  [
    { command: 'delete', path },
    { command: 'create', path, file_text: `${turn}` },
  ],
  `${turn}`,
];

const twoInserts: Shape = (turn, old) => {
  const insert = (text: string) => ({ command: 'insert', path, insert_line: 0, insert_text: text }) as const;
  return [[insert(`${turn}.1`), insert(`${turn}.2`)], `${turn}.2\n${turn}.1\n${old}`];
};

const fiveCommands: Shape = (turn, old) => {
  const [from, to] = [`/memories/${turn}.old`, `/memories/${turn}.new`];
  const commands: Command[] = [
    { command: 'create', path: from, file_text: 'tea' },
    { command: 'str_replace', path: from, old_str: 'tea', new_str: 'milk' },
    { command: 'insert', path: from, insert_line: 0, insert_text: 'cold' },
    { command: 'rename', old_path: from, new_path: to },
    { command: 'view', path: to },
  ];
  return [commands, old];
};

for (const shape of [deleteAndCreate, twoInserts, fiveCommands]) {
  testOnDisks(`the commands of a turn take effect in order: ${shape.name}`, async (url) => {
    await new Memory(url).writeText(path, 'start');
    const tool = new MemoryTool(url); // the first turn opens it
    for (let turn = 0; turn < TURNS; turn++) {
      const old = turn === 0 ? 'start' : await tool.memory.readText(path);
      const [commands, expected] = shape(turn, old);
      const replies = await Promise.all(commands.map((command) => tool.call(command))); // throws the first error
      assert.equal(await tool.memory.readText(path), expected);
      if (commands.length === 5) assert.match(String(replies.at(-1)), / {5}1\tcold\n {5}2\tmilk$/);
    }
  });

  testOnDisks(`the runner of the SDK runs them in order: ${shape.name}`, async (url) => {
    await new Memory(url).writeText(path, 'start');
    const [commands, expected] = shape(0, 'start');
    const [api] = await converse(new MemoryTool(url), commands.map((command, id) => use(`t${id}`, command)), [text('Done.')]);
    assert(!Object.values(api.results()).some((result) => result['is_error']));
    assert.equal(await new Memory(url).readText(path), expected);
  });
}

/** A change of the path waits until it is open. */
class Gate extends MapStore {
  reached!: () => void;
  open!: () => void;
  readonly isReached = new Promise<void>((resolve) => (this.reached = resolve));
  readonly #isOpen = new Promise<void>((resolve) => (this.open = resolve));

  override apply(batch: Batch): void {
    if (!batch.changes.some((change) => change.path === path)) return super.apply(batch);
    this.reached();
    return this.#isOpen.then(() => super.apply(batch)) as unknown as void;
  }
}

test('a command that is cancelled gives up its place, and other tools do not wait', async () => {
  const store = new Gate();
  const tool = new MemoryTool(store);
  const create = tool.call({ command: 'create', path, file_text: 'tea' });
  await store.isReached;
  const controller = new AbortController();
  const deleted = tool.call({ command: 'delete', path }, { signal: controller.signal });
  const viewed = tool.call(view);
  await new MemoryTool(tool.memory).call({ command: 'create', path: '/memories/b', file_text: 'milk' });
  controller.abort();
  await assert.rejects(deleted, { name: 'AbortError' });
  store.open();
  assert.match(String(await create), /^File created/);
  assert.match(String(await viewed), / {5}1\ttea$/);
});

class Overriding extends MemoryTool {
  seen: unknown;

  override async create(command: Create, options?: CallOptions): Promise<Content> {
    this.seen = command;
    await sleep(5);
    return super.create({ ...command, file_text: command.file_text.toUpperCase() }, options);
  }
}

const create: Create = { command: 'create', path, file_text: 'tea' };

test('an overridden method is used everywhere', async () => {
  for (const method of ['call', 'create'] as const) {
    const tool = new Overriding('in-process:');
    assert.equal(await tool[method](create), 'File created successfully at: /memories/a');
    assert.equal(await tool.memory.readText(path), 'TEA');
  }
});

test('the runner of the SDK uses an overridden method in order', async () => {
  const tool = new Overriding('in-process:');
  const insert = { command: 'insert', path, insert_line: 0, insert_text: 'cold' };
  const [api] = await converse(tool, [use('t1', create), use('t2', insert), use('t3', view)], [text('Noted.')]);
  assert.match(String(api.results()['t3']?.['content']), / {5}1\tcold\n {5}2\tTEA$/);
});

test('an overridden method receives valid commands', async () => {
  const tool = new Overriding('in-process:');
  await tool.call({ ...create, path: '/memories/a/', extra: 1 });
  assert.deepEqual(tool.seen, create);
  tool.seen = undefined;
  for (const wrong of [{ command: 'create' }, { ...create, path: '/etc' }, { ...create, file_text: 7 }]) {
    await assert.rejects(tool.call(wrong), ToolError);
    await assert.rejects(tool.create(wrong as Create), ToolError);
  }
  assert.equal(tool.seen, undefined);
});

test('a method can be overridden by a field or in an object', async () => {
  class WithField extends MemoryTool {
    override create = async (command: Create) => {
      await sleep(5);
      return super.create({ ...command, file_text: 'field' });
    };
  }
  const tool = new WithField('in-process:');
  tool.delete = async (command) => `${command.path} stays`;
  const replies = await Promise.all([tool.call(create), tool.call(view), tool.call({ command: 'delete', path })]);
  assert.match(String(replies[1]), /field$/);
  assert.equal(replies[2], '/memories/a stays');
});

test('an overridden call is used by the methods', async () => {
  class Counting extends Overriding {
    calls = 0;

    override call(input: unknown, options?: CallOptions): Promise<Content> {
      this.calls += 1;
      return super.call(input, options);
    }
  }
  const tool = new Counting('in-process:');
  await converse(tool, [use('t1', create), use('t2', view)], [text('Noted.')]);
  assert.equal(tool.calls, 1); // `create` has an override of its own
  await tool.call({ ...create, path: '/memories/b' });
  assert.equal(tool.calls, 2);
});

test('an overridden method does not wait for itself, and later commands wait for it', { timeout: 60_000 }, async () => {
  let leftBehind: Promise<unknown> | undefined;
  class Replacing extends MemoryTool {
    override async create(command: Create): Promise<Content> {
      await Promise.all([this.view({ command: 'view', path: '/memories' }), this.call({ command: 'view', path: '/memories' })]);
      await this.call({ command: 'delete', path: command.path }).catch(() => {});
      await sleep(5);
      leftBehind = sleep(20).then(() => this.call({ command: 'view', path: command.path }));
      return super.create(command);
    }
  }
  const tool = new Replacing('in-process:');
  for (let number = 0; number < 5; number++) {
    const insert = { command: 'insert', path, insert_line: 0, insert_text: 'first' };
    const calls = [{ ...create, file_text: `${number}` }, insert, view].map((input) => tool.call(input));
    assert.match(String((await Promise.all(calls))[2]), new RegExp(` {5}1\tfirst\n {5}2\t${number}$`));
    assert.match(String(await leftBehind), /first/);
  }
});

test('an overridden method that fails or is cancelled leaves the queue', { timeout: 60_000 }, async () => {
  class Failing extends MemoryTool {
    override create(command: Create): Promise<Content> {
      if (command.file_text === 'fail') throw new RangeError('no');
      return sleep(100, 'created');
    }
  }
  const tool = new Failing('in-process:');
  await assert.rejects(tool.call({ ...create, file_text: 'fail' }), RangeError);
  const running = tool.call(create);
  const controller = new AbortController();
  const queued = tool.call(create, { signal: controller.signal });
  controller.abort();
  await assert.rejects(queued, { name: 'AbortError' });
  assert.match(String(await tool.call({ command: 'view', path: '/memories' })), /0B\t\/memories$/);
  assert.equal(await running, 'created');
});
