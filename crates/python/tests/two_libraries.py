"""Writes to a SQLite store for some seconds, with `Memory` and with `sqlite3` of the same process.

Usage: two_libraries.py DATABASE SECONDS NAME. The name starts with `both-`, `memory-` or `host-`. Prints the path of each
acknowledged file, whose text is its path. The program may be killed at any time. Any error other than a lock ends it
with a status other than 0.
"""

import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from memory_tool import Memory

INSERT_FILE = (
    "INSERT INTO file (memory, path, size, content_id, created_at, modified_at)"
    " VALUES ('default', ?1, length(?1), last_insert_rowid(), 0, 0)"
)

TORN_FILES = (
    "SELECT count(*) FROM file LEFT JOIN content ON content.id = content_id WHERE CAST(bytes AS TEXT) IS NOT path"
)


def main():
    database, seconds, name = sys.argv[1:]
    end = time.monotonic() + float(seconds)

    def acknowledge(path):
        os.write(1, f"{path}\n".encode())  # in one step, so that a kill leaves whole lines

    def paths(kind):
        number = 0
        while time.monotonic() < end:
            yield f"/memories/{kind}/{name}/{number}"
            number += 1

    def write():
        memory = Memory(f"sqlite:{database}", timeout=120)
        for path in paths("memory"):
            memory.write_text(path, path)
            acknowledge(path)

    def reopen():
        for path in paths("reopened"):
            with Memory(f"sqlite:{database}", timeout=120) as memory:
                memory.write_text(path, path)
                acknowledge(path)
                assert memory.read_text(path) == path

    def connect():
        return closing(sqlite3.connect(database, timeout=120, isolation_level=None))

    def write_with_host():
        for path in paths("host"):
            with connect() as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO content (bytes) VALUES (CAST(? AS BLOB))", [path])
                connection.execute(INSERT_FILE, [path])
                time.sleep(0.002)
                connection.execute("COMMIT")
                acknowledge(path)
            time.sleep(0.01)

    def read_with_host():
        copy = Path(f"{database}.{name}")
        copies = [
            lambda connection: connection.execute("VACUUM INTO ?", [str(copy)]),
            lambda connection: back_up(connection, copy),
        ]
        while time.monotonic() < end:
            for make in copies:
                with connect() as connection:
                    check(connection)
                    make(connection)
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                with closing(sqlite3.connect(copy)) as copied:
                    check(copied)
                    assert copied.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                copy.unlink()
            time.sleep(0.05)

    own, of_host = [write, reopen], [write_with_host, read_with_host]
    run({"both": own + of_host, "memory": own, "host": of_host}[name.split("-")[0]])


def check(connection):
    """No read is torn."""
    assert connection.execute(TORN_FILES).fetchone() == (0,)


def back_up(connection, copy):
    with closing(sqlite3.connect(copy)) as target:
        connection.backup(target)


def run(tasks):
    failed = []

    def catch(task):
        try:
            task()
        except BaseException as error:
            failed.append(error)
            print(f"{task.__name__}: {error!r}", file=sys.stderr)

    threads = [threading.Thread(target=catch, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(len(failed))


if __name__ == "__main__":
    main()
