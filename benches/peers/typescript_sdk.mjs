// The memory tool of Anthropic's TypeScript SDK in the comparison: runs the jobs of `compare/contestant.rs`.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [modules, base] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { BetaLocalFilesystemMemoryTool } = require('@anthropic-ai/sdk/tools/memory/node');
const { version } = JSON.parse(readFileSync(modules + '/node_modules/@anthropic-ai/sdk/package.json'));
const tools = new Map();

async function tool(store) {
  if (!tools.has(store)) tools.set(store, await BetaLocalFilesystemMemoryTool.init(store));
  return tools.get(store);
}

const secondsSince = (start) => Number(process.hrtime.bigint() - start) / 1e9;

async function runSession(tool, commands) {
  const [seconds, failures] = [[], []];
  let reply = '';
  for (const command of commands) {
    const start = process.hrtime.bigint();
    try {
      reply = await tool[command.command](command);
    } catch (error) {
      failures.push(String(error));
    }
    seconds.push(secondsSince(start));
  }
  return { seconds, failures, reply };
}

async function run(job) {
  const opened = [];
  for (const session of job) opened.push(await tool(session.store));
  const start = process.hrtime.bigint();
  const sessions = await Promise.all(job.map(({ commands }, index) => runSession(opened[index], commands)));
  return {
    elapsed: secondsSince(start),
    seconds: sessions.flatMap(({ seconds }) => seconds),
    failures: sessions.flatMap(({ failures }) => failures),
    replies: sessions.map(({ reply }) => reply),
  };
}

process.chdir(base);
console.log(JSON.stringify(`@anthropic-ai/sdk ${version}`));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
