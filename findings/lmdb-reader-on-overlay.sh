#!/usr/bin/env bash
# LMDB on overlayfs, the storage of containers: a reader that is open before the first change sees an empty database
# after each odd change, and the state of the image after each even one. The database came with the image, so the reader
# maps the file of the lower layer. The first writer copies the file to the upper layer, and a mapping does not follow.
# The reader opens the lock file for writing, so that one is the same for all. It has the number of the newest
# transaction, and the reader takes the root of the tree from the page of the old file for odd or even numbers.
# A memory that was never removed is not found, without an error. A reader that opens the database again sees all.
#
# Guess: each new read transaction has the newest commit, or at worst the old one.
# Behavior: neither the old nor the new text is found.
# Seen with lmdb 3.0.0 of PyPI on Linux 6.18. Fails if this changes. Needs Python with venv, PyPI, and root or user
# namespaces to mount the overlay.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: lmdb==3.0.0
cat >memory.py <<'PYTHON'
import subprocess
import sys

import lmdb

what, path = sys.argv[1:]
if what == "write":
    with lmdb.open(path) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"tea", transaction.get(b"tea", b"tea") + b"+")
else:
    def read():
        with environment.begin() as transaction:
            return transaction.get(b"tea"), transaction.stat()["entries"]

    environment = lmdb.open(path, readonly=True)
    print("before:", *read())
    for number in range(1, 4):
        subprocess.run([sys.executable, __file__, "write", path], check=True)
        print(f"after change {number}:", *read())
    environment.close()
    environment = lmdb.open(path, readonly=True)
    print("opened again:", *read())
PYTHON
cat >container <<'SCRIPT'
mount -t tmpfs none layers
mkdir layers/upper layers/work layers/merged
mount -t overlay overlay -o lowerdir=image,upperdir=layers/upper,workdir=layers/work,userxattr layers/merged
venv/bin/python memory.py read layers/merged/memory
SCRIPT
mkdir image layers
venv/bin/python memory.py write image/memory
{
    unshare --user --map-root-user --mount bash -euc "$(cat container)"
    echo "without overlay:"
    venv/bin/python memory.py read image/memory
} | tee found
diff found - <<'TEXT'
before: b'tea+' 1
after change 1: None 0
after change 2: b'tea+' 1
after change 3: None 0
opened again: b'tea++++' 1
without overlay:
before: b'tea+' 1
after change 1: b'tea++' 1
after change 2: b'tea+++' 1
after change 3: b'tea++++' 1
opened again: b'tea++++' 1
TEXT
