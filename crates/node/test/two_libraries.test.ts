// A program may use a SQLite library of its own for the database of an open memory: no library drops the locks of the
// other.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Memory } from 'memory-tool';
import { isLong, newPlace } from './support.js';

const SECONDS = isLong ? 15 : 3;
const RUNS = isLong ? 10 : 1;
const program = join(import.meta.dirname, 'two_libraries.js');
const options = process.platform === 'linux' ? {} : { skip: 'only Linux has locks of open files' };
// Node.js 20 has no library of its own.
const libraries = ['better-sqlite3', ...['node:sqlite'].filter((library) => builtinModules.includes(library))];

for (const library of libraries) {
  for (const isKilled of [false, true]) {
    for (let run = 0; run < RUNS; run++) {
      test(`no file is lost beside ${library}${isKilled ? ' after a kill' : ''} (${run})`, options, async (context) => {
        const database = join(newPlace(), 'memory.db');
        await new Memory(`sqlite:${database}`).list();
        const outputs: string[] = [];
        const start = (seconds: number, name: string) => {
          outputs.push(`${database}.${name}.txt`);
          const output = openSync(outputs.at(-1)!, 'w');
          const words = [program, library, database, String(seconds), name];
          return spawn(process.execPath, words, { stdio: ['ignore', output, 'inherit'] });
        };
        const processes = ['both-1', 'both-2', 'memory-', 'host-'].map((name) => start(SECONDS, name));
        const ends = processes.map((process) => once(process, 'exit'));
        if (isKilled) {
          await sleep(SECONDS * 500);
          processes[0]!.kill('SIGKILL');
          await ends[0];
          ends[0] = once(start(SECONDS / 2, 'both-3'), 'exit');
        }
        assert.deepEqual((await Promise.all(ends)).map(([status]) => status), [0, 0, 0, 0]);
        const memory = new Memory(`sqlite:${database}`);
        assert.deepEqual((await memory.verify()).problems, []);
        const kept = new Set((await memory.list()).map(({ path }) => path));
        const written = outputs.flatMap((output) => readFileSync(output, 'utf8').split('\n').filter(Boolean));
        assert.deepEqual(written.filter((path) => !kept.has(path)), []);
        assert.deepEqual(new Set(written.map((path) => path.split('/')[2])), new Set(['memory', 'host', 'reopened']));
        context.diagnostic(`${written.length} acknowledged`);
      });
    }
  }
}
