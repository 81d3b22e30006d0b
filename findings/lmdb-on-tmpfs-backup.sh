#!/usr/bin/env bash
# rsync, and each backup by size and times, takes a changed LMDB database on tmpfs for unchanged. With `writemap`, LMDB
# writes by a mapping of the file, whose size is fixed. tmpfs sets the times of a file at the first write to each page
# of a mapping only, and neither msync nor LMDB's own `sync` sets them later. After a dozen commits all pages have been
# written, so from then on neither mtime nor ctime changes as long as the process runs. `rsync --checksum` notices.
#
# Guess: msync updates the times at the latest, as POSIX demands and as on ext4.
# Behavior: the copy stays as it was, and rsync reports success.
# Seen with lmdb 3.0.0 of PyPI, rsync 3.5.0 and Linux 6.18. Fails if this changes. Needs Python with venv, PyPI, rsync,
# a tmpfs at /dev/shm, and another file system for temporary files.
set -euo pipefail
place=$(mktemp -d)
memory=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$place" "$memory"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: lmdb==3.0.0
cat >backup.py <<'PYTHON'
import subprocess
import sys
import time

import lmdb

folder, writemap = sys.argv[1], sys.argv[2] == "writemap"
environment = lmdb.open(f"{folder}/{sys.argv[2]}", map_size=1 << 20, writemap=writemap)


def remember(text):
    with environment.begin(write=True) as transaction:
        transaction.put(b"tea", text)
    environment.sync(True)


def back_up(*options):
    subprocess.run(["rsync", "-a", *options, environment.path() + "/", "copy"], check=True)
    with lmdb.open("copy", readonly=True, lock=False) as copy, copy.begin() as transaction:
        return transaction.get(b"tea")


for _ in range(20):
    remember(b"with milk")
back_up()
time.sleep(1.1)
remember(b"without milk")
print(f"{sys.argv[2]}: rsync {back_up()}, rsync --checksum {back_up('--checksum')}")
environment.close()
PYTHON
mkdir disk
{
    for way in plain writemap; do echo "tmpfs, $(venv/bin/python backup.py "$memory" $way)"; done
    for way in plain writemap; do echo "disk, $(venv/bin/python backup.py disk $way)"; done
} | tee found
diff found - <<'TEXT'
tmpfs, plain: rsync b'without milk', rsync --checksum b'without milk'
tmpfs, writemap: rsync b'with milk', rsync --checksum b'without milk'
disk, plain: rsync b'without milk', rsync --checksum b'without milk'
disk, writemap: rsync b'without milk', rsync --checksum b'without milk'
TEXT
