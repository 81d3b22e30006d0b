#!/usr/bin/env python3
"""Runs clients of the Model Context Protocol, each in its pinned version, against `memory-tool mcp` and `serve`.

Usage: .ci/clients.py PROGRAM [CLIENT...]

Prints a row for each client and transport: turns of five parallel calls that were right, two clients at the same time
with one token for each and with one for both, a missing file as the program of the client gets it, and the forms of
fields. Exits with 1 if a client gets other texts than before, or loses the order in docs/mcp/clients.csv.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# The packages of each client, and the turns of 20 that must be right over stdio and HTTP. `None` is not run.
CLIENTS = {
    "mcp": (["mcp==2.3.0"], 20, 20),
    "mcp-1": (["mcp==1.30.0"], 20, 20),
    "fastmcp": (["fastmcp==4.1.6"], 20, 20),
    "langchain": (["langchain-mcp-adapters==0.3.2"], 20, 20),
    "openai-agents": (["openai-agents==0.24.0"], 20, 20),
    "pydantic-ai": (["pydantic-ai-slim[mcp]==2.68.0"], 20, 20),
    "strands": (["strands-agents==1.62.0"], 20, 20),
    "llama-index": (["llama-index-tools-mcp==0.6.0"], 0, None),  # a process for each call, so without order
    "autogen": (["autogen-ext[mcp]==0.7.5", "autogen-agentchat==0.7.5", "mcp<2"], 20, None),
    "dspy": (["dspy==3.4.1", "mcp<2"], 20, None),
    "mcp-use": (["mcp-use==1.7.1"], 20, 20),
    "agno": (["agno==3.1.10", "fastmcp==4.1.6"], 20, None),
    "semantic-kernel": (["semantic-kernel[mcp]==1.45.0"], 20, None),
    "npm:@modelcontextprotocol/sdk": (["@modelcontextprotocol/sdk@1.32.2"], 20, 20),
    "npm:@ai-sdk/mcp": (["@ai-sdk/mcp@2.0.99", "ai@7.0.173"], 20, 20),
    "npm:@langchain/mcp-adapters": (["@langchain/mcp-adapters@1.1.4", "@langchain/core@1"], 20, 20),
    "npm:@openai/agents": (["@openai/agents@0.20.0", "zod@4"], 20, 20),
}
TURNS = 20


class Text(Exception):
    """What a client raises for an error."""


def text_of(result):
    """The text of a result, in whichever form a client returns it."""
    if isinstance(result, str):
        return result
    for name in ("content", "text", "result"):
        value = result.get(name) if isinstance(result, dict) else getattr(result, name, None)
        if isinstance(value, (str, list)):
            return text_of(value)
    if isinstance(result, (list, tuple)) and result:
        return text_of(result[0])
    return str(result)


class Server:
    """How a client reaches a memory: by a command, or at a URL with a token."""

    def __init__(self, kind, *given):
        self.command = list(given) if kind == "stdio" else None
        self.url, self.headers = (given[0], {"Authorization": f"Bearer {given[1]}"}) if kind == "http" else (None, None)

    def parameters(self):
        from mcp import StdioServerParameters

        return StdioServerParameters(command=self.command[0], args=self.command[1:])


# Each driver gives a function that calls the tool `memory` as the framework does.


@contextlib.asynccontextmanager
async def mcp(server):
    import httpx2
    from mcp import Client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if server.command:
        transport = stdio_client(server.parameters())
    else:
        transport = streamable_http_client(server.url, http_client=httpx2.AsyncClient(headers=server.headers))
    async with Client(transport) as client:
        yield lambda arguments: client.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def session_of_mcp_1(server):
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    if server.command:
        opened = stdio_client(server.parameters())
    else:
        opened = streamablehttp_client(server.url, headers=server.headers)
    async with opened as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def mcp_1(server):
    async with session_of_mcp_1(server) as session:
        yield lambda arguments: session.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def fastmcp(server):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if server.command:
        transport = StdioTransport(server.command[0], server.command[1:], keep_alive=False)
    else:
        transport = StreamableHttpTransport(server.url, headers=server.headers)
    async with Client(transport) as client:
        yield lambda arguments: client.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def langchain(server):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    if server.command:
        connection = {"transport": "stdio", "command": server.command[0], "args": server.command[1:]}
    else:
        connection = {"transport": "streamable_http", "url": server.url, "headers": server.headers}
    async with MultiServerMCPClient({"memory": connection}).session("memory") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        yield lambda arguments: tools["memory"].ainvoke(arguments)


@contextlib.asynccontextmanager
async def openai_agents(server):
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if server.command:
        opened = MCPServerStdio({"command": server.command[0], "args": server.command[1:]}, client_session_timeout_seconds=60)
    else:
        parameters = {"url": server.url, "headers": server.headers}
        opened = MCPServerStreamableHttp(parameters, client_session_timeout_seconds=60)
    async with opened:
        yield lambda arguments: opened.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def pydantic_ai(server):
    from pydantic_ai.mcp import MCPToolset, StdioTransport, StreamableHttpTransport

    if server.command:
        transport = StdioTransport(server.command[0], server.command[1:])
    else:
        transport = StreamableHttpTransport(server.url, headers=server.headers)
    async with MCPToolset(transport, tool_error_behavior="error") as tools:
        yield lambda arguments: tools.direct_call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def strands(server):
    from mcp.client.stdio import stdio_client
    from strands.tools.mcp import MCPClient

    if server.command:
        client = MCPClient(lambda: stdio_client(server.parameters()))
    else:
        client = MCPClient(url=server.url, headers=server.headers)
    with client:
        number = iter(range(10**6))
        yield lambda arguments: client.call_tool_async(f"t{next(number)}", "memory", arguments)


@contextlib.asynccontextmanager
async def llama_index(server):
    from llama_index.tools.mcp import BasicMCPClient

    client = BasicMCPClient(server.command[0], args=server.command[1:])
    yield lambda arguments: client.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def autogen(server):
    from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

    parameters = StdioServerParams(command=server.command[0], args=server.command[1:], read_timeout_seconds=60)
    async with McpWorkbench(parameters) as workbench:
        yield lambda arguments: workbench.call_tool("memory", arguments)


@contextlib.asynccontextmanager
async def dspy(server):
    import dspy

    async with session_of_mcp_1(server) as session:
        listed = (await session.list_tools()).tools
        tool = next(dspy.Tool.from_mcp_tool(session, tool) for tool in listed if tool.name == "memory")
        yield lambda arguments: tool.acall(**arguments)


@contextlib.asynccontextmanager
async def mcp_use(server):
    from mcp_use import MCPClient

    if server.command:
        config = {"command": server.command[0], "args": server.command[1:]}
    else:
        config = {"url": server.url, "headers": server.headers}
    client = MCPClient({"mcpServers": {"memory": config}})
    session = await client.create_session("memory")
    yield lambda arguments: session.call_tool("memory", arguments)
    await client.close_all_sessions()


@contextlib.asynccontextmanager
async def agno(server):
    from agno.tools.function import FunctionCall
    from agno.tools.mcp import MCPTools

    async with MCPTools(server_params=server.parameters(), transport="stdio", timeout_seconds=60) as tools:
        function = tools.functions["memory"]

        async def call(arguments):
            result = await FunctionCall(function=function, arguments=arguments).aexecute()
            return result.result or result.error

        yield call


@contextlib.asynccontextmanager
async def semantic_kernel(server):
    from semantic_kernel.connectors.mcp import MCPStdioPlugin

    async with MCPStdioPlugin("memory", server.command[0], args=server.command[1:], load_prompts=False) as plugin:
        yield lambda arguments: plugin.call_tool("memory", **arguments)


async def caught(call, arguments):
    """The text of a result, or of what the client raises."""
    try:
        return text_of(await call(arguments))
    except Exception as error:  # each client has its own
        return f"raised: {error}"


def turn(name):
    """Five commands that depend on each other."""
    old, new = f"/memories/{name}-old", f"/memories/{name}"
    return [
        {"command": "create", "path": old, "file_text": "1\n"},
        {"command": "str_replace", "path": old, "old_str": "1", "new_str": "one"},
        {"command": "insert", "path": old, "insert_line": 1, "insert_text": "two"},
        {"command": "rename", "old_path": old, "new_path": new},
        {"command": "view", "path": new},
    ]


async def turns(call, name):
    """How many of 20 turns have the right result."""
    right = 0
    for number in range(TURNS):
        results = await asyncio.gather(*[caught(call, command) for command in turn(f"{name}{number}")])
        right += "1\tone\n     2\ttwo\n" in results[-1].replace("\\n", "\n").replace("\\t", "\t")
    return right


async def check(name, server):
    """Prints what a client does with the memory, as JSON."""
    driver = globals()[name.replace("-", "_")]
    async with driver(server) as call:
        found = {"order": await turns(call, f"{os.getpid()}-")}
        path = f"/memories/{os.getpid()}.txt"
        text = "a\u2028b\u0085c\r\n😀" + "x" * 100_000
        found["create"] = await caught(call, {"command": "create", "path": path, "file_text": text})
        found["missing"] = (await caught(call, {"command": "view", "path": "/memories/none"}))[:200]
        ranged = {"command": "view", "path": path, "view_range": [2.0, 2.0]}
        found["range"] = "     2\t" in (await caught(call, ranged)).replace("\\t", "\t")
    print(json.dumps(found))


def install(name, packages, place):
    """Installs a client once. Returns the command of its driver."""
    here = Path(__file__).resolve()
    folder = place / name.replace("/", "_").replace(":", "_")
    if name.startswith("npm:"):
        if not (folder / "node_modules").exists():
            options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(["npm", "install", *options, "--prefix", folder, *packages], check=True)
        (folder / "clients.mjs").write_bytes(here.with_suffix(".mjs").read_bytes())
        return ["node", str(folder / "clients.mjs"), name.removeprefix("npm:")]
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)
    return [str(python), str(here), "--drive", name.replace("mcp-1", "mcp_1")]


def run(commands):
    """Runs drivers at the same time. Returns what they print."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **options) for command in commands]
    found = []
    for process in running:
        try:
            output, errors = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        lines = [line for line in output.splitlines() if line.startswith("{")]
        found.append(json.loads(lines[-1]) if lines else {"order": 0, "failed": errors[-2_000:]})
    return found


@contextlib.contextmanager
def serving(program, place):
    """A server, and a function that makes tokens for its memory."""
    tokens, number = place / "tokens.json", iter(range(10**6))

    def token():
        options = ["--tokens", tokens, "--actor", f"client/{next(number)}", "--memory", "m", "--right", "tool", "--create"]
        made = subprocess.run([program, "token", "new", *options], check=True, capture_output=True, text=True)
        return made.stdout.split()[-1]

    first = token()
    arguments = ["serve", "--store", place / "served", "--tokens", tokens, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen([program, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        url = server.stderr.readline().split()[-1] + "/mcp"
        yield url, first, token
    finally:
        server.terminate()
        server.wait()


def problems(name, row, expected):
    """What a client must show, apart from the order."""
    if "failed" in row:
        return [row["failed"]]
    found = [] if row["order"] >= expected else [f"{row['order']} of {TURNS} turns are right"]
    if "File created successfully" not in row["create"]:
        found.append(row["create"])
    if "/memories/none does not exist" not in row["missing"]:
        found.append(row["missing"])
    return found if row["range"] else [*found, "a range of 1.0 is not read"]


def main():
    program, *names = sys.argv[1:]
    program = os.path.abspath(program)
    place = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "clients"
    place.mkdir(parents=True, exist_ok=True)
    failed = False
    print("| client | transport | order of 20 | two clients, a token each | two clients, one token | a missing file |")
    print("|---|---|---|---|---|---|")
    for name in names or CLIENTS:
        packages, over_stdio, over_http = CLIENTS[name]
        driver = install(name, packages, place)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (row,) = run([[*driver, "stdio", program, "mcp", "--store", str(folder / "stdio")]])
            rows = [("stdio", row, ["", ""], over_stdio)]
            if over_http is not None:
                with serving(program, folder) as (url, first, token):
                    (row,) = run([[*driver, "http", url, first]])
                    tokens = [token(), token()]
                    subprocess.run(["sleep", "1"], check=True)  # until the server has read them
                    apart = run([[*driver, "http", url, given] for given in tokens])
                    together = run([[*driver, "http", url, first]] * 2)
                    several = [", ".join(str(found["order"]) for found in both) for both in (apart, together)]
                    rows.append(("HTTP", row, several, over_http))
                    if any(found["order"] < over_http for found in apart):
                        failed = True
            for transport, row, several, expected in rows:
                missing = row.get("missing", "").replace("|", "\\|").replace("\n", " ")[:90]
                print(f"| {' '.join(packages)} | {transport} | {row['order']} | {several[0]} | {several[1]} | {missing} |", flush=True)
                for problem in problems(name, row, expected):
                    print(f"{name} over {transport}: {problem}", file=sys.stderr)
                    failed = True
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        asyncio.run(check(sys.argv[2], Server(*sys.argv[3:])))
    else:
        main()
