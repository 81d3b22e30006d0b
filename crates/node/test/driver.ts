// Serves a tool over standard input and output, for the conformance suite of programs.
// Usage: driver.js DIRECTORY [--create-overwrites] [--max-view-chars N|none]

import { MemoryTool, ToolError } from 'memory-tool';

const [directory, ...words] = process.argv.slice(2);
const characters = words.includes('--max-view-chars') ? words[words.indexOf('--max-view-chars') + 1] : undefined;
const tool = new MemoryTool(directory as string, {
  createOverwrites: words.includes('--create-overwrites'),
  ...(characters !== undefined && { maxViewCharacters: characters === 'none' ? null : Number(characters) }),
});

/** The `tool_result` of a line. */
async function answer(line: Buffer): Promise<object> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
  } catch (error) {
    return result(undefined, `Error: The line is not JSON: ${String(error)}`, true);
  }
  const isBlock = typeof value === 'object' && value !== null && 'type' in value && value.type === 'tool_use';
  const block = (isBlock ? value : { name: 'memory', input: value }) as { id?: unknown; name?: unknown; input?: unknown };
  const id = typeof block.id === 'string' ? block.id : undefined;
  if (block.name !== 'memory' || !('input' in block) || (isBlock && id === undefined)) {
    const given = JSON.stringify(value).slice(0, 1000);
    return result(id, `Error: Expected an id, the name memory and an input, got ${given}`, true);
  }
  try {
    return result(id, await tool.call(block.input), false);
  } catch (error) {
    if (error instanceof ToolError) return result(id, error.content, true);
    throw error;
  }
}

function result(id: string | undefined, content: unknown, isError: boolean): object {
  return { type: 'tool_result', content, ...(id !== undefined && { tool_use_id: id }), ...(isError && { is_error: true }) };
}

async function print(line: Buffer): Promise<void> {
  process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
}

let rest = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  rest = Buffer.concat([rest, chunk as Buffer]);
  for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
    const line = rest.subarray(0, end);
    rest = rest.subarray(end + 1);
    await print(line);
  }
}
if (rest.length > 0) await print(rest);
