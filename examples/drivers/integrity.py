"""Runs the nine attacks of agent-memory-integrity 0.6.3 on stores of memory-tool, and prints a table in Markdown:

    pip install agent-memory-integrity==0.6.3
    python examples/drivers/integrity.py target/debug/memory-tool

Each attack changes what the store has on disk, without its keys. "rejected": a read by the tool fails. "reported":
reads succeed, and `memory-tool verify` names a problem. "accepted": neither.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

PROGRAM = sys.argv[1]
COLUMNS = ["tamper", "truncate", "delete", "reorder", "forge", "other memory", "older file", "metadata", "older store"]


class Store(MemoryAdapter):
    """Two memories, `a` and `b`. A record is what one file of a memory has on disk; `seq` numbers them by creation."""

    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self, name, encrypted=False, history=False):
        self.name, self.encrypted, self.history = name, encrypted, history

    def setup(self):
        self.place = Path(tempfile.mkdtemp())
        self.store = self.place / "store"
        self.raw_names, self.count, self.how = {"a": [], "b": []}, 0, None
        if self.encrypted:
            self.call("keygen", "--output", self.place / "key")

    def teardown(self):
        shutil.rmtree(self.place)

    def call(self, *arguments, text=None):
        command = [PROGRAM, *map(str, arguments)]
        return subprocess.run(command, input=text, capture_output=True, text=True)

    def tool(self, command, memory, *arguments, text=None):
        key = ["--key-file", self.place / "key"] if self.encrypted else []
        return self.call(command, *arguments, "--store", self.url(memory), *key, text=text)

    def write(self, memory):
        history = ["--history"] if self.history else []
        text = f"text {self.count} of {memory}\n"
        created = self.tool("create", memory, f"{self.count:02}.md", *history, text=text)
        assert created.returncode == 0, created.stderr
        self.count += 1
        known = self.raw_names[memory]
        known += sorted(set(self.raw(memory)) - set(known))

    def seed(self, n):
        for _ in range(n):
            self.write("a")

    def seed_other(self, n):
        for _ in range(n):
            self.write("b")

    def append_genuine(self):
        self.write("a")

    def records(self, memory):
        raw = self.raw(memory)
        names = self.raw_names[memory] + sorted(set(raw) - set(self.raw_names[memory]))
        rows = [(seq, name) for seq, name in enumerate(names) if name in raw]
        return [Record(seq, {"memory": memory, "name": name, "content": raw[name]}) for seq, name in rows]

    def read_all_raw(self):
        return self.records("a")

    def read_other_raw(self):
        return self.records("b")

    def name_of(self, seq):
        return self.raw_names["a"][seq]

    def write_raw(self, record):
        known = self.raw_names["a"]
        self.put(known[record.seq] if record.seq < len(known) else record.fields["name"], record.fields["content"])

    def delete_raw(self, seq):
        self.remove(self.name_of(seq))

    def replay_onto(self, victim_seq, donor):
        self.put(self.name_of(victim_seq), donor.fields["content"])

    def mutate_payload(self, record):
        content = bytearray(record.fields["content"])
        content[-2] ^= 1  # a letter of a text, a byte of the tag of a ciphertext
        record.fields["content"] = bytes(content)
        return record

    def forge_record(self, template):
        name = template.fields["name"]
        forged = name.replace("04", "99") if not self.encrypted else f"{int(name, 16) ^ 1:032x}"
        fields = {**template.fields, "name": forged}
        return self.mutate_payload(Record(len(self.raw_names["a"]), fields))

    def identity_of(self, record):
        return record.fields["name"]

    def payload_of(self, record):
        return repr(record.fields["content"])

    def owner_of(self, record):
        return record.fields["memory"]

    def snapshot_store(self):
        return self._copy_store(self.store)

    def restore_store(self, token):
        self._restore_store(token, self.store)

    def reload(self):
        """Each command is a new process."""

    def verify(self):
        listed = self.tool("ls", "a")
        reads = [listed] + [self.tool("cat", "a", path) for path in listed.stdout.split()]
        if any(read.returncode for read in reads):
            self.how = "rejected"
        elif self.tool("verify", "a").returncode:
            self.how = "reported"
        else:
            self.how = None
        return self.how is None


class Directory(Store):
    """A directory per memory."""

    def url(self, memory):
        return f"file:{self.store}/{memory}"

    def files(self, memory):
        return self.store / memory / "memories"

    def raw(self, memory):
        return {path.name: path.read_bytes() for path in self.files(memory).iterdir() if "index" not in path.name}

    def put(self, name, content):
        (self.files("a") / name).write_bytes(content)

    def remove(self, name):
        (self.files("a") / name).unlink()

    def read_meta(self, seq):
        return {"modified": (self.files("a") / self.name_of(seq)).stat().st_mtime}

    def write_meta(self, seq, meta):
        os.utime(self.files("a") / self.name_of(seq), (1, 1))


class Database(Store):
    """One SQLite file."""

    ROW = "memory = 'a' AND path = ?"

    def url(self, memory):
        return f"sqlite:{self.store}?memory={memory}"

    def sql(self, statement, *values):
        with closing(sqlite3.connect(self.store, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def raw(self, memory):
        files = "SELECT path, bytes FROM file JOIN content ON id = content_id WHERE memory = ? AND path < '/records'"
        return {path.rsplit("/", 1)[1]: content for path, content in self.sql(files, memory) if "index" not in path}

    def put(self, name, content):
        path = f"/memories/{name}"
        if not self.sql(f"SELECT 1 FROM file WHERE {self.ROW}", path):
            self.sql("INSERT INTO content (bytes) VALUES (?)", content)
            columns = "'a', ?, ?, max(id), 1, 1"
            self.sql(f"INSERT INTO file SELECT {columns} FROM content", path, len(content))
        owner = f"id = (SELECT content_id FROM file WHERE {self.ROW})"
        self.sql(f"UPDATE content SET bytes = ?, revision = revision + 1 WHERE {owner}", content, path)
        self.sql(f"UPDATE file SET size = ? WHERE {self.ROW}", len(content), path)

    def remove(self, name):
        self.sql(f"DELETE FROM file WHERE {self.ROW}", f"/memories/{name}")

    def read_meta(self, seq):
        time = f"SELECT 'modified', modified_at FROM file WHERE {self.ROW}"
        return dict(self.sql(time, f"/memories/{self.name_of(seq)}"))

    def write_meta(self, seq, meta):
        self.sql(f"UPDATE file SET modified_at = 1 WHERE {self.ROW}", f"/memories/{self.name_of(seq)}")


def outcome(attack, store):
    result = attack().run(store)
    problem = result.error or getattr(result, "guard", None)
    assert not problem, f"{store.name}, {attack.name}: {problem}"
    return store.how if result.detected else "accepted"


def main():
    stores = [
        Directory("local"),
        Directory("local, history", history=True),
        Database("SQLite"),
        Database("SQLite, history", history=True),
        Directory("local, encrypted", encrypted=True),
        Database("SQLite, encrypted", encrypted=True),
    ]
    print("| store |", " | ".join(COLUMNS), "|")
    print("|---|" + "---|" * len(COLUMNS))
    for store in stores:
        row = [outcome(attack, store) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
        print(f"| {store.name} |", " | ".join(row), "|", flush=True)


main()
