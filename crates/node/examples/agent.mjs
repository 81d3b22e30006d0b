// An agent with a memory: node agent.mjs "I take my tea without milk."

import Anthropic from '@anthropic-ai/sdk';
import { betaMemoryTool } from '@anthropic-ai/sdk/helpers/beta/memory';
import { MemoryTool } from 'memory-tool';

const tool = betaMemoryTool(new MemoryTool('sqlite:memory.db?memory=alice', { limits: true }));
const messages = [{ role: 'user', content: process.argv[2] }];
const message = await new Anthropic().beta.messages.toolRunner({
  model: 'claude-opus-5-5', max_tokens: 8192, messages, tools: [tool] });
console.log(message.content.at(-1).text);
