// An agent of Vercel's AI SDK with a memory: node agent.mjs "I take my tea without milk."

import { anthropic } from '@ai-sdk/anthropic';
import { generateText, isStepCount, jsonSchema } from 'ai';
import { MemoryTool, ToolError } from 'memory-tool';

/** The tool `memory` for `generateText`, `streamText` or an agent: memory_20250818. */
export function memoryTool(memory) {
  const tool = anthropic.tools.memory_20250818({
    async execute(command) {
      try {
        return await memory.call(command);
      } catch (error) {
        throw error instanceof ToolError ? error.content : error; // what is thrown becomes a result with `is_error`
      }
    },
    toModelOutput: ({ output }) =>
      typeof output === 'string'
        ? { type: 'text', value: output }
        : { type: 'content', value: output.map(imageOf) },
  });
  // The memory checks commands. The schema of the AI SDK refuses some that Claude may send, such as a `str_replace`
  // without `new_str`, and Claude would read the error of the schema.
  return { ...tool, inputSchema: jsonSchema({ type: 'object', properties: {} }) };
}

function imageOf({ source }) {
  return { type: 'file', data: { type: 'data', data: source.data }, mediaType: source.media_type };
}

if (process.argv[1] === import.meta.filename) {
  const { text } = await generateText({
    model: anthropic('claude-opus-5-5'),
    tools: { memory: memoryTool(new MemoryTool('sqlite:memory.db?memory=alice', { limits: true })) },
    stopWhen: isStepCount(20),
    prompt: process.argv[2],
  });
  console.log(text);
}
