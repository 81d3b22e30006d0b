// Writes to a SQLite store for some seconds, with `Memory` and with a SQLite library of the same process:
// two_libraries.js LIBRARY DATABASE SECONDS NAME. The name starts with `both-`, `memory-` or `host-`. Prints the path of
// each acknowledged file, whose text is its path. The process may be killed at any time. Any error other than a lock
// ends it with a status other than 0.

import assert from 'node:assert/strict';
import { rmSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Memory } from 'memory-tool';

/** What `better-sqlite3` and `node:sqlite` have in common. */
interface Connection {
  exec(sql: string): void;
  prepare(sql: string): { run(...values: unknown[]): unknown; get(): unknown };
  backup?(path: string): Promise<unknown>;
  close(): void;
}

const [library, database, seconds, name] = process.argv.slice(2) as [string, string, string, string];
const INSERT_FILE = `INSERT INTO file (memory, path, size, content_id, created_at, modified_at)
  VALUES ('default', ?, ?, last_insert_rowid(), 0, 0)`;
const TORN_FILES = `SELECT count(*) AS torn FROM file LEFT JOIN content ON content.id = content_id
  WHERE CAST(bytes AS TEXT) IS NOT path`;
const require = createRequire(import.meta.url);
const end = Date.now() + Number(seconds) * 1000;
const isRunning = () => Date.now() < end;

function connect(path = database): Connection {
  if (library === 'node:sqlite') return new (require(library).DatabaseSync)(path, { timeout: 0 });
  return new (require(library))(path, { timeout: 0 });
}

const acknowledge = (path: string) => writeSync(1, `${path}\n`);

/** Repeats while the database is locked. Waiting in the library would block the event loop, and so the memory. */
async function patiently<T>(attempt: () => T): Promise<Awaited<T>> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!/locked|busy/i.test(String(error))) throw error;
      await sleep(1);
    }
  }
}

async function write(): Promise<void> {
  const memory = new Memory(`sqlite:${database}`, { timeout: 120 });
  for (let number = 0; isRunning(); number++) {
    const path = `/memories/memory/${name}/${number}`;
    await memory.writeText(path, path);
    acknowledge(path);
  }
}

async function reopen(): Promise<void> {
  for (let number = 0; isRunning(); number++) {
    const path = `/memories/reopened/${name}/${number}`;
    const memory = new Memory(`sqlite:${database}`, { timeout: 120 });
    await memory.writeText(path, path);
    acknowledge(path);
    memory.close();
  }
}

async function writeWithHost(): Promise<void> {
  for (let number = 0; isRunning(); number++) {
    const path = `/memories/host/${name}/${number}`;
    const connection = connect();
    await patiently(() => connection.exec('BEGIN IMMEDIATE'));
    connection.prepare('INSERT INTO content (bytes) VALUES (CAST(? AS BLOB))').run(path);
    connection.prepare(INSERT_FILE).run(path, path.length);
    await sleep(2);
    connection.exec('COMMIT');
    acknowledge(path);
    connection.close();
    await sleep(10);
  }
}

/** No read is torn. */
function check(connection: Connection): void {
  assert.deepEqual({ ...(connection.prepare(TORN_FILES).get() as object) }, { torn: 0 });
}

async function readWithHost(): Promise<void> {
  const copy = `${database}.${name}`;
  const copies = [
    (connection: Connection) => connection.exec(`VACUUM INTO '${copy}'`),
    (connection: Connection) => connection.backup?.(copy) ?? connection.exec(`VACUUM INTO '${copy}'`),
  ];
  while (isRunning()) {
    for (const make of copies) {
      const connection = connect();
      await patiently(() => check(connection));
      await patiently(() => make(connection));
      connection.exec('PRAGMA wal_checkpoint(PASSIVE)');
      connection.close();
      const copied = connect(copy);
      check(copied);
      assert.deepEqual({ ...(copied.prepare('PRAGMA integrity_check').get() as object) }, { integrity_check: 'ok' });
      copied.close();
      rmSync(copy);
    }
    await sleep(50);
  }
}

const own = [write, reopen];
const ofHost = [writeWithHost, readWithHost];
const tasks = name.startsWith('both-') ? [...own, ...ofHost] : name.startsWith('host-') ? ofHost : own;
await Promise.all(tasks.map((task) => task()));
