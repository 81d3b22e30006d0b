// Runs the local-disk memory tool of Anthropic's TypeScript SDK over standard input and output.
//
// Usage: driver.mjs BASE_PATH
//
// Each input line is a `tool_use` block or only its `input`, in JSON. Each output line is a `tool_result` block. The
// files are in BASE_PATH/memories.

import process from 'node:process';

import { runRunnableTool } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool';
import { BetaLocalFilesystemMemoryTool, betaMemoryTool } from '@anthropic-ai/sdk/tools/memory/node';

const LINE_FEED = 0x0a;
const NO_CALL =
  'Error: The driver takes a tool_use block with id, name and an input object, or the input object alone';

async function main() {
  const tool = betaMemoryTool(await BetaLocalFilesystemMemoryTool.init(process.argv[2]));
  for await (const line of lines(process.stdin)) {
    process.stdout.write(`${JSON.stringify(await answer(tool, line))}\n`);
  }
}

// `readline` would also split lines at carriage returns and U+2028.
async function* lines(input) {
  let pieces = [];
  for await (const chunk of input) {
    let start = 0;
    for (let end; (end = chunk.indexOf(LINE_FEED, start)) !== -1; start = end + 1) {
      yield Buffer.concat([...pieces, chunk.subarray(start, end)]);
      pieces = [];
    }
    pieces.push(chunk.subarray(start));
  }
  const last = Buffer.concat(pieces);
  if (last.length > 0) yield last;
}

async function answer(tool, line) {
  let value;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
  } catch (error) {
    return errorResult(undefined, `Error: The driver cannot read the line as JSON: ${error.message}`);
  }

  const isBlock = value?.type === 'tool_use';
  const block = isBlock ? value : { name: tool.name, input: value };
  const id = typeof block.id === 'string' ? block.id : undefined;
  const hasNameAndInput = typeof block.name === 'string' && isObject(block.input);
  if (!hasNameAndInput || (isBlock && id === undefined)) return errorResult(id, NO_CALL);
  return runTool(tool, block);
}

// Mirrors `runToolCall` in the SDK's `BetaToolRunner`.
async function runTool(tool, toolUse) {
  if (toolUse.name !== tool.name) return errorResult(toolUse.id, `Error: Tool '${toolUse.name}' not found`);
  const outcome = await runRunnableTool(tool, toolUse.input, { toolUse, toolUseBlock: toolUse });
  return {
    type: 'tool_result',
    tool_use_id: toolUse.id,
    content: outcome.content,
    ...(outcome.isError ? { is_error: true } : undefined),
  };
}

function errorResult(id, content) {
  return { type: 'tool_result', tool_use_id: id, content, is_error: true };
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

await main();
