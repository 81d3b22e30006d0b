// What several tests use.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import type { Location } from 'memory-tool';
import { MapStore } from '../examples/map_store.js';

const tier = process.env['MEMORY_TOOL_TESTS'] ?? '';
export const isLong = tier === 'long';
/** The folder of the package. */
export const root = join(import.meta.dirname, '..', '..');
/** The program `memory-tool`. */
export const program = join(root, 'dist', 'bin.js');
/** The options of a test that runs only in the full tier. */
export const full = ['full', 'long'].includes(tier) ? {} : { skip: 'MEMORY_TOOL_TESTS is not full' };
/** The options of a test that runs only in the long tier. */
export const long = isLong ? {} : { skip: 'MEMORY_TOOL_TESTS is not long' };

const places: string[] = [];
after(() => places.forEach((place) => rmSync(place, { recursive: true, force: true })));

/** A new, empty folder. */
export function newPlace(): string {
  const place = mkdtempSync(join(tmpdir(), 'memory-tool-'));
  places.push(place);
  return place;
}

/** Registers a test for each kind of store that needs no server. */
export function testWithoutServer(name: string, run: (location: Location) => Promise<void>): void {
  const stores: Record<string, () => Location> = {
    local: () => join(newPlace(), 'memory'),
    SQLite: () => `sqlite:${newPlace()}/memory.db`,
    'in-process': () => 'in-process:',
    custom: () => new MapStore(),
  };
  for (const [kind, location] of Object.entries(stores)) test(`${name} (${kind})`, () => run(location()));
}

/** Registers a test for local disk, and one for SQLite. */
export function testOnDisks(name: string, run: (url: string, context: TestContext) => Promise<void>, options = {}): void {
  test(`${name} (local)`, options, (context) => run(join(newPlace(), 'memory'), context));
  test(`${name} (SQLite)`, options, (context) => run(`sqlite:${newPlace()}/memory.db`, context));
}

/** Registers a test for each disk, and one for each cloud. Only the long tier runs the latter, without other options. */
export function testOnStores(
  name: string,
  run: (url: string, context: TestContext) => Promise<void>,
  options = {},
  cloudOptions = long,
): void {
  testOnDisks(name, run, options);
  test(`${name} (postgres)`, { ...full, ...options }, (context) => run(newMemory(), context));
  for (const cloud of ['s3', 'gs', 'az']) {
    test(`${name} (${cloud})`, { ...cloudOptions, ...options }, (context) => run(newPrefix(cloud), context));
  }
}

/** The URL of a new memory in the database. */
function newMemory(): string {
  const database = process.env['MEMORY_TOOL_POSTGRES'];
  assert(database !== undefined, 'no servers are running: start the tests with .ci/node');
  return `${database}?memory=${randomUUID()}`;
}

/** The URL of a new, empty store in a bucket. */
function newPrefix(cloud: string): string {
  const buckets = process.env['MEMORY_TOOL_BUCKETS']?.split(' ') ?? [];
  const bucket = buckets.find((bucket) => bucket.startsWith(`${cloud}:`));
  assert(bucket !== undefined, 'no servers are running: start the tests with .ci/node');
  return `${bucket}/${randomUUID()}`;
}

export interface Done {
  status: number | string | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

interface RunOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  timeout?: number;
}

/** Runs Node.js with these arguments. */
export function runNode(words: string[], options: RunOptions = {}): Promise<Done> {
  return runProgram(process.execPath, words, options);
}

/** Runs the program of the suite. */
export function runSuite(words: string[]): Promise<Done> {
  const suite = process.env['MEMORY_TOOL_SUITE'];
  assert(suite !== undefined, 'there is no program of the suite: start the tests with .ci/node');
  return runProgram(suite, words, { timeout: 600_000 });
}

/** Runs commands of the shell, which may build the package. */
export function runShell(commands: string, options: RunOptions): Promise<Done> {
  return runProgram('bash', ['-euc', commands], { timeout: 1_200_000, ...options });
}

function runProgram(file: string, words: string[], options: RunOptions): Promise<Done> {
  return new Promise((resolve) => {
    const child = execFile(file, words, { timeout: 60_000, ...options }, (error, stdout, stderr) => {
      resolve({ status: child.exitCode, signal: child.signalCode ?? error?.signal ?? null, stdout, stderr });
    });
    child.stdin?.end();
  });
}

/** Runs a module with this source, in which `memory-tool` can be imported. */
export function runModule(source: string, words: string[] = []): Promise<Done> {
  return runNode(['--input-type=module', '--eval', source, '--', ...words], { cwd: root });
}

/** Requires that a process ended well, with this output. */
export function assertDone(done: Done, stdout: string): void {
  assert.deepEqual({ status: done.status, stdout: done.stdout }, { status: 0, stdout }, done.stderr);
}
