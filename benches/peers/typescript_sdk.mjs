// Times the memory tool of Anthropic's TypeScript SDK. Prints the median seconds of each workload as JSON.

import { createRequire } from 'node:module';

const [modules, directory, rounds, files, size] = process.argv.slice(2);
const { BetaLocalFilesystemMemoryTool } = createRequire(modules + '/')('@anthropic-ai/sdk/tools/memory/node');
const tool = await BetaLocalFilesystemMemoryTool.init(directory + '/few');
const many = await BetaLocalFilesystemMemoryTool.init(directory + '/many');
const text = 'line of text\n'.repeat(size).slice(0, size - 2) + 'A\n';

async function median(work, count) {
  const times = [];
  for (let number = 0; number < count; number++) {
    const start = process.hrtime.bigint();
    await work(number);
    times.push(Number(process.hrtime.bigint() - start) / 1e9);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}

const path = '/memories/file.txt';
await tool.create({ command: 'create', path, file_text: text });
for (let number = 0; number < files; number++) {
  await many.create({ command: 'create', path: `/memories/d${number % 100}/${number}.txt`, file_text: 'x' });
}
const edit = (number) => {
  const [old_str, new_str] = number % 2 === 0 ? ['A\n', 'B\n'] : ['B\n', 'A\n'];
  // This tool matches within one line, so the texts must not contain a line feed.
  return tool.str_replace({ command: 'str_replace', path, old_str: old_str.trim(), new_str: new_str.trim() });
};
console.log(
  JSON.stringify({
    view: await median(() => tool.view({ command: 'view', path }), rounds),
    create: await median(
      (number) => tool.create({ command: 'create', path: `/memories/new/${number}.txt`, file_text: text }),
      rounds,
    ),
    edit: await median(edit, rounds),
    list: await median(() => many.view({ command: 'view', path: '/memories' }), 10),
  }),
);
