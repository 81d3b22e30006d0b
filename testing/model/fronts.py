"""The processes that reach a memory: `run`, `mcp`, `serve` with its four fronts, and commands for people."""

import html
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

TIMEOUT = 30


class Place:
    """The storage of all memories of a run. `url` has `{memory}`."""

    def __init__(self, program, store):
        self.program = os.path.abspath(program)
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.path = Path(self.folder.name)
        self.tokens = self.path / "tokens.json"
        self.kind = store.split(":")[0]
        if store == "local":
            self.root = str(self.path / "store")
            self.url = self.root + "/{memory}"
            Path(self.root).mkdir()
        elif store == "sqlite":
            self.root = f"sqlite:{self.path}/memory.db"
            self.url = self.root + "?memory={memory}"
        else:
            self.url = store.replace("{run}", f"run{os.getpid()}{id(self):x}")
            self.root = re.sub(r"[/?&](memory=)?\{memory\}$", "", self.url)

    def of(self, memory):
        return self.url.format(memory=memory)

    def close(self):
        self.folder.cleanup()

    # What a backup program does. A restore happens under open sessions.

    @property
    def can_restore(self):
        return self.kind in ("local", "sqlite")

    def save(self):
        if self.kind == "local":
            subprocess.run(["rsync", "-a", "--delete", self.root + "/", str(self.path / "saved")], check=True)
        else:
            self.back_up(self.path / "memory.db", self.path / "saved.db")

    def restore(self):
        if self.kind == "local":
            subprocess.run(["rsync", "-a", "--delete", str(self.path / "saved") + "/", self.root], check=True)
        else:
            self.back_up(self.path / "saved.db", self.path / "memory.db")

    @staticmethod
    def back_up(source, target):
        with sqlite3.connect(source) as reading, sqlite3.connect(target, timeout=TIMEOUT) as writing:
            reading.backup(writing)
        reading.close()
        writing.close()

    # A file that the disk refuses to replace.

    def hold(self, memory, path):
        if self.kind != "local":
            return False
        file = Path(self.root) / memory / "memories" / path[1:]
        return file.is_file() and subprocess.run(["chattr", "+i", file], capture_output=True).returncode == 0

    def release(self):
        if self.kind == "local":
            subprocess.run(["chattr", "-R", "-i", self.root], capture_output=True)

    # Commands for people.

    def command(self, *arguments, stdin=b""):
        words = [self.program, *arguments]
        return subprocess.run(words, input=stdin, capture_output=True, timeout=TIMEOUT)

    def token(self, *arguments):
        made = self.command("token", "new", "--tokens", self.tokens, "--actor", "web", *arguments)
        return made.stdout.decode().split()[-1]


class Process:
    """A process of the program. It starts again after it was killed."""

    def __init__(self, place, *words):
        self.place, self.words = place, list(words)
        self.process = None

    def start(self):
        words = [self.place.program, *self.words]
        # A log that nobody reads would stop the process.
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdin=-1, stdout=-1, stderr=self.log, text=True)

    def running(self):
        if self.process is None:
            self.start()
        return self.process

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()
            self.process = None

    def send(self, value):
        stdin = self.running().stdin
        stdin.write(json.dumps(value) + "\n")
        stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, f"{self.words[0]} ended: {self.errors()}"
        return json.loads(line)

    def errors(self):
        self.log.seek(0)
        return self.log.read()


class Run(Process):
    """`memory-tool run`. `call` returns whether the command succeeded, and its text."""

    def __init__(self, place, memory, actor):
        super().__init__(place, "run", "--store", place.of(memory), "--history", "--actor", actor)
        self.actor = actor

    def call(self, command):
        self.send(command)
        result = self.receive()
        return not result.get("is_error"), result["content"]


class Mcp(Process):
    """`memory-tool mcp`."""

    def __init__(self, place, memory, actor):
        super().__init__(place, "mcp", "--store", place.of(memory), "--history", "--actor", actor)
        self.actor, self.number = actor, 0

    def start(self):
        super().start()
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "model", "version": "1"}}
        self.request("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method, parameters):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                return message["result"]

    def call(self, command):
        self.running()
        result = self.request("tools/call", {"name": "memory", "arguments": command})
        return not result.get("isError"), result["content"][0]["text"]


class Server(Process):
    """`memory-tool serve`, with the tool, MCP, the Memory Stores API and the page."""

    actor = "web"

    def __init__(self, place, token, tokens):
        words = ["serve", "--store", place.root, "--tokens", str(place.tokens), "--listen", "127.0.0.1:0"]
        super().__init__(place, *words)
        self.token, self.tokens = token, tokens
        self.cookie = None

    def start(self):
        super().start()
        end = time.monotonic() + TIMEOUT
        while not (listening := re.search(r"listening on http://(\S+)", self.errors())):
            assert time.monotonic() < end and self.process.poll() is None, self.errors()
            time.sleep(0.01)
        # A restarted server has the same address.
        self.address = self.words[-1] = listening[1]

    def request(self, method, path, body=None, headers=()):
        self.running()
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def api(self, method, path, body=None):
        """Returns the status and the body."""
        headers = {"x-api-key": self.token, "content-type": "application/json"}
        content = None if body is None else json.dumps(body)
        status, _, text = self.request(method, f"/v1/memory_stores{path}", content, headers)
        return status, json.loads(text)

    def list(self, path):
        """All items of a list, over its pages, or `None` if it is not there."""
        found, page = [], ""
        while True:
            status, body = self.api("GET", f"{path}{'&' if '?' in path else '?'}limit=100{page}")
            if status == 404:
                return None
            assert status == 200, body
            found += body["data"]
            if not body.get("next_page"):
                return found
            page = f"&page={body['next_page']}"

    def tool(self, memory, command):
        status, result = self.api("POST", f"/{memory}/tool", command)
        assert status == 200, result
        [result] = result["content"]
        return not result.get("is_error"), result["content"]

    def mcp(self, memory, command):
        call = {"name": "memory", "arguments": command}
        headers = {
            "authorization": f"Bearer {self.tokens[memory]}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "memory",
        }
        about = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "model", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call, "_meta": about}})
        status, _, text = self.request("POST", "/mcp", body, headers)
        assert status == 200, text
        data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()] or [text]
        result = json.loads(data[-1])["result"]
        return not result.get("isError"), result["content"][0]["text"]

    # The page.

    def page(self, method, path, form=None):
        self.running()
        if self.cookie is None:
            body = urllib.parse.urlencode({"token": self.token})
            _, headers, _ = self.request("POST", "/sign-in", body, self.form_headers())
            self.cookie = headers["set-cookie"].split(";")[0]
        body = None if form is None else urllib.parse.urlencode(form)
        status, headers, text = self.request(method, path, body, {**self.form_headers(), "cookie": self.cookie})
        assert "/sign-in" not in headers.get("location", ""), f"signed out: {headers['location']}"
        return status, text

    def form_headers(self):
        return {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{self.address}"}

    def form(self, path, action):
        """The hidden fields of the form with this action, or `None` if the page or the form is not there."""
        status, text = self.page("GET", path)
        found = re.search(rf'<form[^>]*action="[^"]*{action}".*?</form>', text, re.DOTALL)
        if status != 200 or not found:
            return None
        fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[0])
        return {name: html.unescape(value) for name, value in fields}
