// The page `docs/sdk-comparison.md`: the directory of the SDK's tool is a local store.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { betaMemoryTool } from '@anthropic-ai/sdk/helpers/beta/memory';
import { BetaLocalFilesystemMemoryTool } from '@anthropic-ai/sdk/tools/memory/node';
import { MemoryTool } from 'memory-tool';
import { newPlace, root } from './support.js';

type Tool = ReturnType<typeof betaMemoryTool>;

/** The tools before and after the change of the page's line, for a memory in this folder. */
async function toolsOf(memory: string): Promise<[Tool, Tool]> {
  const page = readFileSync(join(root, '..', '..', 'docs', 'sdk-comparison.md'), 'utf8');
  const lines = /```diff\n-const tool = (.+);\n\+const tool = (.+);\n/.exec(page)?.slice(1) ?? [];
  assert.equal(lines.length, 2);
  const expressions = lines.map((line) => line.replace("'./memory'", 'memory'));
  const source = `return (async () => [${expressions.join(', ')}])()`;
  const names = ['memory', 'betaMemoryTool', 'BetaLocalFilesystemMemoryTool', 'MemoryTool'];
  return new Function(...names, source)(memory, betaMemoryTool, BetaLocalFilesystemMemoryTool, MemoryTool);
}

test("the SDK's tool and this one read and edit the same files", async () => {
  const memory = join(newPlace(), 'memory');
  const [before, after] = await toolsOf(memory);
  const path = '/memories/people/notes.md';
  const view = { command: 'view', path } as const;
  const edit = (old_str: string, new_str: string) => ({ command: 'str_replace', path, old_str, new_str }) as const;
  await before.run({ command: 'create', path, file_text: 'Prefers tea.\n' });
  assert.deepEqual(readdirSync(memory), ['memories']);
  assert.match(String(await after.run(view)), /\tPrefers tea\.\n/);
  await after.run(edit('tea', 'coffee'));
  assert.match(String(await before.run(view)), /\tPrefers coffee\.\n/);
  await before.run(edit('coffee', 'milk'));
  assert.match(String(await after.run(view)), /\tPrefers milk\.\n/);
  assert.doesNotMatch(String(await before.run({ command: 'view', path: '/memories' })), /\.memory-tool/);
  const modes = ['memories/people/notes.md', 'memories/people', 'memories', '.memory-tool'].map((entry) =>
    (statSync(join(memory, entry)).mode & 0o777).toString(8),
  );
  assert.deepEqual(modes, ['600', '700', '700', '700']);
});
