// The clients of npm for `clients.py`: node clients.mjs NAME stdio COMMAND... | http URL TOKEN

const [name, kind, ...given] = process.argv.slice(2);
const stdio = kind === 'stdio';
const [command, ...args] = given;
const [url, token] = given;
const headers = { Authorization: `Bearer ${token}` };

async function transport() {
  if (stdio) {
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    return new StdioClientTransport({ command, args });
  }
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

// Each driver returns a function that calls the tool `memory` as the framework does, and one that ends the client.
const drivers = {
  async '@modelcontextprotocol/sdk'() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const client = new Client({ name: 'clients', version: '1' });
    await client.connect(await transport());
    return [(input) => client.callTool({ name: 'memory', arguments: input }), () => client.close()];
  },
  async '@ai-sdk/mcp'() {
    const { createMCPClient } = await import('@ai-sdk/mcp');
    const { Experimental_StdioMCPTransport: Stdio } = await import('@ai-sdk/mcp/mcp-stdio');
    const client = await createMCPClient({ transport: stdio ? new Stdio({ command, args }) : { type: 'http', url, headers } });
    const { memory } = await client.tools();
    return [(input) => memory.execute(input, { toolCallId: 't', messages: [] }), () => client.close()];
  },
  async '@langchain/mcp-adapters'() {
    const { MultiServerMCPClient } = await import('@langchain/mcp-adapters');
    const memory = stdio ? { transport: 'stdio', command, args } : { transport: 'http', url, headers };
    const client = new MultiServerMCPClient({ mcpServers: { memory } });
    const tool = (await client.getTools()).find(({ name }) => name.endsWith('memory'));
    return [(input) => tool.invoke(input), () => client.close()];
  },
  async '@openai/agents'() {
    const { MCPServerStdio, MCPServerStreamableHttp } = await import('@openai/agents');
    const server = stdio
      ? new MCPServerStdio({ command, args })
      : new MCPServerStreamableHttp({ url, requestInit: { headers } });
    await server.connect();
    return [(input) => server.callTool('memory', input), () => server.close()];
  },
};

function textOf(result) {
  if (typeof result === 'string') return result;
  const inner = Array.isArray(result) ? result[0] : (result?.content ?? result?.text);
  return inner === undefined ? JSON.stringify(result) : textOf(inner);
}

const [call, close] = await drivers[name]();
const caught = async (input) => {
  try {
    return textOf(await call(input));
  } catch (error) {
    return `raised: ${error.message}`;
  }
};
let order = 0;
for (let number = 0; number < 20; number += 1) {
  const [old, path] = [`/memories/${process.pid}-${number}-old`, `/memories/${process.pid}-${number}`];
  const results = await Promise.all([
    caught({ command: 'create', path: old, file_text: '1\n' }),
    caught({ command: 'str_replace', path: old, old_str: '1', new_str: 'one' }),
    caught({ command: 'insert', path: old, insert_line: 1, insert_text: 'two' }),
    caught({ command: 'rename', old_path: old, new_path: path }),
    caught({ command: 'view', path }),
  ]);
  order += results[4].includes('1\tone\n     2\ttwo\n') ? 1 : 0;
}
const path = `/memories/${process.pid}.txt`;
const created = await caught({ command: 'create', path, file_text: `a\u2028b\u0085c\r\n😀${'x'.repeat(100_000)}` });
const missing = (await caught({ command: 'view', path: '/memories/none' })).slice(0, 200);
const range = (await caught({ command: 'view', path, view_range: [2, 2] })).includes('     2\t');
console.log(JSON.stringify({ order, create: created, missing, range }));
await close();
process.exit(0);
