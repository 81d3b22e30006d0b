// Processes, threads, cancellation and exits.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { Memory, MemoryTool, ToolError } from 'memory-tool';
import { assertDone, full, isLong, newPlace, root, runModule, testOnDisks, testOnStores } from './support.js';

const TASKS = 8;
const INSERTS = isLong ? 50 : 10;
const run = promisify(execFile);
const writer = join(import.meta.dirname, 'writer.js');

type Start = (url: string, name: string) => Promise<unknown>;
const node: Start = (url, name) => run(process.execPath, [writer, url, name, String(TASKS), String(INSERTS)]);

/** Requires that a file keeps all inserts of several processes. */
async function assertAllKept(url: string, writers: Record<string, Start>): Promise<void> {
  const memory = new Memory(url);
  await memory.writeText('/memories/a', '');
  await Promise.all(Object.entries(writers).map(([name, start]) => start(url, name)));
  const lines = (await memory.readText('/memories/a')).split('\n').filter(Boolean);
  const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);
  const tasks = Object.keys(writers).flatMap((name) => numbers(TASKS).map((task) => `${name}.${task}`));
  const expected = tasks.flatMap((task) => numbers(INSERTS).map((number) => `${task}.${number}`));
  assert.deepEqual(lines.sort(), expected.sort());
}

testOnStores('no insert of two processes is lost', (url) => assertAllKept(url, { a: node, b: node }));

// `.ci/python` leaves this interpreter, and `.ci/node` requires it in the full tier.
const interpreter = process.env['MEMORY_TOOL_PYTHON'] ?? '';
const withPython = existsSync(interpreter) ? {} : { skip: 'MEMORY_TOOL_PYTHON is not a Python with the package' };
const script = join(root, 'test', 'python_writer.py');
const python: Start = (url, name) => run(interpreter, ['-B', script, url, name, String(TASKS), String(INSERTS)]);

testOnStores(
  'no insert of two Python processes and one of Node.js is lost',
  (url) => assertAllKept(url, { python1: python, python2: python, node }),
  withPython,
);

/** A store whose methods take a while. */
const SLOW_STORE = `{
  read: (path) => new Promise((resolve) => setTimeout(resolve, 400, path === '/memories' ? [] : undefined)),
  apply: () => new Promise((resolve) => setTimeout(resolve, 400)),
}`;

testOnDisks('the event loop runs during calls', async (url) => {
  const memory = await Memory.open(url);
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  for (let round = 0; round < 30 && ticks <= 5; round++) { // a fast disk can end a round within 5 ms
    ticks = 0;
    const writes = Array.from({ length: 200 }, (_, number) => memory.writeText(`/memories/${number}`, 'tea'.repeat(1000)));
    await Promise.all(writes);
  }
  clearInterval(timer);
  assert(ticks > 5, String(ticks));
});

testOnStores('a cancelled call leaves the old state or the new', async (url) => {
  const memory = await Memory.open(url);
  const outcomes = new Set<boolean>();
  for (let number = 0; number < 100; number++) {
    const [before, after] = [`old ${number}`, `new ${number}`.repeat(1000)];
    await memory.writeText('/memories/a', before);
    const controller = new AbortController();
    const call = memory.writeText('/memories/a', after, { signal: controller.signal });
    const settled = call.then(() => true, (error: unknown) => error !== controller.signal.reason);
    if (number % 2 === 1) await sleep(number / 50);
    controller.abort();
    const isDone = await settled;
    const found = await memory.readText('/memories/a');
    assert(found === after || (!isDone && found === before), found.slice(0, 20));
    outcomes.add(isDone);
  }
  assert(outcomes.has(false));
});

test('a signal that is already aborted stops the call', async () => {
  const memory = new Memory('in-process:');
  const reason = new Error('stop');
  const call = memory.writeText('/memories/a', 'tea', { signal: AbortSignal.abort(reason) });
  await assert.rejects(call, (error) => error === reason);
  assert.deepEqual(await memory.list(), []);
});

for (const hanging of ['', '/memories/a']) {
  test(`a cancelled call does not wait for a store that hangs at ${hanging || 'every path'}`, async () => {
    let release = () => {};
    const released = new Promise<undefined>((resolve) => (release = () => resolve(undefined)));
    const read = (path: string) => (path.startsWith(hanging) ? released : path === '/memories' ? [] : undefined);
    const memory = new Memory({ read, apply: () => {} });
    const signal = AbortSignal.timeout(100);
    await assert.rejects(memory.readText('/memories/a', { signal }), { name: 'TimeoutError' });
    release();
  });
}

test('an open memory and a store do not keep the process alive', async () => {
  const source = `import { Memory } from 'memory-tool';
    const memories = [new Memory(process.argv[1]), new Memory(${SLOW_STORE})];
    for (const memory of memories) console.log((await memory.list()).length);
    globalThis.memories = memories;`;
  const started = performance.now();
  assertDone(await runModule(source, [join(newPlace(), 'memory')]), '0\n0\n');
  assert(performance.now() - started < 20_000);
});

test('a call keeps the process alive until it ends', async () => {
  const source = `import { Memory } from 'memory-tool';
    new Memory(${SLOW_STORE}).list().then(() => console.log('end'));`;
  assertDone(await runModule(source), 'end\n');
});

for (const kind of ['write', 'store']) {
  test(`the process can exit during a call: ${kind}`, async () => {
    const source = `import { Memory } from 'memory-tool';
      const [kind, url] = process.argv.slice(1);
      const memory = await Memory.open(kind === 'write' ? url : ${SLOW_STORE});
      const work = async (name) => {
        for (;;) await (kind === 'write' ? memory.writeText('/memories/' + name, 'tea'.repeat(1000)) : memory.list());
      };
      for (let name = 0; name < 8; name++) void work(name);
      setTimeout(() => { console.log('end'); process.exit(); }, 200);`;
    for (let round = 0; round < 3; round++) {
      assertDone(await runModule(source, [kind, join(newPlace(), 'memory')]), 'end\n');
    }
  });
}

testOnStores('a killed process leaves whole files, and the others can go on', async (url) => {
  const memory = new Memory(url);
  await memory.writeText('/memories/a', '');
  for (let round = 0; round < 3; round++) {
    const child = spawn(process.execPath, [writer, url, `killed${round}`, '8', '100000'], { stdio: 'ignore' });
    const exited = once(child, 'exit');
    while (!(await memory.readText('/memories/a')).includes(`killed${round}`)) {
      assert.equal(child.exitCode, null);
      await sleep(10);
    }
    await sleep(200);
    child.kill('SIGKILL');
    await exited;
    await new MemoryTool(memory).call({ command: 'insert', path: '/memories/a', insert_line: 0, insert_text: 'alive' });
  }
  const lines = (await memory.readText('/memories/a')).split('\n').filter(Boolean);
  assert.equal(lines.filter((line) => line === 'alive').length, 3);
  assert(lines.every((line) => line === 'alive' || /^killed\d\.\d\.\d+$/.test(line)));
});

/** Runs a module in a worker thread. */
function startWorker(source: string, workerData: unknown): Worker {
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`), { workerData });
}

const PACKAGE = JSON.stringify(import.meta.resolve('memory-tool'));

testOnStores('worker threads share a memory', async (url) => {
  const memory = new Memory(url);
  await memory.writeText('/memories/a', '');
  const source = `import { MemoryTool } from ${PACKAGE};
    import { workerData } from 'node:worker_threads';
    const tool = new MemoryTool(workerData);
    for (let number = 0; number < 50; number++) {
      await tool.call({ command: 'insert', path: '/memories/a', insert_line: 0, insert_text: 'x' });
    }`;
  const exits = Array.from({ length: 4 }, () => once(startWorker(source, url), 'exit'));
  assert.deepEqual(await Promise.all(exits), [[0], [0], [0], [0]]);
  assert.equal((await memory.readText('/memories/a')).replaceAll('\n', '').length, 200);
});

test('a worker thread can be terminated during calls', async () => {
  const url = join(newPlace(), 'memory');
  const source = `import { Memory } from ${PACKAGE};
    import { parentPort, workerData } from 'node:worker_threads';
    const memories = [await Memory.open(workerData), await Memory.open(${SLOW_STORE})];
    const work = async (memory, name) => { for (;;) await memory.writeText('/memories/' + name, 'tea').catch(() => {}); };
    for (const memory of memories) for (let name = 0; name < 8; name++) void work(memory, name);
    parentPort.postMessage('started');`;
  for (let round = 0; round < 10; round++) {
    const worker = startWorker(source, url);
    await once(worker, 'message');
    await sleep(round * 5);
    await worker.terminate();
  }
  const memory = new Memory(url);
  await memory.writeText('/memories/a', 'alive');
  assert.equal(await memory.readText('/memories/a'), 'alive');
});

testOnDisks(
  'many calls need no more memory',
  async (url) => {
    const tool = new MemoryTool(url);
    const slow = new MemoryTool({ read: () => undefined, apply: () => {} });
    await tool.call({ command: 'create', path: '/memories/a', file_text: 'tea\n'.repeat(100) });
    const calls = async (count: number) => {
      for (let number = 0; number < count; number++) {
        await tool.call({ command: 'view', path: '/memories/a' });
        if (number % 100 !== 0) continue;
        const wrong = { command: 'view', path: '/memories/none' };
        await assert.rejects(tool.call(wrong), ToolError);
        await assert.rejects(slow.call(wrong), ToolError);
        await tool.memory.writeText('/memories/b', 'tea'.repeat(number % 1000));
      }
    };
    const resident = () => {
      globalThis.gc?.();
      return process.memoryUsage().rss;
    };
    await calls(20_000);
    const before = resident();
    await calls(isLong ? 100_000 : 20_000);
    const grown = resident() - before;
    assert(grown < 16 * 1024 * 1024, `${grown}`);
  },
  { ...full, timeout: 600_000 },
);
