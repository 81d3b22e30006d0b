// Memories: operations, options and errors.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import * as memoryTool from 'memory-tool';
import { Memory, MemoryTool, type Options, ToolError } from 'memory-tool';
import { assertDone, newPlace, program, runNode } from './support.js';

test('a location can be a URL object', async () => {
  const place = newPlace();
  await new Memory(pathToFileURL(place)).writeText('/memories/a', 'tea');
  assert.equal(readFileSync(join(place, 'memories', 'a'), 'utf8'), 'tea');
  assert.equal(await new Memory(`file:${place}`).readText('/memories/a'), 'tea');
  assert.deepEqual(await Memory.memories(pathToFileURL(place)), [`file://${place}`]);
  await new Memory(place).export(pathToFileURL(join(place, 'exported')));
  assert.equal(readFileSync(join(place, 'exported', 'a'), 'utf8'), 'tea');
});

test('many calls write at once', async () => {
  const memory = new Memory(`sqlite:${newPlace()}/memory.db`);
  await Promise.all(Array.from({ length: 50 }, (_, number) => memory.writeText(`/memories/${number}`, 'tea')));
  assert.equal((await memory.usage()).files, 50);
});

test('an open error has the cause of the storage', async () => {
  const place = newPlace();
  await assert.rejects(Memory.open(join(place, 'none'), { mustExist: true }), (error) => {
    assert(error instanceof memoryTool.OpenError);
    assert.equal((error.cause as NodeJS.ErrnoException).code, 'ENOENT');
    return true;
  });
});

test('a memory that could not be opened is opened by a later call', async () => {
  const place = join(newPlace(), 'memory');
  const memory = new Memory(place, { mustExist: true });
  await assert.rejects(memory.list(), memoryTool.OpenError);
  await new Memory(place).writeText('/memories/a', 'tea');
  assert.equal(await memory.readText('/memories/a'), 'tea');
});

test('a reply never contains a path of the host, and the cause is a warning', async () => {
  const place = newPlace();
  const tool = await MemoryTool.open(place);
  rmdirSync(join(place, 'memories'));
  symlinkSync('/nowhere', join(place, 'memories'));
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  const call = tool.call({ command: 'create', path: '/memories/a.txt', file_text: 'tea' });
  const error: unknown = await call.catch((error: unknown) => error);
  assert(error instanceof ToolError);
  assert(!error.content.includes(place) && !error.content.includes('/nowhere'), error.content);
  assert.equal((await warned).name, 'MemoryToolWarning');
});

const cyclic: unknown[] = [];
cyclic.push(cyclic);
let deep: unknown = [];
for (let depth = 0; depth < 1000; depth++) deep = [deep];

for (const [name, value] of Object.entries({ 'a lone surrogate': '\ud800', 'a big integer': 1n, cyclic, deep })) {
  test(`an input that is not JSON is an error: ${name}`, async () => {
    const call = new MemoryTool('in-process:').call({ command: 'view', path: value });
    await assert.rejects(call, (error) => error instanceof ToolError && /^Error: .*JSON/.test(error.content));
  });
}

test('an argument that is not a string, or not Unicode, is refused', async () => {
  const memory = new Memory('in-process:');
  await assert.rejects(memory.writeText('/memories/a', 7 as unknown as string), /invalid text: expected a string, got number/);
  await assert.rejects(memory.writeText('/memories/a', '\ud800'), /invalid text: the text contains U\+D800/);
  await assert.rejects(memory.rename('/memories/a', '/memories/\ud83d'), /invalid newPath: the text contains U\+D83D/);
  const tool = new MemoryTool(memory);
  const create = { command: 'create', path: '/memories/a', file_text: 'tea' } as const;
  for (const field of ['path', 'file_text']) {
    const input = { ...create, [field]: '/memories/bob\ud83d' };
    for (const call of [tool.call(input), tool.create(input)]) {
      await assert.rejects(call, (error) => error instanceof ToolError && /surrogate/.test(error.content));
    }
  }
  assert.deepEqual(await memory.list(), []);
});

/** A value of each option, with a text in place of its names. */
function optionsWith(text: string): Record<string, unknown> {
  const texts = ['scope', 'screen', 'auditLog', 'actor', 'log', 'keyFile', 'keyEnv', 'passphraseFile', 'padding', 'label'];
  const lists = ['pins', 'screenAlso', 'oldKeyFiles', 'oldKeyEnvs', 'oldPassphraseFiles', 'oldLabels'];
  const others = ['mustExist', 'timeout', 'createOverwrites', 'maxViewCharacters', 'readOnly', 'limits', 'maxFileBytes'];
  const rest = ['maxFiles', 'maxBytes', 'maxDepth', 'expireAfter', 'auditViews', 'auditSync', 'logPaths', 'key', 'oldKeys'];
  const mounts = { mounts: { [`/memories/${text}`]: 'in-process:' }, readOnlyMounts: new Map([[text, 'in-process:']]) };
  const values = [...texts, ...others, ...rest, 'wasUnlabeled'].map((name) => [name, text]);
  return { ...Object.fromEntries([...values, ...lists.map((name) => [name, [text]])]), ...mounts };
}

test('a lone surrogate in any option or location is refused', () => {
  for (const text of ['bob\ud83d', 'bob\ud83e', '\u{1f600}\udc00']) {
    const code = (text.codePointAt(text.length - 1) as number).toString(16).toUpperCase();
    const isRefused = (name: string) => (error: unknown) =>
      error instanceof RangeError && error.message.startsWith(`invalid ${name}: the text contains U+${code}, a lone surrogate`);
    const isRefusedAnyhow = (name: string) => (error: unknown) => String(error).includes(`invalid ${name}: `);
    for (const [name, value] of Object.entries(optionsWith(text))) {
      assert.throws(() => new Memory('in-process:', { [name]: value }), isRefusedAnyhow(name));
      assert.throws(() => new MemoryTool('in-process:', { [name]: value }), isRefusedAnyhow(name));
    }
    for (const location of [text, `sqlite:a.db?memory=${text}`]) {
      assert.throws(() => new Memory(location), isRefused('location'));
      assert.throws(() => new Memory('in-process:', { mounts: { '/memories/a': location } }), isRefused('location'));
    }
  }
});

test('a list that contains itself is refused', () => {
  for (const name of Object.keys(optionsWith(''))) {
    if (/mounts/i.test(name)) continue; // it is an object with the paths 0, 1 and so on
    assert.throws(() => new Memory('in-process:', { [name]: cyclic }), (error) => String(error).includes(`invalid ${name}: `));
  }
});

/** All that a program can print of an error. */
const shown = (error: unknown) => `${String(error)} ${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)}`;

test('no error and no representation contains a key', async () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, index) => index + 1));
  for (const secret of [bytes.toString('hex'), bytes.toString('base64')]) {
    for (const name of Object.keys(optionsWith('')).filter((name) => /key|pass/i.test(name))) {
      for (const value of [secret, [secret], Buffer.from(secret), [Buffer.from(secret)], { [secret]: 1 }, [[secret]]]) {
        const key = name.startsWith('old') ? { key: bytes } : {};
        const open = async () => Memory.open('in-process:', { ...key, [name]: value } as Options);
        await assert.rejects(open(), (error) => !shown(error).includes(secret));
      }
    }
  }
  const tool = await MemoryTool.open('in-process:', { key: bytes });
  for (const opened of [tool, tool.memory]) assert.doesNotMatch(shown(opened), /0a 0b 0c|0a0b0c|10, 11, 12/);
});

test('a leading tilde is the home directory', async () => {
  const [home, cwd] = [newPlace(), newPlace()];
  const source = `import { Memory, MemoryTool, OpenError } from ${JSON.stringify(import.meta.resolve('memory-tool'))};
    for (const location of ['~/a', 'file:~/b', 'sqlite:~/c.db']) await new Memory(location).writeText('/memories/x', 'tea');
    const tool = new MemoryTool('~/d', { auditLog: '~/audit', actor: 'alice' });
    await tool.memory.writeText('/memories/x', 'tea');
    for (const wrong of ['~alice/a', '$HOME/a', 'sqlite:$HOME/a.db']) {
      await MemoryTool.open(wrong).catch((error) => console.log(error instanceof OpenError));
    }
    await Memory.open('~/none', { mustExist: true }).catch((error) => console.log(error.kind));`;
  const env = { ...process.env, HOME: home };
  assertDone(await runNode(['--input-type=module', '--eval', source], { cwd, env }), 'true\ntrue\ntrue\nnot_found\n');
  const names = readdirSync(home).filter((name) => !name.startsWith('c.db'));
  assert.deepEqual(names.sort(), ['a', 'audit', 'b', 'd']);
  assert.deepEqual(readdirSync(cwd), []);
});

test('no error contains credentials of a URL', async () => {
  for (const scheme of ['s3', 'https', 'file', 'sqlite']) {
    const url = `${scheme}://bob:hunter2secret@host/a`;
    for (const open of [
      () => Memory.open(url),
      () => MemoryTool.open(url),
      () => Memory.open('in-process:', { mounts: { '/memories/a': url } }),
    ]) {
      const isOptionOrLocation = (error: unknown) => error instanceof memoryTool.OpenError || error instanceof RangeError;
      await assert.rejects(open, (error) => isOptionOrLocation(error) && !shown(error).includes('hunter2secret'));
    }
  }
});

test('mounts that are no memories are refused, and a map names others', async () => {
  const wrong: [unknown, RegExp][] = [
    [{ '/memories/a': 7 }, /expected a path, URL, memory or store, got 7/],
    [7, /invalid mounts/],
  ];
  for (const [mounts, message] of wrong) {
    assert.throws(() => new Memory('in-process:', { mounts } as Options), { name: 'TypeError', message });
  }
  const memory = new Memory('in-process:', { mounts: new Map([['/memories/docs', new Memory('in-process:')]]) });
  await memory.writeText('/memories/docs/a', 'tea');
});

test('the program', async () => {
  const place = newPlace();
  const store = ['--store', `sqlite:${place}/memory.db`];
  const created = await runNode([program, 'create', ...store, '/memories/a', '--text', 'tea']);
  assertDone(created, 'File created successfully at: /memories/a\n');
  assert.equal((await runNode([program, 'view', ...store, '/memories/b'])).status, 1);
  const wrong = await runNode([program, 'shred']);
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /unrecognized subcommand/);
  assert.equal(await new Memory(`sqlite:${place}/memory.db`).readText('/memories/a'), 'tea');
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`${signal} ends the program`, { timeout: 30_000 }, async () => {
    const child = spawn(process.execPath, [program, 'mcp', '--store', 'in-process:'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
    await once(child.stdout, 'data');
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  });
}
