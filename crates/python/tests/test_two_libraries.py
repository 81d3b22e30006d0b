"""A program may use its own `sqlite3` for the database of an open memory: no library drops the locks of the other."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from conftest import IS_LONG
from memory_tool import Memory, StoreError

SECONDS, RUNS = (15, 10) if IS_LONG else (3, 1)
PROGRAM = Path(__file__).parent / "two_libraries.py"

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has locks of open files")


def start(database, seconds, name):
    output = open(f"{database}.{name}.txt", "wb")
    return subprocess.Popen([sys.executable, "-B", PROGRAM, database, str(seconds), name], stdout=output)


def acknowledged(database):
    return [line for file in Path(database).parent.glob("*.txt") for line in file.read_text().split()]


def assert_kept(database):
    with Memory(f"sqlite:{database}") as memory:
        assert memory.verify().problems == []
        kept = {entry.path for entry in memory.list()}
        written = acknowledged(database)
        lost = [path for path in written if path not in kept]
        assert not lost, f"{len(lost)} of {len(written)} acknowledged files are lost: {lost[:5]}"
    kinds = {path.split("/")[2] for path in written}
    assert kinds == {"memory", "host", "reopened"}, kinds
    print(len(written), "acknowledged")


@linux_only
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("_run", range(RUNS))
def test_no_file_is_lost(tmp_path, _run, is_killed):
    database = str(tmp_path / "memory.db")
    Memory(f"sqlite:{database}").list()
    names = ["both-1", "both-2", "memory-", "host-"]
    processes = [start(database, SECONDS, name) for name in names]
    if is_killed:
        time.sleep(SECONDS / 2)
        processes[0].kill()
        processes[0].wait()
        processes[0] = start(database, SECONDS / 2, "both-3")
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert_kept(database)


@linux_only
def test_a_lock_of_the_host_excludes_the_memory_and_is_kept_when_a_memory_is_closed(tmp_path):
    database = tmp_path / "memory.db"
    memory = Memory(f"sqlite:{database}", timeout=0.2)
    memory.write_text("/memories/a", "text")
    with closing(sqlite3.connect(database, isolation_level=None)) as host:
        host.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with pytest.raises(StoreError) as busy:
                memory.write_text("/memories/a", "new")
            assert busy.value.retryable
            assert memory.read_text("/memories/a") == "text"
            memory.close()
            in_another = f"import sqlite3; sqlite3.connect({str(database)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
            other = subprocess.run([sys.executable, "-c", in_another], capture_output=True, text=True)
            assert "database is locked" in other.stderr
            memory = Memory(f"sqlite:{database}", timeout=0.2)
        host.execute("COMMIT")
    memory.write_text("/memories/a", "new")


@linux_only
def test_closed_files_are_used_again(tmp_path):
    database = tmp_path / "memory.db"

    def open_files():
        places = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return sum(place.startswith(str(tmp_path)) for place in places)

    with closing(sqlite3.connect(database)) as host:
        for _ in range(50):
            with Memory(f"sqlite:{database}") as memory:
                memory.write_text("/memories/a", "text")
            host.execute("SELECT count(*) FROM file").fetchone()
        assert open_files() < 20
    with Memory(f"sqlite:{database}") as memory:
        memory.write_text("/memories/a", "text")
    end = time.monotonic() + 30
    while open_files() and time.monotonic() < end:
        time.sleep(0.01)  # a thread closes them
    assert open_files() == 0


@linux_only
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_of_a_fork_releases_no_lock_of_its_parent(tmp_path):
    database = tmp_path / "memory.db"
    memory = Memory(f"sqlite:{database}")
    memory.write_text("/memories/a", "text")

    def locks():
        inodes = [f":{file.stat().st_ino}" for file in tmp_path.iterdir()]
        fields = [line.split()[-3:] for line in open("/proc/locks")]
        return sorted(found for found in fields if found[0].endswith(tuple(inodes)))

    before = locks()
    assert before
    child = os.fork()
    if child == 0:
        with Memory(f"sqlite:{database}") as own:
            own.write_text("/memories/child", "text")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert locks() == before
    memory.write_text("/memories/b", "text")
    in_another = f"import sqlite3; sqlite3.connect({str(database)!r}).execute('SELECT count(*) FROM file').fetchall()"
    subprocess.run([sys.executable, "-c", in_another], check=True)
    memory.write_text("/memories/c", "text")
    assert [entry.path for entry in memory.list()] == [f"/memories/{name}" for name in ("a", "b", "c", "child")]
    assert memory.verify().problems == []
