#!/usr/bin/env bash
# SQLite 3.54.1 cannot read a database for good if a writer was killed at one moment, and the reader may not write the
# shared memory (`readonly_shm=1`). The moment is between the header of the write-ahead log and its first frame: two
# writes that follow each other at the first commit after the log was removed, which is each first commit of a program
# that was alone. The log has no change, so the database is whole. The reader makes an index of its own, and takes the
# salt of the log into it with a frame only. Then it compares the salt with that of the header, and tries again for ten
# seconds. A kill before the header, or within the first frame, does no harm. `mode=ro` alone does none either, because
# such a reader repairs the shared memory, although it is read-only. A writer that opens the database ends it.
#
# Guess: after a kill at any moment, each reader finds the last commit.
# Behavior: "locking protocol" after ten seconds, at each attempt, without any other process.
# Seen with apsw 3.54.1.0 of PyPI. Fails if this changes. Needs strace, Python with venv, and PyPI.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: apsw==3.54.1.0
cat >write.py <<'PYTHON'
import sys

import apsw

notes = apsw.Connection("notes.db")
notes.pragma("journal_mode", "wal")
notes.execute("CREATE TABLE IF NOT EXISTS notes (text)")
notes.execute("INSERT INTO notes VALUES (?)", (sys.argv[1],))
notes.close()
PYTHON
cat >read.py <<'PYTHON'
import sys

import apsw

try:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    found = apsw.Connection(f"file:notes.db?{sys.argv[1]}", flags).execute("SELECT text FROM notes").fetchall()
except apsw.Error as error:
    found = error
print(f"  {sys.argv[1]}: {found}")
PYTHON
venv/bin/python write.py tea
killed() { # NUMBER of the write to the log before which the writer is killed
    rm -rf copy
    mkdir copy
    cp notes.db copy
    cd copy
    { strace -qq -o /dev/null -P "$PWD/notes.db-wal" -e trace=pwrite64 -e "inject=pwrite64:signal=SIGKILL:when=$1" \
        ../venv/bin/python ../write.py coffee || true; } 2>/dev/null
    echo " $(stat -c %s notes.db-wal) bytes in the log"
    ../venv/bin/python ../read.py readonly_shm=1
    ../venv/bin/python ../read.py mode=ro
    cd ..
}
{
    killed 1
    killed 2
    killed 3
} | tee found
diff found - <<'TEXT'
 0 bytes in the log
  readonly_shm=1: [('tea',)]
  mode=ro: [('tea',)]
 32 bytes in the log
  readonly_shm=1: locking protocol
  mode=ro: [('tea',)]
 56 bytes in the log
  readonly_shm=1: [('tea',)]
  mode=ro: [('tea',)]
TEXT
