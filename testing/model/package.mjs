// The tool of the package for Node.js, over lines of JSON. Arguments: the package's module, the store and the actor.

import { createInterface } from 'node:readline';

const [module, store, actor] = process.argv.slice(2);
const { MemoryTool, ToolError } = await import(module);
const tool = new MemoryTool(store, { history: true, actor });
for await (const line of createInterface({ input: process.stdin })) {
  let result;
  try {
    result = { content: await tool.call(JSON.parse(line)) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    result = { content: error.content, is_error: true };
  }
  console.log(JSON.stringify(result));
}
