// Runs every method of the memory stores of the TypeScript SDK.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import process from 'node:process';

// The SDK is in the current directory.
const require = createRequire(`${process.cwd()}/client.mjs`);
const { default: Anthropic, ConflictError } = require('@anthropic-ai/sdk');

const [baseURL, apiKey] = process.argv.slice(2);
const { memoryStores: stores } = new Anthropic({ baseURL, apiKey }).beta;
const sha = (text) => createHash('sha256').update(text).digest('hex');
const all = async (list) => {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
};

const store = await stores.create({ name: 'Notes', metadata: { a: '1' } });
assert.deepEqual(await stores.retrieve(store.id), store);
assert.equal((await stores.update(store.id, { metadata: { a: null } })).metadata.a, undefined);
assert.equal((await all(stores.list({ limit: 1, include_archived: true }))).length, 1);

const memory = await stores.memories.create(store.id, { path: '/a.md', content: 'one' });
await stores.memories.create(store.id, { path: '/b/c.md', content: '' });
const inStore = { memory_store_id: store.id };
assert.equal((await stores.memories.retrieve(memory.id, inStore)).content, 'one');
const listed = await all(stores.memories.list(store.id, { depth: 1, limit: 1 }));
assert.deepEqual(listed.map((item) => item.type), ['memory', 'memory_prefix']);
const precondition = { type: 'content_sha256', content_sha256: sha('one') };
const changed = { ...inStore, content: 'two', path: '/d.md', precondition };
assert.equal((await stores.memories.update(memory.id, changed)).id, memory.id);
await assert.rejects(stores.memories.update(memory.id, { ...changed, content: 'three' }), ConflictError);

const versions = await all(stores.memoryVersions.list(store.id, { memory_id: memory.id, limit: 1 }));
assert.deepEqual(versions.map((version) => version.operation), ['modified', 'created']);
assert.ok((await stores.memoryVersions.redact(versions[1].id, inStore)).redacted_at);
assert.equal((await stores.memoryVersions.retrieve(versions[0].id, inStore)).content, 'two');
const expected = { ...inStore, expected_content_sha256: sha('two') };
assert.equal((await stores.memories.delete(memory.id, expected)).type, 'memory_deleted');
assert.ok((await stores.archive(store.id)).archived_at);
assert.equal((await stores.delete(store.id)).type, 'memory_store_deleted');
console.log('passed');
