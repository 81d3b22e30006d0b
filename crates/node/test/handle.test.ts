// The methods of the handle, on every kind of store.

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  AlreadyExists,
  Memory,
  MemoryTool,
  MemoryToolError,
  NotAFile,
  NotText,
  OpenError,
  ToolError,
  type ToolOutcome,
  TransferError,
  VersionMismatch,
} from 'memory-tool';
import { newPlace, testWithoutServer } from './support.js';

testWithoutServer('bytes, appends and existence', async (location) => {
  const memory = new Memory(location);
  const image = Uint8Array.of(0x89, 0x50, 0, 0xff);
  await memory.writeBytes('/memories/a/image', image);
  assert.deepEqual(new Uint8Array(await memory.readBytes('/memories/a/image')), image);
  await assert.rejects(memory.readText('/memories/a/image'), NotText);
  await memory.append('/memories/log', 'one\n');
  await memory.append('/memories/log', Buffer.from('two'));
  assert.equal(await memory.readText('/memories/log'), 'one\ntwo');
  const paths = ['/memories', '/memories/a', '/memories/log', '/memories/none'];
  assert.deepEqual(await Promise.all(paths.map((path) => memory.exists(path))), [true, true, true, false]);
  await assert.rejects(memory.append('/memories/a', 'x'), NotAFile);
  await assert.rejects(memory.readBytes('/memories/a'), NotAFile);
  await assert.rejects(memory.writeText('/memories/b', image as never), TypeError);
  await assert.rejects(memory.writeBytes('/memories/b', 'x' as never), TypeError);
  await assert.rejects(memory.append('/memories/b', 1 as never), TypeError);
  await assert.rejects(memory.writeText('/memories/b', '\ud800'), RangeError);
  assert.equal(await memory.exists('/memories/b'), false);
});

testWithoutServer('a write with a condition replaces only what was read', async (location) => {
  const memory = new Memory(location);
  await memory.writeText('/memories/a', 'one', { ifAbsent: true });
  await assert.rejects(memory.writeText('/memories/a', 'two', { ifAbsent: true }), (error) => {
    return error instanceof AlreadyExists && error.path === '/memories/a';
  });
  await memory.writeText('/memories/a', 'two', { ifText: 'one' });
  await memory.writeBytes('/memories/a', Buffer.from('three'), { ifBytes: Buffer.from('two') });
  for (const path of ['/memories/a', '/memories/none']) {
    await assert.rejects(memory.writeText(path, 'four', { ifText: 'two' }), (error) => {
      return error instanceof VersionMismatch && error.path === path;
    });
  }
  for (const condition of [{ ifText: undefined }, { ifText: null }, { ifText: 'three', ifAbsent: true }]) {
    await assert.rejects(memory.writeText('/memories/a', 'four', condition as object), TypeError);
  }
  assert.equal(await memory.readText('/memories/a'), 'three');
});

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

testWithoutServer('a copy, an export and an import', async (location) => {
  const [memory, other] = [new Memory(location), new Memory('in-process:')];
  await memory.writeText('/memories/a/b.md', 'tea');
  await other.writeText('/memories/a/b.md', 'coffee');
  const kept = await memory.copyTo(other);
  assert.deepEqual([kept.isComplete, kept.copied, kept.conflicts[0]?.path], [false, 0, '/memories/a/b.md']);
  const copied = await memory.copyTo(other, { overwrite: true });
  assert.deepEqual([copied.isComplete, copied.overwritten, copied.bytes], [true, 1, 3]);
  assert.equal(await other.readText('/memories/a/b.md'), 'tea');
  await assert.rejects(memory.copyTo(memory), TransferError);

  const target = join(newPlace(), 'alice');
  const exported = await memory.export(pathToFileURL(target));
  assert.deepEqual([exported.isComplete, exported.exported, exported.kept], [true, 1, null]);
  assert.equal(readFileSync(join(target, 'a', 'b.md'), 'utf8'), 'tea');
  await assert.rejects(memory.export(target), (error) => {
    return error instanceof TransferError && error.kind === 'already_exists';
  });
  await memory.clear();
  const imported = await memory.import(target);
  assert.deepEqual([imported.isComplete, imported.copied, imported.skipped], [true, 1, []]);
  assert.equal(await memory.readText('/memories/a/b.md'), 'tea');
});

test('damage, expiry, scopes and memories', async () => {
  const place = join(newPlace(), 'users');
  mkdirSync(place);
  const memory = new Memory(join(place, 'alice'));
  await memory.writeText('/memories/a', 'tea');
  assert.deepEqual(await memory.verify(), { files: 1, bytes: 3, problems: [] });
  const encrypted = new Memory(join(newPlace(), 'encrypted'), { key: new Uint8Array(32) });
  await encrypted.writeText('/memories/a', 'tea');
  await new Memory(join(place, 'alice'), { scope: 'team' }).writeText('/memories/b', 'tea');
  assert.deepEqual(await memory.scopes(), ['team']);
  const database = `sqlite:${place}/users.db`;
  await new Memory(`${database}?memory=alice`).writeText('/memories/a', 'tea');
  assert.deepEqual(await Memory.memories(database), [`sqlite://${place}/users.db?memory=alice`]);
  assert.deepEqual(await Memory.memories(pathToFileURL(place)), [`file://${place}/alice`]);
  await assert.rejects(Memory.memories(join(place, 'none')), (error) => {
    return error instanceof OpenError && error.kind === 'not_found';
  });
  await assert.rejects(Memory.memories('foo:bar'), /unknown scheme/);

  assert.deepEqual(await memory.expire(), []);
  assert.deepEqual(await memory.expireAll(), []);
  const expiring = new Memory(join(newPlace(), 'memory'), { expireAfter: 1 });
  await expiring.writeText('/memories/old', 'tea');
  let removed: string[] = [];
  while (removed.length === 0) removed = await expiring.expire(); // a second has to pass
  assert.deepEqual(removed, ['/memories/old']);
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
