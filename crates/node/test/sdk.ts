// The runner of the SDK.

import Anthropic from '@anthropic-ai/sdk';
import { betaMemoryTool, type MemoryToolHandlers } from '@anthropic-ai/sdk/helpers/beta/memory';
import type { MemoryTool } from 'memory-tool';
import { type Block, type MessagesApi, withMessagesApi } from './messages_api.js';

/** Plays a script with the runner of the SDK. Returns the API and the last message. */
export function converse(tool: MemoryTool, ...script: Block[][]): Promise<[MessagesApi, Anthropic.Beta.BetaMessage]> {
  const handlers: MemoryToolHandlers = tool;
  return withMessagesApi(script, async (api) => {
    const client = new Anthropic({ apiKey: 'none', baseURL: api.url, maxRetries: 0 });
    const message = await client.beta.messages.toolRunner({
      model: 'claude-opus-5-5',
      max_tokens: 1000,
      messages: [{ role: 'user', content: 'Remember that I like tea.' }],
      tools: [betaMemoryTool(handlers)],
    });
    return [api, message];
  });
}
