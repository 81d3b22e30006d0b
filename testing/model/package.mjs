// The tool of the package for Node.js, over lines of JSON. Arguments: the package's module, the store, the actor and more
// options with the names of Python.

import { createInterface } from 'node:readline';

const [module, store, actor, options] = process.argv.slice(2);
const { MemoryTool, ToolError } = await import(module);
const inCamelCase = options.replace(/_(.)(?=\w*":)/g, (_, letter) => letter.toUpperCase());
const tool = new MemoryTool(store, { history: true, actor, ...JSON.parse(inCamelCase) });
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
