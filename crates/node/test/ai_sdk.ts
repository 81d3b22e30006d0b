// The agent of `examples/adapters/ai_sdk` talks to a local Messages API with the client of Vercel's AI SDK.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Memory, MemoryTool, type Store } from 'memory-tool';
import { MapStore } from '../examples/map_store.js';
import { type Block, type MessagesApi, text, use, withMessagesApi } from './messages_api.js';
import { assertDone, newPlace, root, runNode } from './support.js';

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const CREATE = { command: 'create', path: '/memories/a.txt', file_text: 'tea' };

const project = newPlace();
const agent = join(project, 'agent.mjs');

before(() => {
  for (const file of ['agent.mjs', 'package.json', 'package-lock.json']) {
    copyFileSync(join(root, '..', '..', 'examples', 'adapters', 'ai_sdk', file), join(project, file));
  }
  execFileSync('npm', ['ci', '--silent', '--ignore-scripts'], { cwd: project });
  symlinkSync(root, join(project, 'node_modules', 'memory-tool'));
});

/** Plays a script with the tool of the example, and returns the API. */
function converse(memory: MemoryTool, ...script: Block[][]): Promise<MessagesApi> {
  return withMessagesApi(script, async (api) => {
    const load = async (path: string) => import(pathToFileURL(join(project, path)).href);
    const [{ memoryTool }, { createAnthropic }, { generateText, isStepCount }] = await Promise.all(
      ['agent.mjs', 'node_modules/@ai-sdk/anthropic/dist/index.js', 'node_modules/ai/dist/index.js'].map(load),
    );
    const model = createAnthropic({ baseURL: `${api.url}/v1`, apiKey: 'none' })('claude-opus-5-5');
    const tools = { memory: memoryTool(memory) };
    await generateText({ model, tools, prompt: 'Hello', stopWhen: isStepCount(20), maxRetries: 0 });
    return api;
  });
}

test('the agent uses the memory and reads errors', async () => {
  const uses = [
    use('t1', CREATE),
    use('t2', { command: 'str_replace', path: '/memories/a.txt', old_str: 'tea', new_str: 'milk' }),
    use('t3', { command: 'view', path: '/memories/a.txt' }),
    use('t4', { command: 'view', path: '/etc/passwd' }),
    use('t5', { command: 'view', path: 3 }),
  ];
  await withMessagesApi([uses, [text('Noted.')]], async (api) => {
    const env = { ...process.env, ANTHROPIC_BASE_URL: `${api.url}/v1`, ANTHROPIC_API_KEY: 'none' };
    assertDone(await runNode([agent, 'No milk.'], { cwd: project, env }), 'Noted.\n');
    assert.deepEqual(api.requests[0]?.tools, [{ name: 'memory', type: 'memory_20250818' }]);
    const results = api.results();
    assert.deepEqual(Object.keys(results), ['t1', 't2', 't3', 't4', 't5']);
    assert.equal(results['t1']?.['content'], 'File created successfully at: /memories/a.txt');
    assert.equal(results['t1']?.['is_error'], undefined);
    assert.match(results['t3']?.['content'] as string, /\n     1\tmilk$/);
    assert.equal(results['t4']?.['content'], 'Error: Path must start with /memories, got: /etc/passwd');
    assert.equal(results['t4']?.['is_error'], true);
    assert.equal(results['t5']?.['content'], 'Error: Field `path` of the command view must be a string, got an integer: 3');
    assert.equal(results['t5']?.['is_error'], true);
  });
});

test('each form of the contract runs, with its replies', async () => {
  const path = '/memories/a.txt';
  const edit = { command: 'str_replace', path };
  const view = { command: 'view', path };
  const forms: [object, RegExp, true?][] = [
    [{ command: 'create', path, file_text: '1 2 3 4', extra: [{}] }, /^File created/],
    [{ ...edit, old_str: '1 ' }, /^The memory file has been edited/],
    [{ ...edit, old_str: '2 ', new_str: null }, /^The memory file has been edited/],
    [{ command: 'insert', path, insert_line: 1.0, new_str: 'x' }, /^The file .* has been edited/],
    [{ ...view, view_range: null }, /1\t3 4\n/],
    [{ ...view, view_range: [1, 1] }, /1\t3 4$/],
    [{ command: 'rename', path, new_path: '/memories/b.txt' }, /^Successfully renamed/],
    [{ command: 'chmod', path }, /^Error: Unknown command: chmod/, true],
    [{ command: 'create', path }, /^Error: Missing field `file_text`/, true],
    [{ path }, /^Error: Missing field `command`/, true],
    [{ ...view, path: '/memories/b.txt', view_range: 'all' }, /view_range/, true],
  ];
  const uses = forms.map(([input], index) => use(`t${index}`, input as Record<string, unknown>));
  const api = await converse(new MemoryTool(newPlace()), uses, [text('Done.')]);
  const results = api.results();
  forms.forEach(([input, reply, isError], index) => {
    const result = results[`t${index}`];
    assert.match(result?.['content'] as string, reply, JSON.stringify(input));
    assert.equal(result?.['is_error'], isError, JSON.stringify(input));
  });
});

test('two agents lose no edit', async () => {
  const place = newPlace();
  const rounds = [0, 1, 2, 3];
  const calls = [0, 1, 2, 3, 4];
  const insert = { command: 'insert', path: '/memories/log.txt', insert_line: 0 };
  const scriptOf = (agent: string) => [
    ...rounds.map((round) => calls.map((n) => use(`t${n}`, { ...insert, insert_text: `${agent} ${round} ${n}\n` }))),
    [text('Done.')],
  ];
  const memory = new Memory(place);
  await memory.writeText('/memories/log.txt', '');
  await Promise.all(['a', 'b'].map((agent) => converse(new MemoryTool(place), ...scriptOf(agent))));
  const lines = (await memory.readText('/memories/log.txt')).split('\n').filter(Boolean);
  const expected = ['a', 'b'].flatMap((agent) => rounds.flatMap((round) => calls.map((n) => `${agent} ${round} ${n}`)));
  assert.deepEqual(lines.sort(), expected);
});

test('a command does not block the event loop', async () => {
  const inner = new MapStore();
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
  const store: Store = {
    read: async (path, options) => (await nextTurn(), inner.read(path, options)),
    apply: async (batch) => (await nextTurn(), inner.apply(batch)),
  };
  const api = await converse(new MemoryTool(store), [use('t1', CREATE)], [text('Done.')]);
  assert.equal(api.results()['t1']?.['content'], 'File created successfully at: /memories/a.txt');
});

test('a view of an image is an image block', async () => {
  const place = newPlace();
  const memory = await Memory.open(place);
  writeFileSync(join(place, 'memories', 'dot.png'), Buffer.from(PNG, 'base64'));
  const api = await converse(
    new MemoryTool(memory),
    [use('t1', { command: 'view', path: '/memories/dot.png' })],
    [text('A dot.')],
  );
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
  assert.deepEqual(api.results()['t1']?.['content'], [image]);
});
