"""Runs the tool `memory` of an MCP server over standard input and output.

Usage: driver.py PROGRAM [ARGUMENT]...
       driver.py URL TOKEN

PROGRAM serves MCP on its standard streams, and URL over streamable HTTP. Each input line is a `tool_use` block or only
its `input`, in JSON. Each output line is a `tool_result` block.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

NAME = "memory"
NO_CALL = "Error: The driver takes a tool_use block with id, name and an input object, or the input object alone"


async def main():
    target, *arguments = sys.argv[1:]
    if target.startswith("http"):
        authorized = create_mcp_http_client({"authorization": f"Bearer {arguments[0]}"})
        server = streamable_http_client(target, http_client=authorized)
    else:
        server = StdioServerParameters(command=target, args=arguments)
    async with Client(server) as client:
        # Binary mode, because text mode also splits lines at carriage returns.
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            print(json.dumps(await answer(client, line)), flush=True)


async def answer(client, line):
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return tool_result(None, f"Error: The driver cannot read the line as JSON: {error}", is_error=True)

    is_block = isinstance(value, dict) and value.get("type") == "tool_use"
    block = value if is_block else {"name": NAME, "input": value}
    tool_use_id = block["id"] if isinstance(block.get("id"), str) else None
    has_name_and_input = isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
    if not has_name_and_input or (is_block and tool_use_id is None):
        return tool_result(tool_use_id, NO_CALL, is_error=True)
    try:
        result = await client.call_tool(block["name"], block["input"])
    except MCPError as error:
        return tool_result(tool_use_id, str(error), is_error=True)
    return tool_result(tool_use_id, content_of(result), result.is_error)


def content_of(result):
    """The content of the result as that of a `tool_result` block: one text is a string."""
    blocks = [content_block(part) for part in result.content]
    return blocks[0]["text"] if [block["type"] for block in blocks] == ["text"] else blocks


def content_block(part):
    if part.type == "image":
        return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.data}}
    return {"type": "text", "text": part.text}


def tool_result(tool_use_id, content, is_error=False):
    result = {"type": "tool_result", "content": content}
    if tool_use_id is not None:
        result["tool_use_id"] = tool_use_id
    if is_error:
        result["is_error"] = True
    return result


if __name__ == "__main__":
    asyncio.run(main())
