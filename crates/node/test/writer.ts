// Inserts lines into one file with concurrent calls: writer.js URL NAME TASKS INSERTS.

import { MemoryTool } from 'memory-tool';

const [url, name, tasks, inserts] = process.argv.slice(2) as [string, string, string, string];
const tool = new MemoryTool(url, { timeout: 120 });

async function insert(task: number): Promise<void> {
  for (let number = 0; number < Number(inserts); number++) {
    const line = `${name}.${task}.${number}`;
    await tool.call({ command: 'insert', path: '/memories/a', insert_line: 0, insert_text: line });
  }
}

await Promise.all(Array.from({ length: Number(tasks) }, (_, task) => insert(task)));
