// The history of a memory.

import assert from 'node:assert/strict';
import { HistoryError, InvalidPath, Memory, MemoryTool } from 'memory-tool';
import { testOnDisks } from './support.js';

testOnDisks('changes are listed, taken back and redacted', async (url) => {
  const tool = new MemoryTool(url, { history: true, actor: 'alice' });
  await tool.call({ command: 'create', path: '/memories/a.md', file_text: 'one\n' });
  const memory = new Memory(url); // continues it without the option
  await memory.writeText('/memories/a.md', 'two\n');
  await memory.rename('/memories/a.md', '/memories/b.md');
  const history = memory.history();
  const [newest, changed, created] = await history.log({ path: '/memories/b.md' });
  assert.deepEqual([created?.number, created?.actor, created?.command, created?.origin], [1, 'alice', 'create', 'edit']);
  assert(Math.abs(Number(created?.time) - Date.now()) < 60_000);
  assert.equal(changed?.changes[0]?.change, 'write');
  assert.deepEqual(newest?.changes, [{ change: 'rename', from: '/memories/a.md', to: '/memories/b.md' }]);
  assert.equal(await history.readText('/memories/a.md', 1), 'one\n');
  assert((await history.diff(1, 2)).endsWith('@@ -1 +1 @@\n-one\n+two\n'));

  const undone = await history.undo(2, { by: 'bob' });
  assert.deepEqual([undone.origin, undone.of, undone.actor], ['undo', [3, 2], 'bob']);
  assert.equal(await memory.readText('/memories/a.md'), 'one\n');
  assert.deepEqual((await history.redo()).of, [4]);
  assert.equal((await history.restore('/memories', 1)).origin, 'restore');
  assert.deepEqual((await history.revert([6], { force: true })).of, [6]);
  await history.redact([2]);
  const page = await history.log({ limit: 3, before: 4 });
  assert.deepEqual(
    page.map(({ number, redacted }) => [number, redacted]),
    [
      [3, false],
      [2, true],
      [1, false],
    ],
  );
  await history.clear();
  assert.deepEqual(await history.log(), []);
  await memory.writeText('/memories/c.md', 'three\n');
  await memory.forget();
  assert.deepEqual(await history.log(), []);
  assert.deepEqual(await memory.list(), []);
});

testOnDisks('errors name the reason', async (url) => {
  const history = new Memory(url).history();
  await assert.rejects(history.undo(), (error) => error instanceof HistoryError && /nothing to undo/.test(error.message));
  await assert.rejects(history.log({ path: '/elsewhere' }), InvalidPath);
  assert.deepEqual(await history.log(), []);
});

testOnDisks('all changes of a memory have its actor', async (url) => {
  const memory = new Memory(url, { history: true, actor: 'agent' });
  await memory.writeText('/memories/a.md', 'one');
  await memory.append('/memories/a.md', 'two');
  await memory.rename('/memories/a.md', '/memories/b.md');
  await memory.history().undo();
  await memory.remove('/memories/a.md');
  const actors = (await memory.history().log()).map((entry) => entry.actor);
  assert.deepEqual(actors, new Array(5).fill('agent'));
});
