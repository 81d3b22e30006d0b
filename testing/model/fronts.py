"""The processes that reach a memory: `run`, `mcp`, `serve` with its four fronts, packages, and commands for people."""

import contextlib
import html
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

TIMEOUT = 30
DISK_MIB = 32
runs = itertools.count()
# Limits that a few files reach.
LIMITS = {"max_files": 4, "max_bytes": 110, "max_file_bytes": 50, "max_depth": 2}
# The library of Debian's package `faketime`, which moves the clock of a process.
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Place:
    """The storage of all memories of a run. `url` has `{memory}`, `limits` and `keys` are empty in most."""

    def __init__(self, programs, store):
        self.program, self.programs = os.path.abspath(programs.program), programs
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        # A disk of its own, in RAM, which can be full. It needs root.
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", self.path]
        self.has_disk = subprocess.run(mounting, capture_output=True).returncode == 0
        self.tokens = self.path / "tokens.json"
        store, *added = store.split(" ")
        self.limits = LIMITS if "limited" in added else {}
        self.keys = [str(self.path / f"{name}.key") for name in ("first", "second")] if "encrypted" in added else []
        for key in self.keys:
            self.command("keygen", "--output", key)
        self.kind = store.split(":")[0]
        if store == "local":
            self.root = str(self.path / "store")
            self.url = self.root + "/{memory}"
            Path(self.root).mkdir()
        elif store == "sqlite":
            self.root = f"sqlite:{self.path}/memory.db"
            self.url = self.root + "?memory={memory}"
        else:
            self.url = store.replace("{run}", f"run{os.getpid()}x{next(runs)}")
            self.root = re.sub(r"[/?&](memory=)?\{memory\}$", "", self.url)

    def of(self, memory):
        return self.url.format(memory=memory)

    def encryption(self, first=0, both=True):
        """The options of a command with one of the keys, or with both."""
        old = ["--old-key-file", self.keys[1 - first]] if self.keys and both else []
        return ["--key-file", self.keys[first], *old] if self.keys else []

    def limiting(self):
        return [f"--{name.replace('_', '-')}={limit}" for name, limit in self.limits.items()]

    def of_package(self):
        keys = {"key_file": self.keys[0], "old_key_files": self.keys[1:]} if self.keys else {}
        return json.dumps({**self.limits, **keys})

    def close(self):
        if self.kind.startswith("postgres"):
            self.sql(f"DROP SCHEMA IF EXISTS {self.root.partition('schema=')[2]} CASCADE")
        if self.has_disk:
            subprocess.run(["umount", "--lazy", self.path], check=True)
        self.folder.cleanup()

    # What a backup program does. A restore happens under open sessions.

    @property
    def can_restore(self):
        return self.kind in ("local", "sqlite")

    def save(self):
        if self.kind == "local":
            subprocess.run(["rsync", "-ac", "--delete", self.root + "/", str(self.path / "saved")], check=True)
        else:
            self.back_up(self.path / "memory.db", self.path / "saved.db")

    def restore(self, replaces):
        if self.kind == "local":
            subprocess.run(["rsync", "-ac", "--delete", str(self.path / "saved") + "/", self.root], check=True)
        elif replaces:
            shutil.copy(self.path / "saved.db", self.path / "copy.db")
            for ending in ("-wal", "-shm"):
                (self.path / f"memory.db{ending}").unlink(missing_ok=True)
            (self.path / "copy.db").replace(self.path / "memory.db")
        else:
            self.back_up(self.path / "saved.db", self.path / "memory.db")

    @staticmethod
    def back_up(source, target):
        with sqlite3.connect(source) as reading, sqlite3.connect(target, timeout=TIMEOUT) as writing:
            reading.backup(writing)
            writing.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # its log has texts from before
        reading.close()
        writing.close()

    def records(self, memory):
        """The records of the history of a memory."""
        if self.kind == "local":
            found = Path(self.root, memory, ".memory-tool", "records", "history").rglob("*")
            return [str(path) for path in found if path.is_file()]
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self.path / "memory.db", timeout=TIMEOUT)) as database:
                records = "SELECT path FROM file WHERE memory = ? AND path LIKE '/records/history/%'"
                return [path for (path,) in database.execute(records, (memory,))]
        return []

    # A file that the disk refuses to replace.

    def hold(self, memory, path):
        if self.kind != "local":
            return False
        file = Path(self.root) / memory / "memories" / path[1:]
        return file.is_file() and subprocess.run(["chattr", "+i", file], capture_output=True).returncode == 0

    def release(self):
        if self.kind == "local":
            subprocess.run(["chattr", "-R", "-i", self.root], capture_output=True)

    def fill(self):
        """Leaves no space on the disk."""
        with contextlib.suppress(OSError), open(self.path / "filler", "wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)) == size:
                        pass

    def empty(self):
        (self.path / "filler").unlink(missing_ok=True)

    def disconnect(self):
        """Ends all connections to the database."""
        if self.kind.startswith("postgres"):
            self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = user")

    def sql(self, statement):
        subprocess.run(["psql", self.root.partition("?")[0], "-qc", statement], check=True, capture_output=True)

    # Commands for people.

    def command(self, *arguments, stdin=b""):
        words = [self.program, *arguments, *(self.limiting() if arguments[0] in ("append", "mv", "rm") else [])]
        words += self.encryption() if "--store" in words and "--key-file" not in words else []
        return subprocess.run(words, input=stdin, capture_output=True, timeout=TIMEOUT)

    def token(self, *arguments):
        made = self.command("token", "new", "--tokens", self.tokens, "--actor", "web", *arguments)
        return made.stdout.decode().split()[-1]


class Process:
    """A process that starts again after it was killed."""

    def __init__(self, *words):
        self.words = list(words)
        self.process = None
        # Hours that its clock differs.
        self.hours = 0

    def start(self):
        # A log that nobody reads would stop the process.
        self.log = tempfile.TemporaryFile("w+")
        clock = {"LD_PRELOAD": FAKETIME, "FAKETIME": f"{self.hours:+}h"} if self.hours and os.path.exists(FAKETIME) else {}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen(self.words, env={**os.environ, **clock}, text=True, **pipes)

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
        assert line, f"{self.words[:2]} ended: {self.errors()}"
        return json.loads(line)

    def errors(self):
        self.log.seek(0)
        return self.log.read()


class Lines(Process):
    """A tool over lines of JSON: `memory-tool run`, or a package. `call` returns whether it succeeded, and its text."""

    def call(self, command):
        self.send(command)
        result = self.receive()
        return not result.get("is_error"), result["content"]


class Mcp(Process):
    """`memory-tool mcp`."""

    number = 0

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

    def __init__(self, place, token, tokens, agent):
        words = ["serve", *place.limiting(), *place.encryption(), "--store", place.root, "--tokens", str(place.tokens)]
        super().__init__(place.program, *words, "--listen", "127.0.0.1:0")
        self.token, self.tokens = token, tokens
        # A token that creates no memory.
        self.agent = agent
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

    def api(self, method, path, body=None, token=None):
        """Returns the status and the body."""
        headers = {"x-api-key": token or self.token, "content-type": "application/json"}
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

    def tool(self, memory, command, token=None):
        status, result = self.api("POST", f"/{memory}/tool", command, token)
        if status == 404:
            return False, result
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
