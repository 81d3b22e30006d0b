#!/usr/bin/env bash
# On sshfs, mergerfs and unionfs-fuse with their defaults, restoring from a snapshot of hard links empties the files and
# the snapshot. `cp -al` made it, so each unchanged file is one file with two names. `cp` tells this by the numbers of
# the inodes, and refuses. These file systems number names instead, so `cp` truncates its source, copies nothing, and
# reports success. `mv` leaves both names, as POSIX demands, but reports success too. Python's `shutil.copyfile` behaves
# as `cp`. rsync is safe, because it writes another file. mergerfs and unionfs-fuse have an option `use_ino`, with which
# `cp` refuses.
#
# Guess: cp reports "are the same file", as on other file systems and on bindfs.
# Behavior: both names have 0 bytes, and the status is 0.
# Fails if this changes. Needs the packages sshfs, openssh-sftp-server, mergerfs, unionfs-fuse and bindfs of Debian 12,
# Python, and access to /dev/fuse.
set -euo pipefail
[ "$(dpkg-query -W -f '${Package} ${Version} ' sshfs mergerfs unionfs-fuse bindfs)" = \
    "bindfs 1.14.7-1 mergerfs 2.33.5-1 sshfs 3.7.3-1.2~deb12u1 unionfs-fuse 1.0-1+b1 " ] || {
    echo "other versions" && exit 1
}
place=$(mktemp -d)
cd "$place"
end() {
    for name in sshfs mergerfs unionfs bindfs mergerfs-use_ino unionfs-use_ino; do
        fusermount -u "$place/$name" 2>/dev/null || true
    done
    rm -rf --one-file-system "$place"
}
trap end EXIT
mkdir sshfs mergerfs unionfs bindfs mergerfs-use_ino unionfs-use_ino
mkdir on-sshfs on-mergerfs{1,2} on-unionfs on-bindfs on-mergerfs-use_ino{1,2} on-unionfs-use_ino
python3 - <<'PYTHON' &
import socket
import subprocess

with socket.create_server(("127.0.0.1", 0)) as server:
    with open("port", "w") as file:
        file.write(str(server.getsockname()[1]))
    connection, _ = server.accept()
subprocess.run(["/usr/lib/openssh/sftp-server"], stdin=connection.fileno(), stdout=connection.fileno())
PYTHON
until [ -s port ]; do sleep 0.1; done
sshfs -o directport="$(cat port)" "127.0.0.1:$place/on-sshfs" sshfs
mergerfs on-mergerfs1:on-mergerfs2 mergerfs
mergerfs -o use_ino on-mergerfs-use_ino1:on-mergerfs-use_ino2 mergerfs-use_ino
unionfs "$place/on-unionfs=RW" unionfs
unionfs -o use_ino "$place/on-unionfs-use_ino=RW" unionfs-use_ino
bindfs on-bindfs bindfs

for name in sshfs mergerfs unionfs bindfs mergerfs-use_ino unionfs-use_ino; do
    (
        cd "$name"
        mkdir memory
        echo "takes tea without milk" >memory/notes.md
        cp -al memory snapshot
        status=0
        cp snapshot/notes.md memory/notes.md 2>error || status=$?
        cd ..
        echo "$name: status $status, memory $(cat on-"$name"{,1,2}/memory/notes.md 2>/dev/null | wc -c) bytes," \
            "snapshot $(cat on-"$name"{,1,2}/snapshot/notes.md 2>/dev/null | wc -c) bytes"
    )
done | tee found
diff found - <<'TEXT'
sshfs: status 0, memory 0 bytes, snapshot 0 bytes
mergerfs: status 0, memory 0 bytes, snapshot 0 bytes
unionfs: status 0, memory 0 bytes, snapshot 0 bytes
bindfs: status 1, memory 23 bytes, snapshot 23 bytes
mergerfs-use_ino: status 1, memory 23 bytes, snapshot 23 bytes
unionfs-use_ino: status 1, memory 23 bytes, snapshot 23 bytes
TEXT
