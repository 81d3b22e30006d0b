"""Starts the unpacked bundle in the current directory as Claude Desktop does, and calls its tool."""

import json
import os
import subprocess


def resolve(text):  # as Claude Desktop does
    return text.replace("${__dirname}", os.getcwd()).replace("${user_config.folder}", "memory")


with open("manifest.json", encoding="utf-8") as file:
    manifest = json.load(file)
server = manifest["server"]["mcp_config"]
command = [resolve(word) for word in (server["command"], *server["args"])]
client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
requests = [
    {"id": 1, "method": "initialize", "params": client},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {"id": 3, "method": "prompts/list"},
    {"id": 4, "method": "tools/call", "params": {"name": "memory", "arguments": {
        "command": "create", "path": "/memories/tea.md", "file_text": "No milk."}}},
]
lines = "".join(json.dumps({"jsonrpc": "2.0"} | request) + "\n" for request in requests)
output = subprocess.run(command, input=lines, text=True, check=True, stdout=subprocess.PIPE).stdout
replies = {reply["id"]: reply["result"] for reply in map(json.loads, output.splitlines()) if "id" in reply}
assert replies[1]["serverInfo"]["version"] == manifest["version"], replies[1]
tools = [tool["name"] for tool in replies[2]["tools"]]
assert sorted(tools) == sorted(tool["name"] for tool in manifest["tools"]), tools
assert "File created successfully" in str(replies[4]), replies[4]
with open("memory/memories/tea.md", encoding="utf-8") as file:
    print(file.read())
