// Memories: operations, options and errors.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import * as memoryTool from 'memory-tool';
import { Memory, MemoryTool, type Options, ToolError } from 'memory-tool';
import { assertDone, full, newPlace, program, runNode, testOnDisks, testOnStores } from './support.js';

async function useTheMethods(url: string): Promise<void> {
  const memory = await Memory.open(url);
  await memory.writeText('/memories/a.txt', 'é\r\n');
  assert.equal(await memory.readText('/memories/a.txt'), 'é\r\n');
  await memory.rename('/memories/a.txt', '/memories/b/c.txt');
  const [entry, ...others] = await memory.list();
  assert.deepEqual([entry?.path, entry?.size, entry?.damaged, others], ['/memories/b/c.txt', 4, false, []]);
  assert.deepEqual(await memory.list('/memories/none'), []);
  assert.deepEqual(await memory.usage(), { files: 1, bytes: 4, depth: 2 });
  assert.equal(await new Memory(url).readText('/memories/b/c.txt'), 'é\r\n');
  await memory.remove('/memories/b');
  await Promise.all(Array.from({ length: 50 }, (_, number) => memory.writeText(`/memories/${number}`, 'tea')));
  assert.equal((await memory.usage()).files, 50);
  await memory.clear();
  assert.deepEqual(await memory.usage(), { files: 0, bytes: 0, depth: 0 });
}

testOnStores('the methods', useTheMethods, {}, full);

testOnDisks('entries have times', async (url) => {
  const memory = new Memory(url);
  await memory.writeText('/memories/a', 'tea');
  const [entry] = await memory.list();
  assert(Math.abs(Number(entry?.modified) - Date.now()) < 60_000);
});

test('a location can be a URL object', async () => {
  const place = newPlace();
  await new Memory(pathToFileURL(place)).writeText('/memories/a', 'tea');
  assert.equal(readFileSync(join(place, 'memories', 'a'), 'utf8'), 'tea');
  assert.equal(await new Memory(`file:${place}`).readText('/memories/a'), 'tea');
});

type StoreErrorName = 'NotFound' | 'NotAFile' | 'NotADirectory' | 'AlreadyExists' | 'InvalidPath';
const ERRORS: [(memory: Memory) => Promise<unknown>, StoreErrorName, string][] = [
  [(memory) => memory.readText('/memories/none'), 'NotFound', '/memories/none does not exist'],
  [(memory) => memory.readText('/memories/d'), 'NotAFile', '/memories/d is a directory, not a file'],
  [(memory) => memory.writeText('/memories/a/b', ''), 'NotADirectory', '/memories/a is a file, not a directory'],
  [(memory) => memory.writeText('/memories/d', ''), 'AlreadyExists', '/memories/d already exists'],
  [(memory) => memory.rename('/memories/a', '/memories/d'), 'AlreadyExists', '/memories/d already exists'],
  [(memory) => memory.readText('/etc'), 'InvalidPath', 'Path must start with /memories, got: /etc'],
];

for (const [call, name, message] of ERRORS) {
  test(`an error has a class and a path: ${message}`, async () => {
    const memory = new Memory('in-process:');
    await memory.writeText('/memories/a', 'tea');
    await memory.writeText('/memories/d/e', 'tea');
    await assert.rejects(call(memory), (error) => {
      assert(error instanceof memoryTool[name] && error instanceof memoryTool.StoreError);
      assert.deepEqual([error.name, error.message], [name, message]);
      return true;
    });
  });
}

test('an open error has the cause of the storage', async () => {
  const place = newPlace();
  await assert.rejects(Memory.open(join(place, 'none'), { mustExist: true }), (error) => {
    assert(error instanceof memoryTool.OpenError);
    assert.equal(error.kind, 'not_found');
    assert.equal(error.message, `there is no memory store at file://${place}/none`);
    assert.equal((error.cause as NodeJS.ErrnoException).code, 'ENOENT');
    return true;
  });
  await assert.rejects(Memory.open('foo:bar'), /at foo:bar/);
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

test('numbers are those of JSON', async () => {
  const tool = new MemoryTool('in-process:');
  await tool.memory.writeText('/memories/a', '1\n2\n3');
  const reply = await tool.call({ command: 'view', path: '/memories/a', view_range: [2, 1e30] });
  assert.equal(reply, "Here's the content of /memories/a with line numbers:\n     2\t2\n     3\t3");
});

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

testOnStores('scopes share a store and not their files', async (url) => {
  const [alice, bob] = [new Memory(url, { scope: 'alice' }), new Memory(url, { scope: 'bob' })];
  await alice.writeText('/memories/a', 'tea');
  assert.deepEqual(await bob.list(), []);
  assert.deepEqual((await new Memory(url).list()).map(({ path }) => path), ['/memories/scope-alice/a']);
});

testOnStores('a read-only memory refuses changes', async (url) => {
  await new Memory(url).writeText('/memories/a', 'tea');
  const memory = new Memory(url, { readOnly: true });
  await assert.rejects(memory.writeText('/memories/b', 'tea'), (error) => {
    assert(error instanceof memoryTool.Refused);
    assert.deepEqual([error.path, error.policy], ['/memories/b', 'read-only']);
    return true;
  });
  await assert.rejects(new MemoryTool(memory).delete({ command: 'delete', path: '/memories/a' }), /^.*read-only/);
});

test('limits', async () => {
  const memory = new Memory('in-process:', { limits: true, maxFiles: 1, maxBytes: 10 });
  await memory.writeText('/memories/a', 'tea');
  await assert.rejects(memory.writeText('/memories/b', 'tea'), memoryTool.Refused);
  await assert.rejects(memory.writeText('/memories/a', 'x'.repeat(11)), memoryTool.Refused);
});

test('mounts', async () => {
  const docs = join(newPlace(), 'docs');
  const team = new Memory('in-process:');
  await team.writeText('/memories/plan', 'tea at four');
  await new Memory(docs).writeText('/memories/page', 'docs');
  const readOnlyMounts = new Map([['/memories/docs', docs]]);
  const memory = new Memory('in-process:', { mounts: { '/memories/team': team }, readOnlyMounts });
  assert.equal(await memory.readText('/memories/team/plan'), 'tea at four');
  await memory.writeText('/memories/team/new', 'milk');
  assert.equal(await team.readText('/memories/new'), 'milk');
  await assert.rejects(memory.writeText('/memories/docs/page', 'changed'), memoryTool.Refused);
});

testOnStores('expiry', async (url) => {
  const memory = new Memory(url, { expireAfter: 90 * 24 * 3600, pins: ['/memories/keep'] });
  await memory.writeText('/memories/keep', 'tea');
  assert.equal(await new Memory(url, { expireAfter: 7.5 }).readText('/memories/keep'), 'tea');
});

test('screening', async () => {
  const secret = 'postgres://app:t7Kq-9vLz2@db.internal/app';
  const refusing = new Memory('in-process:', { screen: 'refuse' });
  const isScreening = (error: unknown) => error instanceof memoryTool.Refused && error.policy === 'screening';
  await assert.rejects(refusing.writeText('/memories/a', secret), isScreening);
  const memory = new Memory('in-process:', { screen: 'redact', screenAlso: ['iban'] });
  await memory.writeText('/memories/a', `${secret} DE89370400440532013000`);
  assert.doesNotMatch(await memory.readText('/memories/a'), /t7Kq|DE89/);
});

test('the audit log records changes', async () => {
  const auditLog = join(newPlace(), 'audit');
  const tool = new MemoryTool('in-process:', { auditLog, actor: 'alice', auditViews: true, auditSync: true });
  await tool.call({ command: 'create', path: '/memories/a', file_text: 'tea' });
  assert.match(readFileSync(auditLog, 'utf8'), /"alice"[^]*\/memories\/a/);
});

testOnStores('encryption', async (url) => {
  const key = Uint8Array.from({ length: 32 }, (_, index) => index);
  const keyFile = join(newPlace(), 'key');
  writeFileSync(keyFile, Buffer.from(key).toString('hex'), { mode: 0o600 });
  const memory = new Memory(url, { key, padding: 'padme', label: 'alice' });
  await memory.writeText('/memories/a', 'tea');
  await assert.rejects(Memory.open(url), (error) => /encrypted/.test(String((error as Error).cause)));
  assert.equal(await new Memory(url, { keyFile, label: 'alice' }).readText('/memories/a'), 'tea');
  await assert.rejects(Memory.open(url, { key, label: 'bob' }), memoryTool.OpenError);
  await assert.rejects(Memory.open(url, { keyFile: `${keyFile}-none` }), /cannot use the key/);
});

test('keys do not apply to mounted memories', async () => {
  const [team, url] = [new Memory('in-process:'), `sqlite:${join(newPlace(), 'docs.db')}`];
  const mounts = { '/memories/team': team, '/memories/docs': url };
  const memory = new Memory('in-process:', { key: Buffer.alloc(32), mounts });
  for (const name of ['team', 'docs']) await memory.writeText(`/memories/${name}/a`, 'tea');
  assert.equal(await team.readText('/memories/a'), 'tea');
  await assert.rejects(Memory.open(url), memoryTool.OpenError); // they apply to paths and URLs
});

test('a dry run changes nothing', async () => {
  const place = join(newPlace(), 'memory');
  const memory = new Memory(place, { dryRun: true });
  await memory.writeText('/memories/a', 'tea');
  assert.equal(await memory.readText('/memories/a'), 'tea');
  assert(!existsSync(place));
});

test('create overwrites, and the limit of views', async () => {
  const tool = new MemoryTool('in-process:', { createOverwrites: true, maxViewCharacters: 20 });
  for (const text of ['tea', 'milk\n'.repeat(10)]) {
    await tool.call({ command: 'create', path: '/memories/a', file_text: text });
  }
  assert.match(String(await tool.call({ command: 'view', path: '/memories/a' })), /view_range/);
  const unlimited = new MemoryTool(tool.memory, { maxViewCharacters: null });
  assert.doesNotMatch(String(await unlimited.call({ command: 'view', path: '/memories/a' })), /view_range/);
});

const WRONG_OPTIONS: [object, typeof TypeError | typeof RangeError, string][] = [
  [{ read_only: true }, TypeError, 'unknown option read_only'],
  [{ maxFiles: 'many' }, TypeError, 'invalid maxFiles: expected a whole number, not negative, got string "many"'],
  [{ maxFiles: 1.5 }, TypeError, 'invalid maxFiles'],
  [{ readOnly: 'yes' }, TypeError, 'invalid readOnly: expected a boolean'],
  [{ pins: '/memories/a', expireAfter: 1 }, TypeError, 'invalid pins'],
  [{ pins: ['/a'], expireAfter: 1 }, RangeError, 'invalid pins: Path must start with /memories'],
  [{ pins: ['/memories/a'] }, RangeError, 'pins requires expireAfter'],
  [{ expireAfter: -1 }, RangeError, 'invalid expireAfter'],
  [{ screen: 'hide' }, RangeError, 'invalid screen: unknown variant `hide`, expected `refuse` or `redact`'],
  [{ screen: 'refuse', screenAlso: ['mood'] }, RangeError, 'invalid screenAlso: expected one of personal, '],
  [{ auditLog: 'log' }, RangeError, 'auditLog requires actor'],
  [{ scope: '' }, RangeError, 'invalid scope'],
  [{ key: Buffer.from('short') }, RangeError, 'invalid key: expected 32 bytes, got 5'],
  [{ key: Buffer.alloc(32), keyEnv: 'KEY' }, RangeError, 'set only one of key, keyFile, keyEnv and passphraseFile'],
  [{ label: 'alice' }, RangeError, 'requires a key'],
  [{ log: 'all' }, RangeError, 'invalid log'],
  [{ mounts: { '/memories/a': 7 } }, TypeError, 'expected a path, URL, memory or store, got 7'],
  [{ mounts: 7 }, TypeError, 'invalid mounts'],
];

for (const [options, ErrorClass, message] of WRONG_OPTIONS) {
  test(`a wrong option is refused: ${message}`, () => {
    const isExpected = (error: Error) => error instanceof ErrorClass && error.message.includes(message);
    assert.throws(() => new Memory('in-process:', options as Options), isExpected);
    assert.throws(() => new MemoryTool('in-process:', options as Options), isExpected);
  });
}

test('the program', async () => {
  const place = newPlace();
  const store = ['--store', `sqlite:${place}/memory.db`];
  const created = await runNode([program, 'create', ...store, '/memories/a', '--text', 'tea']);
  assertDone(created, 'File created successfully at: /memories/a\n');
  assert.equal((await runNode([program, 'view', ...store, '/memories/b'])).status, 1);
  const wrong = await runNode([program, 'shred']);
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /unrecognized subcommand/);
  mkdirSync(join(place, 'new'));
  const words = ['conformance', '--store', join(place, 'new', 'memory'), '--filter', 'restarts.'];
  const tested = await runNode([program, ...words]);
  assert.equal(tested.status, 0, tested.stdout + tested.stderr);
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
