// The search of a memory.

import assert from 'node:assert/strict';
import { InvalidPath, Memory, NotFound, SearchError } from 'memory-tool';
import { testOnDisks } from './support.js';

testOnDisks('names and lines are found, and mistakes are named', async (url) => {
  const memory = new Memory(url, { history: true });
  await memory.writeText('/memories/a.md', 'one\nGreen tea\nthree\n');
  await memory.writeText('/memories/tea/shop.md', 'Kyoto é');
  const report = await memory.search('tea', { context: 1 });
  assert.equal(report.text, '/memories/a.md\n1- one\n2: Green tea\n3- three\n\n/memories/tea/ (name)');
  const line = { number: 2, isMatch: true, text: 'Green tea', cutBefore: 0, cutAfter: 0 };
  assert.deepEqual(report.results[0]?.lines[1], line);
  assert.deepEqual([report.matches, report.moreMatches, report.stopped], [2, 0, null]);
  assert.equal((await memory.search('é$', { regex: true })).text, '/memories/tea/shop.md\n1: Kyoto é');
  const past = new Date(Date.now() - 24 * 60 * 60 * 1000);
  const matches = async (pattern: string, options?: Parameters<Memory['search']>[1]) =>
    (await memory.search(pattern, options)).matches;
  assert.equal(await matches('Tea'), 0);
  assert.equal(await matches('Tea', { case: 'ignored', only: 'text', within: ['/memories/a.md'] }), 1);
  assert.equal(await matches('tea', { since: past }), 2);
  assert.equal(await matches('tea', { before: past, maxMatches: 1, signal: null }), 0);
  assert.equal(await matches('kyoto', { at: 1 }), 0);

  const message = 'the regular expression is invalid: unclosed group (at character 1)';
  await assert.rejects(memory.search('(a', { regex: true }), new SearchError(message));
  await assert.rejects(memory.search('a', { regexp: true } as object), SearchError);
  await assert.rejects(memory.search('a', { within: ['/memories/b'] }), NotFound);
  await assert.rejects(memory.search('a', { within: ['b'] }), InvalidPath);
});
