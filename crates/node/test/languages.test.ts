// The table in `docs/languages.md` has the public names of the handle.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as memoryTool from 'memory-tool';
import { Memory } from 'memory-tool';
import { root } from './support.js';

/** The names in the column for TypeScript. */
function namesInTable(): string[] {
  const page = readFileSync(join(root, '..', '..', 'docs', 'languages.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('|')).slice(2);
  const names = rows.flatMap((row) => Array.from(row.split('|')[4]?.matchAll(/`(.*?)`/g) ?? [], ([, name]) => name as string));
  return [...new Set(names)].filter((name) => name !== 'await using');
}

test('the table has every public name and no other', () => {
  const names = namesInTable();
  const options = names.filter((name) => name.startsWith('{')).map((name) => name.replace(/[{} ]/g, ''));
  const classes = names.filter((name) => /^[A-Z]/.test(name));
  const methods = names.filter((name) => /^[a-z]/.test(name));
  const members = [...Object.getOwnPropertyNames(Memory.prototype), ...Object.getOwnPropertyNames(Memory)];
  const hidden = ['constructor', 'length', 'name', 'prototype'];
  const isPublic = (name: string) => !hidden.includes(name) && !name.startsWith('_');
  assert.deepEqual(methods.toSorted(), members.filter(isPublic).toSorted());
  assert(Symbol.asyncDispose in Memory.prototype);
  assert.deepEqual(classes, ['Memory', 'MemoryTool'].filter((name) => name in memoryTool));
  const declared = readdirSync(join(root, 'dist')).filter((name) => name.endsWith('.d.ts'));
  const types = declared.map((name) => readFileSync(join(root, 'dist', name), 'utf8')).join('\n');
  assert(options.includes('ifText') && options.includes('onChange'));
  for (const option of options) assert.match(types, new RegExp(`^  {2,}${option}\\?:`, 'm'));
});
