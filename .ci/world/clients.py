"""Clients of the Model Context Protocol, each in its pinned version, with `memory-tool mcp` and `serve`.

Each makes turns of five parallel calls, alone and beside a second client, reads a missing file, and sends 2.0 for a number.
"""

import asyncio
import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import PROGRAM, ROOT, Running, free_port, from_npm, from_pypi, new_token, wait_for
from results import WORKS

PAGE, NOUN = "docs/mcp.md", "client"
# The driver of each client, its packages, first its own, and its transports.
BOTH = ["stdio", "HTTP"]
CLIENTS = {
    "Python SDK": ("mcp", ["mcp==2.3.0"], BOTH),
    "Python SDK, version 1": ("mcp_1", ["mcp==1.30.0"], BOTH),
    "fastmcp": ("fastmcp", ["fastmcp==4.1.6"], BOTH),
    "langchain-mcp-adapters": ("langchain", ["langchain-mcp-adapters==0.3.2"], BOTH),
    "openai-agents": ("openai_agents", ["openai-agents==0.24.0"], BOTH),
    "pydantic-ai": ("pydantic_ai", ["pydantic-ai-slim[mcp]==2.68.0"], BOTH),
    "strands-agents": ("strands", ["strands-agents==1.62.0"], BOTH),
    "llama-index-tools-mcp": ("llama_index", ["llama-index-tools-mcp==0.6.0"], ["stdio"]),
    "autogen-ext": ("autogen", ["autogen-ext[mcp]==0.7.5", "autogen-agentchat==0.7.5", "mcp==1.30.0"], ["stdio"]),
    "dspy": ("dspy", ["dspy==3.4.1", "mcp==1.30.0"], ["stdio"]),
    "mcp-use": ("mcp_use", ["mcp-use==1.7.1"], BOTH),
    "agno": ("agno", ["agno==3.1.10", "fastmcp==4.1.6"], ["stdio"]),
    "semantic-kernel": ("semantic_kernel", ["semantic-kernel[mcp]==1.45.0"], ["stdio"]),
    "TypeScript SDK": ("@modelcontextprotocol/sdk", ["@modelcontextprotocol/sdk@1.32.2"], BOTH),
    "@ai-sdk/mcp": ("@ai-sdk/mcp", ["@ai-sdk/mcp@2.0.99", "ai@7.0.173"], BOTH),
    "@langchain/mcp-adapters": ("@langchain/mcp-adapters", ["@langchain/mcp-adapters@1.1.4", "@langchain/core@1.4.0"], BOTH),
    "@openai/agents": ("@openai/agents", ["@openai/agents@0.20.0", "zod@4.6.7"], BOTH),
}
SUBJECTS = {name: [] if "==" in packages[0] else ["program:npm"] for name, (_, packages, _) in CLIENTS.items()}
TURNS = 20


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


async def drive(function, server):
    """Prints what a client does with the memory, as JSON."""
    async with globals()[function](server) as call:
        found = {"order": await turns(call, f"{os.getpid()}-")}
        path = f"/memories/{os.getpid()}.txt"
        text = "a\u2028b\u0085c\r\n😀" + "x" * 100_000
        found["create"] = await caught(call, {"command": "create", "path": path, "file_text": text})
        found["missing"] = (await caught(call, {"command": "view", "path": "/memories/none"}))[:200]
        ranged = {"command": "view", "path": path, "view_range": [2.0, 2.0]}
        found["range"] = "     2\t" in (await caught(call, ranged)).replace("\\t", "\t")
    print(json.dumps(found))


def driver(name):
    """The command of the driver of a client, which is installed once."""
    here, (function, packages, _) = Path(__file__).resolve(), CLIENTS[name]
    if "==" in packages[0]:
        return [from_pypi(name, packages), here, function]
    copy = from_npm(name, packages) / "clients.mjs"  # which imports packages from its directory
    copy.write_bytes(here.with_suffix(".mjs").read_bytes())
    return ["node", copy, function]


def run(*commands):
    """Runs drivers at the same time. Returns what they print."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([str(word) for word in command], **options) for command in commands]
    found = []
    for process in running:
        try:
            output, errors = process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        lines = [line for line in output.splitlines() if line.startswith("{")]
        found.append(json.loads(lines[-1]) if lines else {"order": f"failed: {errors[-2_000:]}"})
    return found


def order_of(found):
    if not isinstance(found["order"], int):
        return found["order"]
    return WORKS if found["order"] == TURNS else "lost"


def outcomes(found):
    """The checks of one client."""
    yield "order", order_of(found)
    for check, wanted in [("create", "File created successfully"), ("missing", "/memories/none does not exist")]:
        text = found.get(check, "not run")
        yield {"create": "a text of 100 kB", "missing": "a missing file"}[check], WORKS if wanted in text else f"failed: {text}"
    yield "a range of 2.0", WORKS if found.get("range") else "is not read"


def version(name):
    return re.split("==|@", CLIENTS[name][1][0])[-1]


def is_recorded(name):
    """Whether clients.csv, which is made by hand, is about this version."""
    rows = csv.DictReader((ROOT / "docs/mcp/clients.csv").open(encoding="utf-8"))
    return any([name.split(",")[0], version(name)] == [row[key].split(",")[0] for key in ["client", "version"]] for row in rows)


def checks(name):
    yield "clients.csv", WORKS if is_recorded(name) else "has another version"
    words, transports = driver(name), CLIENTS[name][2]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (found,) = run([*words, "stdio", PROGRAM, "mcp", "--store", folder / "stdio"])
        yield from ((f"stdio, {check}", outcome) for check, outcome in outcomes(found))
        if "HTTP" not in transports:
            return
        tokens, port = folder / "tokens.json", free_port()
        given = [new_token(tokens, "--actor", f"client/{number}", "--memory", "m", "--right", "tool", "--create") for number in range(3)]
        serve = [PROGRAM, "serve", "--store", folder / "served", "--tokens", tokens, "--listen", f"127.0.0.1:{port}"]
        with Running(serve, folder / "log"):
            wait_for(port)
            connect = [[*words, "http", f"http://127.0.0.1:{port}/mcp", token] for token in given]
            (found,) = run(connect.pop())
            yield from ((f"HTTP, {check}", outcome) for check, outcome in outcomes(found))
            lost = {order_of(found) for found in run(*connect)} - {WORKS}
            yield "two clients, a token each", "; ".join(lost) or WORKS


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[1], Server(*sys.argv[2:])))
