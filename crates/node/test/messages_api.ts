// A local Messages API that plays a script: one list of content blocks for each response.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';

export interface Block {
  type: string;
  [field: string]: unknown;
}

export interface Request {
  tools: unknown[];
  messages: { content: Block[] }[];
}

export class MessagesApi {
  /** The bodies of the received requests. */
  readonly requests: Request[] = [];
  url = '';

  /** The `tool_result` blocks of the last message of a request, by their ids. */
  results(request = -1): Record<string, Block> {
    const content = this.requests.at(request)?.messages.at(-1)?.content ?? [];
    return Object.fromEntries(content.map((block) => [block['tool_use_id'], block]));
  }
}

export function use(id: string, input: object): Block {
  return { type: 'tool_use', id, name: 'memory', input };
}

export function text(words: string): Block {
  return { type: 'text', text: words };
}

export async function withMessagesApi<T>(script: Block[][], run: (api: MessagesApi) => Promise<T>): Promise<T> {
  const api = new MessagesApi();
  const responses = [...script];
  const server = createServer(async (request, response) => {
    api.requests.push(JSON.parse(await readText(request)) as Request);
    const content = responses.shift() ?? [];
    const isCall = content.some(({ type }) => type === 'tool_use');
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        id: `msg_${api.requests.length}`,
        type: 'message',
        role: 'assistant',
        model: 'claude-opus-5-5',
        content,
        stop_reason: isCall ? 'tool_use' : 'end_turn',
        stop_sequence: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  api.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    return await run(api);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
