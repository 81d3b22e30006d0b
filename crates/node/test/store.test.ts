// Stores in TypeScript.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as memoryTool from 'memory-tool';
import { type Batch, Memory, MemoryTool, type ReadOptions, type Store, ToolError } from 'memory-tool';
import { runConformance, testConformance } from 'memory-tool/conformance';
import { MapStore } from '../examples/map_store.js';

/** The same with promises. */
class AsyncMapStore implements Store {
  readonly inner = new MapStore();

  async read(path: string, options: ReadOptions) {
    await Promise.resolve();
    return this.inner.read(path, options);
  }

  async apply(batch: Batch) {
    await new Promise(setImmediate);
    this.inner.apply(batch);
  }
}

describe('the suite on a store', () => testConformance(() => new MapStore(), { races: 20 }));

test('the suite passes on a store with promises', async () => {
  const report = await runConformance(async () => new AsyncMapStore(), { races: 5 });
  assert(report.isSuccess, report.text);
});

test('the suite reports a fault', async () => {
  class Forgetful extends MapStore {
    override apply(batch: Batch) {
      batch.check(this);
    }
  }
  const report = await runConformance(() => new Forgetful(), { filters: ['create.'] });
  assert(!report.isSuccess);
  assert.match(report.text, /FAILED/);
});

test('the suite opens a store again', async () => {
  const report = await runConformance(() => new MapStore(), { reopen: (store) => store, filters: ['races.'], races: 5 });
  assert(report.isSuccess, report.text);
  assert(!report.results.some(({ lack }) => lack?.includes('reopen')), report.text);
});

test('the suite reports a store that cannot be created', async () => {
  const create = () => {
    throw new Error('no space');
  };
  const report = await runConformance(create, { filters: ['create.'] });
  assert(!report.isSuccess);
  assert.match(report.text, /no space/);
});

for (const kept of [new MapStore(), new AsyncMapStore()]) {
  test(`policies and encryption work over a store: ${kept.constructor.name}`, async () => {
    const key = Buffer.alloc(32);
    const options = { scope: 'alice', limits: true, maxFiles: 1, key, screen: 'refuse', expireAfter: 60 } as const;
    const tool = new MemoryTool(kept, options);
    await tool.call({ command: 'create', path: '/memories/a', file_text: 'tea' });
    assert.equal(await tool.memory.readText('/memories/a'), 'tea');
    await assert.rejects(tool.call({ command: 'create', path: '/memories/b', file_text: 'tea' }), ToolError);
    const { files } = kept instanceof AsyncMapStore ? kept.inner : kept;
    assert(files.size > 0 && ![...files.values()].some((content) => Buffer.from(content).includes('tea')));
  });
}

test('the entries of a listing keep their times', async () => {
  const modified = new Date('2026-01-02T03:04:05.678Z');
  const store = new MapStore();
  store.read = () => [{ path: '/memories/a', size: 3, modified, damaged: true }];
  const expected = { path: '/memories/a', size: 3, created: undefined, modified, damaged: true };
  assert.deepEqual(await new Memory(store).list(), [expected]);
});

for (const thrown of [new TypeError('disk /dev/sda is on fire'), 'a string']) {
  test(`a store can throw anything: ${String(thrown)}`, async () => {
    const store = new MapStore();
    store.apply = () => {
      throw thrown;
    };
    const call = new MemoryTool(store).call({ command: 'create', path: '/memories/a', file_text: 'tea' });
    await assert.rejects(call, (error) => error instanceof ToolError && /failed before it could confirm/.test(error.content));
    await assert.rejects(new Memory(store).writeText('/memories/a', 'tea'), (error) => {
      return error instanceof memoryTool.StoreFailure && error.cause === thrown;
    });
  });
}

test('a path that became too long is an invalid path', async () => {
  const store = new MapStore();
  const name = 'x'.repeat(250);
  store.files.set(`/memories/a/${name}/${name}/${name}/${name}`, Buffer.from('tea'));
  await assert.rejects(new Memory(store).rename('/memories/a', `/memories/${name}`), memoryTool.InvalidPath);
});

for (const returned of [7, { content: 'text', version: 'text' }, [{ path: '/etc', size: 1 }], [{ path: '/memories/a', size: -1 }]]) {
  test(`a store that returns ${JSON.stringify(returned)} fails`, async () => {
    const store = new MapStore();
    store.read = () => returned as never;
    await assert.rejects(new Memory(store).list(), memoryTool.StoreFailure);
  });
}

test('a state that throws fails the check', async () => {
  const store = new MapStore();
  const thrown = new Error('no state');
  store.stat = () => {
    throw thrown;
  };
  await assert.rejects(new Memory(store).writeText('/memories/a', 'tea'), (error) => {
    for (let cause: unknown = error; cause !== undefined; cause = (cause as Error).cause) {
      if (cause === thrown) return true;
    }
    return false;
  });
});

test('an object that is not a store is refused', () => {
  for (const given of [{}, null, undefined, 7]) {
    assert.throws(() => new Memory(given as unknown as Store), /which has no read/);
  }
});

test('a store can use a memory', async () => {
  const inner = new Memory('in-process:');
  class Counting extends AsyncMapStore {
    override async apply(batch: Batch) {
      await super.apply(batch);
      await inner.writeText('/memories/count', String((await inner.usage()).files));
    }
  }
  await new Memory(new Counting()).writeText('/memories/a', 'tea');
  assert.equal(await inner.readText('/memories/count'), '0');
});

test('concurrent edits of a store are all kept', async () => {
  const memory = new Memory(new AsyncMapStore());
  await memory.writeText('/memories/a', '');
  const tool = new MemoryTool(memory);
  const insert = () => tool.call({ command: 'insert', path: '/memories/a', insert_line: 0, insert_text: 'x' });
  await Promise.all(Array.from({ length: 80 }, insert));
  assert.equal((await memory.readText('/memories/a')).replaceAll('\n', '').length, 80);
});

test('an error that a program creates is retryable or not', () => {
  assert.equal(new memoryTool.OpenError('locked', 'busy').retryable, true);
  assert.equal(new memoryTool.VersionMismatch('/memories/a').retryable, false);
});

test('getters of a store can call a memory', async () => {
  const inner = new Memory('in-process:');
  const seen: Promise<void>[] = [];
  const see = (path: string) => void seen.push(inner.writeText(path, 'tea'));
  const file = {
    get content() {
      see('/memories/content');
      return Buffer.from('tea');
    },
    get version() {
      see('/memories/version');
      return Buffer.from('1');
    },
  };
  const memory = new Memory({ read: (path) => (path === '/memories/a' ? file : []), apply() {} });
  assert.equal(await memory.readText('/memories/a'), 'tea');
  await Promise.all(seen);
  assert.deepEqual((await inner.list()).map(({ path }) => path), ['/memories/content', '/memories/version']);
});

test('the timeout bounds a method that never returns', async () => {
  const never = new Promise<never>(() => {});
  const store = { read: (path: string) => (path === '/memories/a' ? never : []), apply: () => never };
  const tool = new MemoryTool(store, { timeout: 0.1 });
  const isFailure = (kind: string) => (error: unknown) => {
    assert(error instanceof memoryTool.StoreFailure);
    assert.match(String(error.cause), /did not return within the timeout of 0\.1 seconds/);
    return error.kind === kind;
  };
  await assert.rejects(tool.memory.readText('/memories/a'), isFailure('busy'));
  await assert.rejects(tool.memory.writeText('/memories/b', 'tea'), isFailure('outcome_unknown'));
  await assert.rejects(tool.call({ command: 'view', path: '/memories/a' }), /memory storage is busy/);
});

test('a path of a store that is not Unicode is a failure', async () => {
  const store = new MapStore();
  store.read = () => [{ path: '/memories/bob\ud83d', size: 1 }];
  await assert.rejects(new Memory(store).list(), (error) => {
    assert(error instanceof memoryTool.StoreFailure);
    assert.match(String(error.cause), /invalid path: the text contains U\+D83D/);
    return true;
  });
  assert.throws(() => memoryTool.replacePrefix('/memories/a', '/memories/a', '/memories/\ud83d'), RangeError);
});
