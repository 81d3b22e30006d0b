// The tool in the runner of the SDK.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ToolError as SdkToolError } from '@anthropic-ai/sdk/lib/tools/ToolError';
import { Memory, MemoryTool, ToolError } from 'memory-tool';
import { text, use, withMessagesApi } from './messages_api.js';
import { converse } from './sdk.js';
import { assertDone, isLong, newPlace, root, runNode, runSuite, testOnDisks, testOnStores } from './support.js';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

testOnStores('a conversation with parallel calls and errors', async (url) => {
  const [api, message] = await converse(
    new MemoryTool(url),
    [use('t1', { command: 'view', path: '/memories' })],
    [
      use('t2', { command: 'create', path: '/memories/a.txt', file_text: 'tea\nmilk' }),
      use('t3', { command: 'create', path: '/memories/b.txt', file_text: 'b' }),
      use('t4', { command: 'view', path: '/memories/none.txt' }),
      use('t5', { command: 'view', path: '/etc/passwd' }),
    ],
    [use('t6', { command: 'str_replace', path: '/memories/a.txt', old_str: 'tea', new_str: 'green tea' })],
    [text('I will remember it.')],
  );
  assert.deepEqual(message.content, [text('I will remember it.')]);
  assert.deepEqual(api.requests[0]?.tools, [{ type: 'memory_20250818', name: 'memory' }]);
  const header =
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
  const viewed = { type: 'tool_result', tool_use_id: 't1', content: `${header}\n0B\t/memories` };
  assert.deepEqual(api.results(1)['t1'], viewed);
  const results = api.results(2);
  assert.equal(results['t2']?.['content'], 'File created successfully at: /memories/a.txt');
  assert.equal(results['t3']?.['content'], 'File created successfully at: /memories/b.txt');
  assert.deepEqual(results['t4'], {
    type: 'tool_result',
    tool_use_id: 't4',
    content: 'The path /memories/none.txt does not exist. Please provide a valid path.',
    is_error: true,
  });
  assert.equal(results['t5']?.['content'], 'Error: Path must start with /memories, got: /etc/passwd');
  assert.match(String(api.results(3)['t6']?.['content']), /^The memory file has been edited\./);
  assert.equal(await new Memory(url).readText('/memories/a.txt'), 'green tea\nmilk');
});

test('an image is an image block', async () => {
  const place = newPlace();
  mkdirSync(join(place, 'memories'));
  writeFileSync(join(place, 'memories', 'dot.png'), PNG);
  const script = [[use('t1', { command: 'view', path: '/memories/dot.png' })], [text('A dot.')]];
  const [api] = await converse(new MemoryTool(place), ...script);
  const source = { type: 'base64', media_type: 'image/png', data: PNG.toString('base64') };
  assert.deepEqual(api.results()['t1']?.['content'], [{ type: 'image', source }]);
});

const WRONG_INPUTS: [object, string][] = [
  [{ command: 'view' }, 'Error: Missing field `path` of the command view'],
  [{ command: 'view', path: 7 }, 'Error: Field `path` of the command view must be a string, got an integer: 7'],
];

for (const [input, error] of WRONG_INPUTS) {
  test(`the error of the input ${JSON.stringify(input)} is the one of the contract`, async () => {
    const [api] = await converse(new MemoryTool('in-process:'), [use('t1', input)], [text('Sorry.')]);
    assert.deepEqual([api.results()['t1']?.['content'], api.results()['t1']?.['is_error']], [error, true]);
  });
}

test('errors are instances of the class of the SDK', async () => {
  const call = new MemoryTool('in-process:').call({ command: 'view', path: '/memories/a' });
  const error: unknown = await call.catch((error: unknown) => error);
  assert(error instanceof SdkToolError && error instanceof ToolError);
  assert.equal(error.content, 'The path /memories/a does not exist. Please provide a valid path.');
});

test('a CommonJS program gets the class of its SDK', async () => {
  const file = join(root, 'build', 'program.cjs');
  writeFileSync(
    file,
    `const { ToolError } = require('@anthropic-ai/sdk/lib/tools/ToolError');
     import('memory-tool').then(({ MemoryTool }) => new MemoryTool('in-process:').call({ command: 'shred' }))
       .catch((error) => console.log(error instanceof ToolError));`,
  );
  assertDone(await runNode([file]), 'true\n');
});

testOnDisks('the agent of the README remembers', async (_, { name }) => {
  const place = newPlace();
  const create = use('t1', { command: 'create', path: '/memories/tea.txt', file_text: 'No milk.' });
  const view = use('t2', { command: 'view', path: '/memories/tea.txt' });
  await withMessagesApi([[create], [text('Noted.')], [view], [text(`Black. ${name}`)]], async (api) => {
    const env = { ...process.env, ANTHROPIC_API_KEY: 'none', ANTHROPIC_BASE_URL: api.url };
    for (const [question, answer] of [['I take no milk.', 'Noted.'], ['How do I take my tea?', `Black. ${name}`]]) {
      const agent = join(root, 'examples', 'agent.mjs');
      assertDone(await runNode([agent, question as string], { cwd: place, env }), `${answer}\n`);
    }
    assert.match(String(api.results()['t2']?.['content']), / {5}1\tNo milk\.$/);
  });
});

/** Cases with integers beyond 2^53, which the numbers of JavaScript round. */
const BEYOND_NUMBERS = ['insert.line-of-extreme-size', 'view.range-outside-the-file'];

test('the suite passes on a program with the tool', { timeout: 600_000 }, async () => {
  const driver = `'${process.execPath}' '${join(import.meta.dirname, 'driver.js')}' {dir} {options}`;
  const known = join(newPlace(), 'known');
  writeFileSync(known, BEYOND_NUMBERS.join('\n'));
  const cases = isLong ? ['--known-failures', known] : ['--filter', 'str_replace.'];
  const words = ['--command', driver, '--plain-files', '{dir}/memories', '--timeout', '60', ...cases];
  const done = await runSuite(words);
  assert.equal(done.status, 0, done.stdout + done.stderr);
});
