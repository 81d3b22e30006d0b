#!/usr/bin/env bash
# Two SQLite libraries in one Python process do not exclude each other, and closing a file in one releases the locks of
# the other. Seen with Python's sqlite3 (a library of the system) and apsw, whose wheel has its own, on Linux.
#
# Guess: POSIX locks belong to the process, not to the library or the open file.
# Fails if this behavior changes. Needs Python with sqlite3 and venv, and PyPI.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check --only-binary=:all: apsw==3.54.1.0
cat >"$place/try.py" <<'PYTHON'
import sqlite3
import subprocess
import sys

import apsw

path = sys.argv[1]
other = f"import sqlite3; sqlite3.connect({path!r}, timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"


def is_excluded_in_another_process():
    run = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True)
    return "database is locked" in run.stderr


print("SQLite of sqlite3:", sqlite3.sqlite_version, "of apsw:", apsw.sqlite_lib_version())
first = apsw.Connection(path)
first.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").fetchall()
before = is_excluded_in_another_process()
second = sqlite3.connect(path, timeout=0, isolation_level=None)
second.execute("BEGIN IMMEDIATE")  # expected: database is locked
second.execute("ROLLBACK")
second.close()
after = is_excluded_in_another_process()
print("the second library was excluded: False")
print("another process was excluded:", before, "and after the second library closed the file:", after)
sys.exit(not (before and not after))
PYTHON
"$place/venv/bin/python" "$place/try.py" "$place/test.db"
