// `onChange` and `watch`.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Memory, type MemoryChange, MemoryTool } from 'memory-tool';
import { newPlace, testWithoutServer } from './support.js';

const change = (operation: MemoryChange['operation'], path: string, rest: Partial<MemoryChange> = {}) => {
  return { operation, path, oldPath: null, size: null, actor: null, ...rest };
};

testWithoutServer('a function receives changes', async (location) => {
  const found: MemoryChange[] = [];
  const onChange = (reported: MemoryChange) => {
    found.push(reported);
    throw new Error('a fault of the function');
  };
  const tool = new MemoryTool(location, { onChange, actor: 'claude' });
  const warned = once(process, 'warning');
  await tool.call({ command: 'create', path: '/memories/a', file_text: 'tea' });
  await tool.call({ command: 'str_replace', path: '/memories/a', old_str: 'tea', new_str: 'mate' });
  await assert.rejects(tool.call({ command: 'str_replace', path: '/memories/a', old_str: 'none', new_str: '' }));
  await tool.call({ command: 'rename', old_path: '/memories/a', new_path: '/memories/b' });
  await tool.memory.remove('/memories/b');
  const actor = 'claude';
  assert.deepEqual(found, [
    change('write', '/memories/a', { size: 3, actor }),
    change('edit', '/memories/a', { size: 4, actor }),
    change('rename', '/memories/b', { oldPath: '/memories/a', actor }),
    change('remove', '/memories/b', { actor }),
  ]);
  assert.match(String((await warned)[0]), /a fault of the function/);
  assert.throws(() => new Memory(location, { onChange: 'print' as never }), /invalid onChange: expected a function/);
});

testWithoutServer('changes of a handle are by its actor', async (location) => {
  const memory = new Memory(location, { history: true });
  const support = memory.by('support');
  await support.writeText('/memories/a', 'tea');
  const tool = new MemoryTool(memory.by('claude'));
  await tool.call({ command: 'delete', path: '/memories/a' });
  await support.close();
  await memory.writeText('/memories/a', 'coffee');
  const actors = (await memory.history().log()).map((entry) => entry.actor);
  assert.deepEqual(actors, [undefined, 'claude', 'support']);
  const undone = await memory.by('support', { reason: 'a\ntypo' }).history().undo();
  assert.deepEqual([undone.actor, undone.reason], ['support', 'a typo']);
  for (const actor of ['', 'a\n', 'x'.repeat(257)]) {
    assert.throws(() => memory.by(actor), /^RangeError: invalid actor: /);
  }
  await memory.close();
  await assert.rejects(memory.by('support').readText('/memories/a'), /the memory is closed/);
});

testWithoutServer('a watch reports changes and ends', async (location) => {
  const memory = new Memory(location);
  const expected = [
    change('write', '/memories/a', { size: 3 }),
    change('rename', '/memories/b', { oldPath: '/memories/a' }),
  ];
  {
    await using watch = await memory.watch();
    const first = watch.next();
    await memory.writeText('/memories/a', 'tea');
    await memory.rename('/memories/a', '/memories/b');
    assert.deepEqual((await first).value, expected.shift());
    for await (const reported of watch) {
      if (isDeepStrictEqual(reported, expected[0])) break; // a change may be reported twice
      assert.match(reported.path, /^\/memories\/[ab]$/);
    }
  }
  const ended = await memory.watch();
  const next = ended.next();
  await ended.return();
  assert.deepEqual(await next, { done: true, value: undefined });
  for await (const _ of ended) assert.fail('the watch has ended');
});

test('a watch reports the changes of others', async () => {
  const place = join(newPlace(), 'memory');
  const watch = await new Memory(place).watch();
  await new Memory(place).writeText('/memories/a', 'tea');
  for await (const reported of watch) {
    assert.deepEqual(reported, change('write', '/memories/a', { size: 3 }));
    break;
  }
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
});
