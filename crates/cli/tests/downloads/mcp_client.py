"""Uses the memory with the official Python client, over standard input and output and over HTTP, with the newest
revision of the protocol and with the one before it. Prints the observations as JSON.

    client.py PROGRAM STORE URL TOKEN
"""

import asyncio
import json
import sys
import warnings

from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.client.subscriptions import ResourceUpdated

warnings.simplefilter("ignore")  # the methods of older revisions are deprecated

PROGRAM, STORE, URL, TOKEN = sys.argv[1:]
PATH = "/memories/a b.txt"
FILE = "memory:///a%20b.txt"


async def run(client, **arguments):
    return await client.call_tool("memory", arguments)


async def edited(client):
    """The URIs of the notifications after an edit."""
    edit = dict(command="insert", path=PATH, insert_line=0, insert_text="x")
    if client.protocol_version >= "2026-07-28":
        async with client.listen(resource_subscriptions=[FILE]) as changes:
            await run(client, **edit)
            async for change in changes:
                if isinstance(change, ResourceUpdated):
                    return [change.uri]
    await client.subscribe_resource(FILE)
    await run(client, **edit)
    return [await updated.get()]


async def ordered(client, turns):
    """The number of turns whose commands were sent together and took effect in order."""
    result = 0
    for turn in range(turns):
        old, new = f"/memories/old{turn}", f"/memories/new{turn}"
        outcomes = await asyncio.gather(
            run(client, command="create", path=old, file_text="1\n"),
            run(client, command="str_replace", path=old, old_str="1", new_str="one"),
            run(client, command="insert", path=old, insert_line=1, insert_text="two"),
            run(client, command="rename", old_path=old, new_path=new),
            run(client, command="view", path=new),
            run(client, command="delete", path=new),
        )
        view = outcomes[4].content[0].text
        result += view.endswith("1\tone\n     2\ttwo\n     3\t") and not any(outcome.is_error for outcome in outcomes)
    return result


async def observe(target, mode):
    async def handle(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            await updated.put(str(message.params.uri))

    async with Client(target, mode=mode, message_handler=handle) as client:
        create = dict(command="create", path=PATH, file_text="Tea")
        created = await run(client, **create)
        again = await run(client, **create)
        assert again.is_error and again.content[0].text == again.structured_content["message"]
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        read = await client.read_resource(FILE)
        prompt = await client.get_prompt("tidy_memory")
        assert "ALWAYS VIEW YOUR MEMORY DIRECTORY" in client.instructions
        try:
            await client.read_resource("memory:///../secret")
            raise SystemExit("a path outside the memory was read")
        except MCPError:
            pass
        observations = {
            "revision": client.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in tools],
            "found": (await client.call_tool("memory_search", {"pattern": "^te.$", "regex": True})).content[0].text,
            "created": created.content[0].text,
            "error": again.structured_content,
            "resources": [str(resource.uri) for resource in resources],
            "content": read.contents[0].text,
            "prompt": prompt.messages[0].role,
            "notified": await asyncio.wait_for(edited(client), 30),
            "ordered": await ordered(client, 20),
        }
        await run(client, command="delete", path=PATH)
    return observations


async def main():
    global updated
    observations = {"stdio": {}, "http": {}}
    for mode in ["auto", "legacy"]:
        stdio = StdioServerParameters(command=PROGRAM, args=["mcp", "--store", STORE])
        authorized = create_mcp_http_client({"authorization": f"Bearer {TOKEN}"})
        http = streamable_http_client(URL, http_client=authorized)
        for transport, target in [("stdio", stdio), ("http", http)]:
            updated = asyncio.Queue()
            observations[transport][mode] = await observe(target, mode)
    print(json.dumps(observations))


asyncio.run(main())
