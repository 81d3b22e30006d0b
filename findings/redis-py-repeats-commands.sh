#!/usr/bin/env bash
# redis-py 8.1.0 repeats each command whose reply was lost with the connection, also one that must not run twice, and
# reports success. A line is appended twice, an entry of a queue is gone without a reader, and a lock is "not acquired",
# though it is held by the very token that was just refused. Version 3.1.0 removed such retries in 2019, as a fault that
# can lose and duplicate data, and 5.2.1 has none. 6.0.0 has three by default, 8.1.0 ten. With a count of 0, the caller
# gets a ConnectionError.
#
# Guess: a client repeats a command only if it reads, or if nothing was sent.
# Behavior: it repeats all, also transactions of MULTI and EXEC.
# Fails if this changes. Needs the package redis-server of Debian 12, Python with venv, and PyPI.
set -euo pipefail
redis-server --version | grep -q 'v=7\.0\.15 ' || { echo "another version of Redis" && exit 1; }
place=$(mktemp -d)
cd "$place"
end() {
    kill "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: redis==8.1.0
redis-server --port 0 --unixsocket "$place/socket" --save '' --dir "$place" >log &
server=$!
until [ -S socket ]; do sleep 0.1; done
cat >try.py <<'PYTHON'
import socket
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

loses_reply = threading.Event()


def forward(source, target, loses=False):
    while data := source.recv(65536):
        if loses and loses_reply.is_set():
            loses_reply.clear()
            break
        target.sendall(data)
    target.shutdown(socket.SHUT_RDWR)


def proxy(listener):
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect("socket")
        threading.Thread(target=forward, args=(client, server), daemon=True).start()
        threading.Thread(target=forward, args=(server, client, True), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=proxy, args=(listener,), daemon=True).start()
direct = redis.Redis(unix_socket_path="socket")
by_proxy = {"port": listener.getsockname()[1], "decode_responses": True}
client, careful = redis.Redis(**by_proxy), redis.Redis(**by_proxy, retry=Retry(NoBackoff(), 0))


def lose_reply(client, what):
    client.ping()
    loses_reply.set()
    try:
        return what()
    except redis.ConnectionError as error:
        return type(error).__name__


direct.rpush("queue", "first", "second")
print("append:", lose_reply(client, lambda: client.append("notes", "line ")), direct.get("notes"))
print("lpop:", lose_reply(client, lambda: client.lpop("queue")), direct.llen("queue"), "left")
lock = client.lock("lock", timeout=60, blocking=False)
print("lock:", lose_reply(client, lambda: lock.acquire(token="mine")), direct.get("lock"))
pipeline = client.pipeline(transaction=True).append("batch", "line ").rpush("list", "entry")
print("pipeline:", lose_reply(client, pipeline.execute), direct.get("batch"), direct.llen("list"))
print("append without retries:", lose_reply(careful, lambda: careful.append("careful", "line ")), direct.get("careful"))
PYTHON
venv/bin/python try.py | tee found
diff found - <<'TEXT'
append: 10 b'line line '
lpop: second 0 left
lock: False b'mine'
pipeline: [10, 2] b'line line ' 2
append without retries: ConnectionError b'line '
TEXT
