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
    assert.match(results['t5']?.['content'] as string, /expected string, received number/); // a text of the framework
    assert.equal(results['t5']?.['is_error'], true);
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
