#!/usr/bin/env bash
# PGlite 0.5.17, PostgreSQL in Node.js with a directory of the disk, never flushes a file, whatever its settings say.
# It starts with `-F`, so `fsync` is off, while `synchronous_commit` is on. ALTER SYSTEM cannot change that, but
# `startParams` can: then SHOW reports fsync on and fdatasync for the log, and commits, CHECKPOINT and close still make
# no system call that flushes, because the file system between the server and Node.js has none. After a power cut an
# acknowledged memory can be gone, or the database damaged. A statement_timeout is accepted as well, and ends nothing.
#
# Guess: with fsync on, a commit is on the disk when it is acknowledged; and a setting that cannot work is refused.
# Behavior: no flush, and no timeout.
# Fails if this changes. Needs the package strace of Debian 12, Node.js 20 with npm, and npm.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @electric-sql/pglite@0.5.17
cat >control.mjs <<'JS'
import { fsyncSync, openSync } from 'node:fs';

fsyncSync(openSync('control', 'w'));
console.log('Node.js itself');
JS
cat >memory.mjs <<'JS'
import { PGlite } from '@electric-sql/pglite';

const [, , dataDir, fsync] = process.argv;
const startParams = PGlite.defaultStartParams.filter((parameter) => fsync === 'off' || parameter !== '-F');
const db = new PGlite({ dataDir, startParams });
const show = async (name) => `${name} ${(await db.query(`SHOW ${name}`)).rows[0][name]}`;
const shown = [await show('fsync'), await show('synchronous_commit'), await show('wal_sync_method')];
await db.exec('CREATE TABLE memory (path text PRIMARY KEY, content text)');
for (let number = 0; number < 10; number += 1) {
  await db.query('INSERT INTO memory VALUES ($1, $2)', [`/memories/${number}`, 'text']);
}
await db.exec('CHECKPOINT');
await db.exec("SET statement_timeout = '100ms'");
const sleep = await db.query('SELECT pg_sleep(1)').then(() => 'sleeps 1 s despite 100 ms', (error) => error.message);
await db.close();
console.log(`${shown.join(', ')}; ${sleep}`);
JS
flushes() { # COMMAND
    strace -f -qq -e trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync -e signal=none -o trace "$@"
    echo "  $(grep -c sync trace || true) flushes"
}
{
    flushes node control.mjs
    flushes node memory.mjs off off
    flushes node memory.mjs on on
} | tee found
diff found - <<'TEXT'
Node.js itself
  1 flushes
fsync off, synchronous_commit on, wal_sync_method fdatasync; sleeps 1 s despite 100 ms
  0 flushes
fsync on, synchronous_commit on, wal_sync_method fdatasync; sleeps 1 s despite 100 ms
  0 flushes
TEXT
