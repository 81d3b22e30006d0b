#!/usr/bin/env python3
"""Floods a server with the requests of one tenant, and measures its memory and what another tenant notices.

Usage: .ci/floods.py PROGRAM [FLOOD...]

Prints a row for each flood. The other tenant is measured at rest, while the same flood reaches a second server of this
machine, and under the flood of its own server: the second figure is what the machine costs, whose processors the clients
and both servers share. Exits with 1 if the server took more than 300 MB, or if the 99th percentile under the flood was
more than three times that of rest and that beside the second server. The times need a release build and a quiet machine.
"""

import contextlib
import http.client
import json
import multiprocessing
import os
import re
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zlib
from hashlib import sha256
from pathlib import Path

SECONDS = 8
MAX_MB = 300
MAX_RATIO = 3
MIB = 1024 * 1024
FILES = 100_000
TOKENS = 100_000


class Server:
    """A server with the memories `alice`, which floods, and `bob`."""

    def __init__(self, program, place):
        self.program, self.place, self.tokens = program, place, place / "tokens.json"
        self.alice = self.token("alice")
        self.bob = self.token("bob")

    def token(self, memory):
        rights = [part for right in ("tool", "read", "write") for part in ("--right", right)]
        options = ["--tokens", self.tokens, "--actor", memory, "--memory", memory, "--create", *rights]
        made = subprocess.run([self.program, "token", "new", *options], check=True, capture_output=True, text=True)
        return made.stdout.split()[-1]

    def __enter__(self):
        arguments = ["serve", "--store", self.place / "store", "--tokens", self.tokens, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen([self.program, *arguments], stderr=subprocess.PIPE, text=True)
        self.address = self.process.stderr.readline().split("//")[-1].strip()
        for memory, token in (("alice", self.alice), ("bob", self.bob)):
            self.call(memory, token, {"command": "create", "path": "/memories/a", "file_text": "text\n" * 100})
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def peak(self):
        """The largest part of the machine's memory that the process had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1_000

    def connect(self):
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)))

    def head(self, memory, token, length):
        return (
            f"POST /v1/memory_stores/{memory}/tool HTTP/1.1\r\nhost: {self.address}\r\nx-api-key: {token}\r\n"
            f"content-length: {length}\r\n\r\n"
        ).encode()

    def call(self, memory, token, body):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"/v1/memory_stores/{memory}/tool", body, {"x-api-key": token})
        response = connection.getresponse()
        response.read()
        return response.status

    def get(self, path, headers):
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status


def measure(server, pipe):
    """Sends requests of the other tenant, one after another, and returns the percentile in milliseconds."""
    connection = http.client.HTTPConnection(server.address, timeout=60)
    times, end, refused = [], time.monotonic() + SECONDS, 0
    body = json.dumps({"command": "view", "path": "/memories/a"})
    while time.monotonic() < end:
        start = time.perf_counter()
        connection.request("POST", "/v1/memory_stores/bob/tool", body, {"x-api-key": server.bob})
        response = connection.getresponse()
        response.read()
        times.append(time.perf_counter() - start)
        refused += response.status != 200
        time.sleep(0.005)
    times.sort()
    pipe.send((times[len(times) * 99 // 100] * 1_000, len(times), refused))


def p99(server):
    receive, send = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=measure, args=(server, send))
    process.start()
    found = receive.recv()
    process.join()
    return found


def repeat(act):
    """Repeats an act until the process is ended. In reality, these clients have other processors."""
    os.nice(19)
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            act()


@contextlib.contextmanager
def repeated(act, processes):
    running = [multiprocessing.Process(target=repeat, args=(act,), daemon=True) for _ in range(processes)]
    for process in running:
        process.start()
    yield
    for process in running:
        process.kill()
        process.join()


def picture(size):
    """A PNG of pixels that cannot be compressed."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    side = int(size**0.5)
    rows = b"".join(b"\0" + os.urandom(side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def files_of_alice(server):
    return server.place / "store/alice/memories"


@contextlib.contextmanager
def values(server):
    """A body of 16 MiB of small values, three at a time."""
    start, end = b'{"command":"view","path":"/memories","x":[', b"{}]}"
    body = start + b'{"":0},' * ((16 * MIB - len(start + end)) // 7) + end
    with repeated(lambda: server.call("alice", server.alice, body), 3):
        yield


@contextlib.contextmanager
def texts(server):
    """New files of 15 MiB, three at a time."""
    text = "x" * 15 * MIB

    def create():
        path = f"/memories/{secrets.token_hex(8)}"
        server.call("alice", server.alice, {"command": "create", "path": path, "file_text": text})
        server.call("alice", server.alice, {"command": "delete", "path": path})

    with repeated(create, 3):
        yield


@contextlib.contextmanager
def pictures(server):
    """A hundred views of a picture of 3 MB in one request, four at a time."""
    (files_of_alice(server) / "a.png").write_bytes(picture(3_000_000))
    one = {"type": "tool_use", "name": "memory", "input": {"command": "view", "path": "/memories/a.png"}}
    body = json.dumps({"content": [{**one, "id": str(number)} for number in range(100)]}).encode()
    with repeated(lambda: server.call("alice", server.alice, body), 4):
        yield


@contextlib.contextmanager
def views(server):
    """Views of a picture of 3 MB, 64 at a time."""
    (files_of_alice(server) / "a.png").write_bytes(picture(3_000_000))
    body = json.dumps({"command": "view", "path": "/memories/a.png"}).encode()
    with repeated(lambda: server.call("alice", server.alice, body), 64):
        yield


@contextlib.contextmanager
def unread(server):
    """150 responses of 8 MiB that nobody reads."""
    (files_of_alice(server) / "large").write_bytes(b"x" * 8 * MIB)
    connection = http.client.HTTPConnection(server.address)
    form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{server.address}"}
    connection.request("POST", "/sign-in", urllib.parse.urlencode({"token": server.alice}), form)
    cookie = connection.getresponse().getheader("set-cookie").split(";")[0]
    request = f"GET /memory/alice/raw?path=/memories/large HTTP/1.1\r\nhost: {server.address}\r\ncookie: {cookie}\r\n\r\n"
    sockets = [server.connect() for _ in range(150)]
    for each in sockets:
        each.sendall(request.encode())
    yield


@contextlib.contextmanager
def slow(server):
    """300 bodies of 90 KiB and 9 of 16 MiB that never end, of two tokens."""
    tokens = [server.alice, server.token("alice")]
    time.sleep(1)
    sockets = []
    for number in range(309):
        length = 16 * MIB if number < 9 else 90 * 1_024
        each = server.connect()
        each.settimeout(1)
        with contextlib.suppress(OSError):
            each.sendall(server.head("alice", tokens[number % 2], length) + b" " * (length - 1))
        sockets.append(each)
    yield


@contextlib.contextmanager
def files(server):
    """Lists of a memory with 100,000 files, 8 at a time."""
    for number in range(FILES):
        if number % 1_000 == 0:
            folder = files_of_alice(server) / str(number)
            folder.mkdir()
        (folder / str(number)).write_text("x")
    with repeated(lambda: server.get("/v1/memory_stores/alice/memories", {"x-api-key": server.alice}), 8):
        yield


@contextlib.contextmanager
def tokens(server):
    """Wrong tokens, while the file has 100,000."""
    content = json.loads(server.tokens.read_text())
    template = content["tokens"][0]
    more = [{**template, "id": secrets.token_hex(6), "hash": sha256(os.urandom(8)).hexdigest()} for _ in range(TOKENS)]
    changed = server.tokens.with_suffix(".new")
    changed.write_text(json.dumps({"tokens": more + content["tokens"]}))
    changed.chmod(0o600)
    changed.rename(server.tokens)
    time.sleep(3)
    with repeated(lambda: server.get("/v1/memory_stores", {"x-api-key": "memtok_wrong"}), 2):
        yield


FLOODS = [values, texts, pictures, views, unread, slow, files, tokens]


def main():
    program, *names = sys.argv[1:]
    failed = False
    print("| flood | peak in MB | p99 in ms at rest | beside a flood of another server | under the flood | requests | refused |")
    print("|---|---|---|---|---|---|---|")
    for flood in FLOODS:
        if names and flood.__name__ not in names:
            continue
        program = os.path.abspath(program)
        with tempfile.TemporaryDirectory() as folder, Server(program, Path(folder)) as server:
            rest, _, _ = p99(server)
            with tempfile.TemporaryDirectory() as other, Server(program, Path(other)) as second, flood(second):
                time.sleep(1)
                beside, _, _ = p99(server)
            with flood(server):
                time.sleep(1)
                under, count, refused = p99(server)
                peak = server.peak()
        failed |= peak > MAX_MB or under > MAX_RATIO * max(rest, beside) or refused > 0
        figures = f"{peak:.0f} | {rest:.1f} | {beside:.1f} | {under:.1f} | {count} | {refused}"
        print(f"| {flood.__name__} | {figures} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
