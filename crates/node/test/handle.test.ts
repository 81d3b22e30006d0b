// The methods of the handle, on every kind of store. `scenarios.test.ts` has more of them.

import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Memory, MemoryTool, MemoryToolError, ToolError, type ToolOutcome, VersionMismatch } from 'memory-tool';
import { newPlace, testWithoutServer } from './support.js';

testWithoutServer('writers that race lose no edit', async (location) => {
  const memory = new Memory(location);
  await memory.writeText('/memories/count', '0');
  const increment = async (): Promise<void> => {
    const text = await memory.readText('/memories/count');
    try {
      await memory.writeText('/memories/count', String(Number(text) + 1), { ifText: text });
    } catch (error) {
      assert(error instanceof VersionMismatch);
      return increment();
    }
  };
  const twice = async (work: () => Promise<void>) => {
    for (let count = 0; count < 25; count++) await work();
  };
  const append = () => memory.append('/memories/log', 'x');
  await Promise.all([increment, increment, append, append].map(twice));
  assert.equal(await memory.readText('/memories/count'), '50');
  assert.equal(await memory.readText('/memories/log'), 'x'.repeat(50));
});

test('verify reports damage', async () => {
  const place = join(newPlace(), 'encrypted');
  const memory = new Memory(place, { key: new Uint8Array(32) });
  await memory.writeText('/memories/a', 'tea');
  for (const name of readdirSync(join(place, 'memories'), { recursive: true }) as string[]) {
    const file = join(place, 'memories', name);
    if (statSync(file).isFile() && statSync(file).size < 200) writeFileSync(file, 'damaged');
  }
  const { problems } = await memory.verify();
  assert.equal(problems.length, 1);
  assert.match(problems[0] as string, /\/memories\/a/);
});

testWithoutServer('lint names files and lines', async (location) => {
  const memory = new Memory(location);
  await memory.writeText('/memories/a.md', 'x\n[b](b.md)');
  await memory.writeText('/memories/c.md', '');
  const { findings, ...rest } = await memory.lint();
  assert.deepEqual(rest, { files: 2, skipped: 0, more: 0 });
  assert.deepEqual(findings.map(({ rule, path, line }) => [rule, path, line]), [
    ['broken-link', '/memories/a.md', 2],
    ['empty', '/memories/c.md', null],
  ]);
  assert.equal((await memory.lint({ only: ['empty'], within: ['/memories/a.md'] })).findings.length, 0);
  await assert.rejects(memory.lint({ off: ['mood'] }), /expected one of long-index, /);
});

testWithoutServer('a closed memory refuses calls', async (location) => {
  const memory = new Memory(location);
  {
    await using used = memory;
    await used.writeText('/memories/a', 'tea');
  }
  await memory.close();
  const closed = { name: 'MemoryToolError', message: 'the memory is closed' };
  await assert.rejects(memory.readText('/memories/a'), closed);
  await assert.rejects(new Memory('in-process:').copyTo(memory), closed);
  await assert.rejects(new MemoryTool(memory).call({ command: 'view', path: '/memories' }), MemoryToolError);
  const opening = new Memory(location);
  const write = opening.writeText('/memories/a', 'tea'); // it has begun, and so either ends or is refused
  await opening.close();
  await write.catch((error: unknown) => assert(error instanceof MemoryToolError));
});

function german({ kind, details }: ToolOutcome): string | undefined {
  if (kind === 'created') return `Datei angelegt: ${details.path}`;
  if (kind === 'renamed') return `${details['oldPath']} heißt nun ${details.path}`;
  if (kind === 'not_found') return `Fehler: ${details.path} gibt es nicht (${details['command']}).`;
  if (kind === 'deleted') throw new Error('a fault of the hook');
  return undefined;
}

testWithoutServer('a function words replies and errors', async (location) => {
  const commands = [
    { command: 'create', path: '/memories/a', file_text: 'tea' },
    { command: 'view', path: '/memories/b' },
    { command: 'rename', old_path: '/memories/a', new_path: '/memories/b' },
    { command: 'create', path: '/memories/b', file_text: '' },
    { command: 'delete', path: '/memories/b' },
    { command: 'paint' },
  ];
  const texts = async (tool: MemoryTool) => {
    const found = [];
    for (const command of commands) {
      found.push(await tool.call(command).catch((error: unknown) => (error as ToolError).content));
    }
    return found;
  };
  const contract = await texts(new MemoryTool('in-process:'));
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  assert.deepEqual(await texts(new MemoryTool(location, { wording: german })), [
    'Datei angelegt: /memories/a',
    'Fehler: /memories/b gibt es nicht (view).',
    '/memories/a heißt nun /memories/b',
    ...contract.slice(3),
  ]);
  assert.equal(contract[0], 'File created successfully at: /memories/a');
  assert.match((await warned).message, /a fault of the hook/);
});

test('the words of a failed storage keep its cause', async () => {
  const place = newPlace();
  const tool = await MemoryTool.open(place, { wording: ({ kind, isError, text }) => `${kind} ${isError} ${text}` });
  rmSync(join(place, 'memories'), { recursive: true });
  writeFileSync(join(place, 'memories'), 'not a directory');
  await assert.rejects(tool.call({ command: 'create', path: '/memories/a', file_text: 'tea' }), (error) => {
    assert(error instanceof ToolError && error.cause !== undefined);
    assert.equal(error.content, 'other true Error: The memory storage failed. Nothing was changed.');
    return true;
  });
});
