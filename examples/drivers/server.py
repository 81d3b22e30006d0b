"""Sends the calls of a case to the endpoint of the tool of `memory-tool serve`.

Usage: server.py URL TOKEN DIRECTORY

Each input line is a `tool_use` block or only its `input`, in JSON. Each output line is a `tool_result` block. Each
directory has its own memory, whose name is the path of the directory with `-` for `/`.
"""

import json
import sys
import urllib.request

url, token, directory = sys.argv[1:]
memory = directory.strip("/").replace("/", "-")
for line in sys.stdin.buffer:
    # The line is sent as it is: the server must report invalid JSON.
    request = urllib.request.Request(f"{url}/v1/memory_stores/{memory}/tool", line, {"x-api-key": token})
    with urllib.request.urlopen(request) as reply:
        for result in json.load(reply)["content"]:
            print(json.dumps(result), flush=True)
