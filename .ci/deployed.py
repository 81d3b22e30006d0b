"""Usage: deployed.py PROGRAM. Runs the command lines of the Dockerfile and of examples/deploy, with their settings.

Docker and systemd need not run here. A temporary directory replaces the path of the store, and a free port the ports.
"""

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

program = str(pathlib.Path(sys.argv[1]).resolve())
root = pathlib.Path(__file__).resolve().parent.parent
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


def text(path):
    return (root / path).read_text("utf-8")


def one(pattern, page):
    found = re.findall(pattern, page, re.MULTILINE)
    assert len(found) == 1, (pattern, found)
    return found[0]


def status(port, token):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"host": "127.0.0.1:8809"} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(INITIALIZE).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def serve(name, page, words, environment, data, directory):
    directory.mkdir()
    moved = lambda words: [word.replace(data, str(directory)) for word in words]
    new = moved(shlex.split(one(r"memory-tool (token new .*)$", page)))
    token = subprocess.run([program, *new], env=environment, text=True, check=True, capture_output=True).stdout.split()[-1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [re.sub(r"^(127\.0\.0\.1|0\.0\.0\.0):8809$", rf"\1:{port}", word) for word in moved(words)]
    words += ["--allow-host", "127.0.0.1:8809"]  # a client of the port in the file
    process = subprocess.Popen([program, *words], env=environment)
    try:
        for _ in range(300):
            try:
                found = [status(port, None), status(port, token)]
                break
            except urllib.error.URLError:
                assert process.poll() is None, f"{name}: the server ended with status {process.returncode}"
                time.sleep(0.1)
        assert found == [401, 200], (name, found)
    finally:
        process.terminate()
        process.wait()
    print(f"{name}: refuses a client without the token, and serves one with it")


with tempfile.TemporaryDirectory() as place:
    base = {"PATH": os.environ["PATH"]}
    docker = text("Dockerfile")
    store = one(r"^ENV MEMORY_TOOL_STORE=(\S+)$", docker)
    assert one(r"^VOLUME (\S+)$", docker) == store
    words = shlex.split(one(r"^#     docker run .* memory-tool (run)$", docker))
    call = json.dumps({"command": "create", "path": "/memories/a.md", "file_text": "Tea"})
    container = base | {"MEMORY_TOOL_STORE": f"{place}/data"}
    done = subprocess.run([program, *words], env=container, input=call, text=True, check=True, capture_output=True)
    assert "File created successfully" in done.stdout, done
    print("Dockerfile: the command of its comment creates a file")

    unit = text("examples/deploy/memory-tool.service")
    data = "/var/lib/" + one(r"^StateDirectory=(\S+)$", unit)
    words = shlex.split(one(r"^ExecStart=\S+ (.*)$", unit))
    serve("memory-tool.service", unit, words, base, data, pathlib.Path(place, "unit"))

    compose = text("examples/deploy/compose.yaml")
    words = json.loads(one(r"^    command: (\[[^]]*\])$", compose))
    serve("compose.yaml", compose, words, container, store, pathlib.Path(place, "compose"))
