#!/usr/bin/env bash
# The official Python SDK of MCP gives a tool None for the text `null`. In a server of the memory tool, `new_str` is
# optional, so `str | None`, and a missing one deletes. Claude replaces a line of a JSON file by `null`: the schema
# allows it, the client sends a string, and the tool deletes the line and reports success. `[]` and all other JSON lists
# and objects are refused. The cause: for clients that send lists as strings, the SDK parses each argument whose type is
# not plain `str`.
#
# Guess: a string in the request arrives as this string, because it is valid as it is.
# Behavior: `null` arrives as None, and JSON lists and objects are errors.
# Seen with mcp 2.3.0 of PyPI. Fails if this changes. Needs Python with venv, and PyPI.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: mcp==2.3.0
cat >try.py <<'PYTHON'
import asyncio

from mcp import Client
from mcp.server import MCPServer

server = MCPServer("memory")


@server.tool()
def optional(new_str: str | None = None) -> str:
    return repr(new_str)


@server.tool()
def required(new_str: str) -> str:
    return repr(new_str)


async def main():
    async with Client(server) as client:
        for text in ["null", "[]", '{"milk": false}', "false", "1", "tea"]:
            print(text, end=":")
            for tool in ["optional", "required"]:
                result = await client.call_tool(tool, {"new_str": text})
                print("", tool, "error" if result.is_error else result.content[0].text, end="")
            print()


asyncio.run(main())
PYTHON
venv/bin/python try.py 2>log | tee found
diff found - <<'TEXT'
null: optional None required 'null'
[]: optional error required '[]'
{"milk": false}: optional error required '{"milk": false}'
false: optional 'false' required 'false'
1: optional '1' required '1'
tea: optional 'tea' required 'tea'
TEXT
