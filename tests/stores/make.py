#!/usr/bin/env python3
"""Makes the archives of this folder: stores that are sound, half written, damaged, cut, mixed or changed by others.

Usage: [memory-tool-test-servers] tests/stores/make.py PROGRAM [NAME...]

The archives are kept as they were made, so that a later version meets the stores of an earlier one. Make one again only if
its format changes on purpose. The test `damaged_stores` of the program writes beside each what `verify` and its repair
report, if `MEMORY_TOOL_UPDATE` is set: review the difference. `crates/bucket/tests/it/archives.rs` has those of buckets.

Those of PostgreSQL, for `testing/postgres/tests/operations/archives.rs`, are a dump of a sound database, which this program
makes if `memory-tool-test-servers` runs it, and the statements of other programs, which the test makes on the dump.
"""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LINES = [
    {"command": "create", "path": "/memories/profile.md", "file_text": "Prefers tea.\n"},
    {"command": "create", "path": "/memories/notes/a.md", "file_text": "one\n" * 40},
    {"command": "str_replace", "path": "/memories/profile.md", "old_str": "tea", "new_str": "coffee"},
    {"command": "rename", "old_path": "/memories/notes", "new_path": "/memories/projects"},
    {"command": "create", "path": "/memories/old.md", "file_text": "forgotten\n"},
    {"command": "delete", "path": "/memories/old.md"},
]


class Maker:
    """A folder in which a store is made. An archive has all its files."""

    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), Path(folder)

    def run(self, store, *options, lines=LINES, under=()):
        """Runs the tool's commands on a store."""
        words = [*under, self.program, "run", "--store", store, *options]
        given = "".join(json.dumps(line) + "\n" for line in lines)
        return subprocess.run(words, input=given, text=True, capture_output=True, cwd=self.folder, check=not under)

    def with_history(self, store, *options):
        self.run(store, "--history", "--actor", "agent", *options)

    @contextlib.contextmanager
    def database(self):
        connection = sqlite3.connect(self.folder / "memory.db")
        yield connection
        connection.commit()
        connection.close()

    def record(self, name):
        return self.folder / "store/.memory-tool/records/history" / name


def local_sound(make):
    make.with_history("store")


def local_without_history(make):
    make.run("store")


def local_killed(make):
    """The program was killed between the steps of a change."""
    make.with_history("store")
    rename = [{"command": "str_replace", "path": "/memories/profile.md", "old_str": "coffee", "new_str": "water"}]
    for when in range(1, 40):
        copy = make.folder / "copy"
        shutil.copytree(make.folder / "store", copy)
        killed = ["strace", "-qf", "-e", f"inject=renameat2,renameat,rename:signal=KILL:when={when}", "-o", "/dev/null"]
        make.run("copy", "--history", lines=rename, under=killed)
        sequence = (copy / ".memory-tool/sequence").read_bytes()
        pending = sorted(path.name for path in (copy / ".memory-tool").iterdir())
        if "journal" in pending or sequence[:1][0] % 2:
            shutil.rmtree(make.folder / "store")
            copy.rename(make.folder / "store")
            return
        shutil.rmtree(copy)
    raise AssertionError("no change was left pending")


def local_lacks_an_entry(make):
    make.with_history("store")
    make.record("log/00000000000000000003").unlink()


def local_cut_entry(make):
    make.with_history("store")
    os.truncate(make.record("log/00000000000000000005"), 20)


def local_damaged_head(make):
    make.with_history("store")
    make.record("head").write_text("{")


def local_of_two_births(make):
    """The log is of a memory that was deleted, the files are of the one that was made after it."""
    make.with_history("store")
    shutil.copytree(make.record("log"), make.folder / "log")
    subprocess.run([make.program, "forget", "store", "--yes", "--store", "."], cwd=make.folder, check=True, capture_output=True)
    make.with_history("store")
    shutil.rmtree(make.record("log"))
    (make.folder / "log").rename(make.record("log"))


def local_of_others(make):
    """Other programs made links, names and texts that the tool does not."""
    make.with_history("store")
    memories = make.folder / "store/memories"
    (memories / "link.md").symlink_to("profile.md")
    (memories / "back\\slash.md").write_text("text")
    (memories / "latin.md").write_bytes(b"caf\xe9\n")
    (memories / "empty").mkdir()
    (memories / "profile.md").write_text("Edited by hand.\n")


def sqlite_sound(make):
    make.with_history("sqlite:memory.db")


def sqlite_cut(make):
    make.with_history("sqlite:memory.db")
    size = (make.folder / "memory.db").stat().st_size
    os.truncate(make.folder / "memory.db", size // 2)


def sqlite_flipped(make):
    """Some bytes of the last page are others."""
    make.with_history("sqlite:memory.db")
    path = make.folder / "memory.db"
    content = bytearray(path.read_bytes())
    content[-600:-300] = bytes(300)
    path.write_bytes(content)


def sqlite_of_others(make):
    """Another program analyzed the database, and added a table."""
    make.with_history("sqlite:memory.db")
    with make.database() as connection:
        connection.execute("ANALYZE")
        connection.execute("CREATE TABLE notes (text TEXT)")


def sqlite_lacks_an_entry(make):
    make.with_history("sqlite:memory.db")
    with make.database() as connection:
        assert connection.execute("DELETE FROM file WHERE path LIKE '%/history/log/%3'").rowcount == 1


def encrypted_store(make):
    subprocess.run([make.program, "keygen", "--output", "memory.key"], cwd=make.folder, check=True, capture_output=True)
    make.with_history("store", "--key-file", "memory.key")
    found = [path for path in (make.folder / "store/memories").rglob("*") if path.is_file()]
    return sorted(found, key=lambda path: (path.stat().st_size, path))


def encrypted_sound(make):
    encrypted_store(make)


def encrypted_swapped(make):
    """Two encrypted files have changed places."""
    first, second = encrypted_store(make)[-2:]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def encrypted_cut(make):
    last = encrypted_store(make)[-1]
    os.truncate(last, last.stat().st_size - 10)


def encrypted_other_key(make):
    """The key is not the one of the store."""
    encrypted_store(make)
    (make.folder / "memory.key").unlink()
    subprocess.run([make.program, "keygen", "--output", "memory.key"], cwd=make.folder, check=True, capture_output=True)


def dump_postgres(make):
    """A dump of two memories, without what differs between versions of PostgreSQL."""
    url = os.environ["MEMORY_TOOL_POSTGRES"]
    for memory in ("default", "alice"):
        make.with_history(f"{url}?memory={memory}")
    words = ["pg_dump", "--schema=memory_tool", "--inserts", "--no-owner", "--no-privileges", url]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    of_version = ("--", "SET ", "SELECT pg_catalog.set_config", "\\")
    (HERE / "postgres-sound.sql").write_text("".join(f"{line}\n" for line in lines if line and not line.startswith(of_version)))


MAKERS = [value for name, value in list(globals().items()) if name.startswith(("local_", "sqlite_", "encrypted_"))]


def normal(member):
    """An entry of an archive, without the user and the time of this machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 1_795_000_000
    return member


def main():
    program, *names = sys.argv[1:]
    if "MEMORY_TOOL_POSTGRES" in os.environ and (not names or "postgres-sound" in names):
        dump_postgres(Maker(program, HERE))
    for maker in MAKERS:
        name = maker.__name__.replace("_", "-")
        if maker is encrypted_store or (names and name not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            maker(Maker(program, folder))
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w:gz") as archive:
                for path in sorted(Path(folder).iterdir()):
                    archive.add(path, path.name, filter=normal)
            (HERE / f"{name}.tar.gz").write_bytes(content.getvalue())


if __name__ == "__main__":
    main()
