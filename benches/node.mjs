// Compares the package for Node.js with the local tool of Anthropic's SDK. benches/README.md describes it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const TEXT = 'A line of 63 characters, which is about as long as most are.\n'.repeat(66);
const [ROUNDS, CALLS] = [41, 20];
// The modules that are installed in the current folder.
const require = createRequire(join(process.cwd(), 'index.js'));
const [ours, sdk] = ['memory-tool', '@anthropic-ai/sdk/tools/memory/node'].map(
  (name) => pathToFileURL(require.resolve(name)).href,
);

/** The value that this part of the numbers does not exceed. */
const quantile = (numbers, part) => numbers.toSorted((a, b) => a - b)[Math.round((numbers.length - 1) * part)];
const median = (numbers) => quantile(numbers, 0.5);

/** Times commands of both tools in this process, in turns. */
async function compare(place) {
  const { MemoryTool } = await import(ours);
  const { BetaLocalFilesystemMemoryTool } = await import(sdk);
  const tools = {
    SDK: await BetaLocalFilesystemMemoryTool.init(join(place, 'sdk')),
    SQLite: new MemoryTool(`sqlite:${place}/ours.db`),
    local: new MemoryTool(join(place, 'ours')),
  };
  const names = Object.keys(tools);
  for (const name of names) {
    await tools[name].create({ command: 'create', path: '/memories/a.txt', file_text: `${TEXT}marker 0\n` });
  }
  const marker = Object.fromEntries(names.map((name) => [name, 0]));
  const commands = {
    view: (name) => tools[name].view({ command: 'view', path: '/memories/a.txt' }),
    str_replace: (name) => {
      const old_str = `marker ${marker[name]++}`;
      const new_str = `marker ${marker[name]}`;
      return tools[name].str_replace({ command: 'str_replace', path: '/memories/a.txt', old_str, new_str });
    },
  };
  console.log('| 4 KB | local | SQLite | SDK | SDK / local | quartiles | SDK / SQLite | quartiles |');
  console.log('|---|---|---|---|---|---|---|---|');
  for (const [command, call] of Object.entries(commands)) {
    const times = Object.fromEntries(names.map((name) => [name, []]));
    for (let turn = 0; turn < ROUNDS; turn++) {
      for (const name of turn % 2 ? names : names.toReversed()) {
        const started = performance.now();
        for (let number = 0; number < CALLS; number++) await call(name);
        times[name].push(((performance.now() - started) / CALLS) * 1e3);
      }
    }
    const cells = ['local', 'SQLite', 'SDK'].map((name) => `${median(times[name]).toFixed(0)}µs`);
    for (const name of ['local', 'SQLite']) {
      const ratios = times[name].map((own, turn) => times.SDK[turn] / own);
      const [low, middle, high] = [0.25, 0.5, 0.75].map((part) => quantile(ratios, part).toFixed(2));
      cells.push(middle, `${low}–${high}`);
    }
    console.log(`| \`${command}\` | ${cells.join(' | ')} |`);
  }
}

/** Times new processes, in turns. */
function start(place) {
  const location = JSON.stringify(join(place, 'ours'));
  const load = (name, module) => `const { ${name} } = await import(${JSON.stringify(module)});`;
  const sdkTool = load('BetaLocalFilesystemMemoryTool', sdk);
  const programs = {
    'Node.js': '',
    'import, and a read with `Memory`': `${load('Memory', ours)} await new Memory(${location}).readText('/memories/a.txt');`,
    "import of the SDK's tool": sdkTool,
  };
  const times = Object.fromEntries(Object.keys(programs).map((name) => [name, []]));
  for (let round = 0; round < 11; round++) {
    for (const [name, source] of Object.entries(programs)) {
      const started = performance.now();
      execFileSync(process.execPath, ['--input-type=module', '--eval', source]);
      times[name].push(performance.now() - started);
    }
  }
  console.log('\n| start | median |\n|---|---|');
  for (const [name, rounds] of Object.entries(times)) console.log(`| ${name} | ${median(rounds).toFixed(0)}ms |`);
}

const place = mkdtempSync(join(tmpdir(), 'memory-tool-bench-'));
try {
  await compare(place);
  start(place);
} finally {
  rmSync(place, { recursive: true });
}
