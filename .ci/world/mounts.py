#!/usr/bin/env python3
"""Uses a memory with a history on real file systems, as root on Linux. `.ci/file_systems.py [NAME...]`

For each file system: the commands of the tool, names that some file systems refuse, eight writers of one file, and
writers that are killed. No acknowledged line may be lost, every reply must be a success or a refusal of the name, and
`verify` must find no problem. File systems that the program must refuse are mounted too. Missing ones are skipped.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "debug/memory-tool"
WRITERS, LINES, KILLS = 8, 20, 5
NAMES = ["a: b.md", "what?.md", "con.md", "notes.", ".wh.x", "é ü.md", "x" * 200, "\u8a18" * 60, "\u8a18" * 84]
UNSUPPORTED = "Error: The memory storage does not support this file name. Nothing was changed."


def sh(command, **options):
    done = subprocess.run(command, shell=True, text=True, capture_output=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def session(url, commands):
    """Replies of one session."""
    lines = "".join(json.dumps(command) + "\n" for command in commands)
    done = subprocess.run([PROGRAM, "run", "--history", "--store", url], input=lines, text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return [json.loads(line)["content"] for line in done.stdout.splitlines()]


def verify(url):
    done = subprocess.run([PROGRAM, "verify", "--store", url], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([PROGRAM, "log", "--store", url], check=True, capture_output=True)


def create(path, text="text"):
    return {"command": "create", "path": path, "file_text": text}


def insert(path, line):
    return {"command": "insert", "path": path, "insert_line": 0, "insert_text": line}


def rename(old, new):
    return {"command": "rename", "old_path": old, "new_path": new}


def delete(path):
    return {"command": "delete", "path": path}


def use_commands(url):
    commands = [create("/memories/d/a"), create("/memories/d/e/b"), insert("/memories/d/a", "edited")]
    commands += [rename("/memories/d", "/memories/n/d"), rename("/memories/n/d/a", "/memories/c")]
    commands += [delete("/memories/n"), {"command": "view", "path": "/memories"}]
    replies = session(url, commands)
    assert not [reply for reply in replies if reply.startswith("Error")], replies
    return len(commands)


def use_names(url):
    """The number of refused names. A refused one must not harm the store."""
    refused = 0
    for name in NAMES:
        created, renamed, edited = session(
            url,
            [create(f"/memories/{name}"), rename("/memories/c", f"/memories/{name}2"), insert("/memories/d/c", "x")],
        )
        assert created == UNSUPPORTED or created.startswith("File created"), created
        assert renamed == UNSUPPORTED or renamed.startswith("Successfully renamed"), renamed
        assert "has been edited" in edited, edited
        if renamed != UNSUPPORTED:
            session(url, [rename(f"/memories/{name}2", "/memories/c")])
        refused += created == UNSUPPORTED
    return refused


def use_writers(url):
    """The number of kept lines of concurrent writers."""
    session(url, [create("/memories/shared", "")])
    command = [PROGRAM, "run", "--history", "--store", url]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    writers = [subprocess.Popen(command, **options) for _ in range(WRITERS)]
    for number, writer in enumerate(writers):
        lines = [json.dumps(insert("/memories/shared", f"{number}-{line}")) for line in range(LINES)]
        writer.stdin.write("\n".join(lines) + "\n")
        writer.stdin.close()
    acknowledged = sum(writer.stdout.read().count("has been edited") for writer in writers)
    for writer in writers:
        writer.wait()
    text = sh(f"'{PROGRAM}' cat --store '{url}' shared")
    kept = len([line for line in text.splitlines() if line])
    assert kept >= acknowledged > 0, f"{kept} of {acknowledged} lines kept"
    return f"{kept}/{acknowledged}"


def use_kills(url):
    """The number of acknowledged files of killed writers, which must all be there."""
    acknowledged = 0
    for round in range(KILLS):
        command = [PROGRAM, "run", "--history", "--store", url]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        lines = "".join(json.dumps(create(f"/memories/k/{round}-{number}")) + "\n" for number in range(2_000))
        os.set_blocking(writer.stdin.fileno(), False)
        try:
            writer.stdin.write(lines.encode())
            writer.stdin.flush()
        except BlockingIOError:
            pass
        time.sleep(0.3 + 0.07 * round)
        writer.send_signal(signal.SIGKILL)
        done = writer.stdout.read().count(b"File created")
        writer.wait()
        session(url, [{"command": "view", "path": "/memories"}])  # completes or undoes what the writer left
        files = sh(f"'{PROGRAM}' ls -a --store '{url}' k").split() if done else []
        found = len([file for file in files if file.split("/")[-1].startswith(f"{round}-")])
        assert found >= done, f"{found} of {done} files"
        acknowledged += done
    return acknowledged


def use(url):
    result = [use_commands(url)]
    session(url, [create("/memories/d/c")])
    result += [use_names(url), use_writers(url), use_kills(url)]
    verify(url)
    return "%s commands, %s names refused, lines kept %s, %s files kept after kills" % tuple(result)


def refused(url, reason):
    try:
        session(url, [create("/memories/a")])
    except RuntimeError as error:
        assert reason in str(error), error
        return f"refused: {reason}"
    raise AssertionError("it is not refused")


def one_name(base):
    """A server on a disk that ignores case: a token for `Alice` gets no memory `alice`."""
    place, url = Path(base), f"file:{base}?trust_other_users=true"
    place.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        tokens = {}
        for name in ["alice", "Alice", "ALICE", "alice.", "bob"]:
            options = ["--tokens", f"{folder}/tokens", "--actor", "a", "--memory", name, "--right", "tool", "--create"]
            made = subprocess.run([PROGRAM, "token", "new", *options], check=True, capture_output=True, text=True)
            tokens[name] = made.stdout.split()[-1]
        command = [PROGRAM, "serve", "--store", url, "--tokens", f"{folder}/tokens", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        address = server.stderr.readline().split()[-1]
        try:
            statuses = {}
            for name, token in tokens.items():
                body = json.dumps(create(f"/memories/{name}")).encode()
                target = f"{address}/v1/memory_stores/{name}/tool"
                request = urllib.request.Request(target, body, {"x-api-key": token})
                try:
                    statuses[name] = urllib.request.urlopen(request).status
                except urllib.error.HTTPError as error:
                    statuses[name] = error.code
        finally:
            server.terminate()
            server.wait()
    listed = sorted(entry.name for entry in place.iterdir() if not entry.name.startswith("."))
    assert {name for name, status in statuses.items() if status == 200} == set(listed), (statuses, listed)
    assert statuses["alice"] == statuses["bob"] == 200 and statuses["Alice"] == 404, statuses
    return f"memories {', '.join(listed)}"


def image(place, size="300M"):
    path = place / "image"
    sh(f"truncate -s {size} {path}")
    return path


def simple(command, needs=()):
    """A file system of the directory `source`, whose server `command` mounts at `mnt`."""

    def run(place):
        for name in ["source", "other", "upper", "work"]:
            (place / name).mkdir()
        sh(command.format(p=place))
        for _ in range(100):
            if os.path.ismount(place / "mnt"):
                return use(str(place / "mnt/s"))
            time.sleep(0.1)
        raise RuntimeError("it is not mounted")

    return run, [command.split()[0], *needs]


def block(make, mount, checks=use, needs=(), url="{}/s"):
    """A file system in an image."""

    def run(place):
        sh(make.format(image(place)))
        sh(mount.format(image=place / "image", mnt=place / "mnt"))
        return checks(url.format(place / "mnt"))

    return run, [make.split()[0], mount.split()[0], *needs]


def overlay(kind):
    def run(place):
        for name in ["lower/s/memories/d/e", "lower/s/memories/f", "upper", "work"]:
            (place / name).mkdir(parents=True)
        for name in ["d/a", "d/e/b", "f/g"]:
            (place / "lower/s/memories" / name).write_text("image")
        options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
        sh(kind.format(options=options, mnt=place / "mnt"))
        url = str(place / "mnt/s")
        moved, deleted = session(url, [rename("/memories/d", "/memories/new"), delete("/memories/f")])
        assert moved.startswith("Successfully renamed") and deleted.startswith("Successfully deleted"), (moved, deleted)
        files = sh(f"'{PROGRAM}' ls -R --store '{url}'")
        assert "b" in files and "g" not in files.split(), files
        session(url, [delete("/memories/new")])
        return "directories of the image moved and deleted; " + use(url)

    return run, [kind.split()[0]]


def mounted_file(place):
    """As with `docker -v FILE` and `subPath`."""
    url = str(place / "mnt/s")
    session(url, [create("/memories/profile.md"), create("/memories/f")])
    (place / "source").write_text("mounted")
    target = place / "mnt/s/memories/profile.md"
    sh(f"mount --bind {place}/source {target}")
    try:
        replies = session(
            url, [insert("/memories/profile.md", "x"), rename("/memories/profile.md", "/memories/p"), insert("/memories/f", "x")]
        )
        assert all("is a separate mount" in reply for reply in replies[:2]) and "edited" in replies[2], replies
        verify(url)
    finally:
        sh(f"umount {target}")
    return "edit and rename of the mount refused; " + use(url)


def subvolumes(url):
    base = Path(url)
    (base / "memories").parent.mkdir()
    sh(f"btrfs subvolume create {base}/memories")
    reason = refused(url, "is a separate mount or subvolume")
    sh(f"btrfs subvolume delete {base}/memories")
    session(url, [create("/memories/c")])
    sh(f"btrfs subvolume create {base}/memories/sub")
    inside, outside = session(url, [create("/memories/sub/a"), insert("/memories/c", "x")])
    assert inside.startswith("Error") and "edited" in outside, (inside, outside)
    sh(f"btrfs subvolume delete {base}/memories/sub")
    session(url, [delete("/memories/c")])
    return f"{reason}; " + use(url)


def two_views(place):
    """Locks are not shared between a directory and its view through FUSE."""
    (place / "source").mkdir()
    sh(f"bindfs {place}/source {place}/mnt")
    source, view = str(place / "source/s"), str(place / "mnt/s")
    session(source, [create("/memories/c", "")])
    acknowledged = 0
    for round in range(6):
        url = [source, view][round % 2]
        try:
            replies = session(url, [insert("/memories/c", f"{round}-{line}") for line in range(5)])
            acknowledged += sum("edited" in reply for reply in replies)
        except RuntimeError:
            pass
    time.sleep(6)
    kept = len([line for line in sh(f"'{PROGRAM}' cat --store '{view}' c").splitlines() if line])
    assert kept >= acknowledged > 0, f"{kept} of {acknowledged} lines"
    verify(view)
    return f"writers in turns: {kept}/{acknowledged} lines kept"


def sshfs(place):
    """The server of sshd, without the network."""
    (place / "source").mkdir()
    (place / "ssh").write_text("#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n")
    (place / "ssh").chmod(0o700)
    sh(f"sshfs -o ssh_command={place}/ssh host:{place}/source {place}/mnt")
    return use(str(place / "mnt/s"))


def refused_server(place, command):
    sh(command)
    return refused(str(place / "mnt/s"), "may lose acknowledged writes")


def sqlite(place):
    (place / "source").mkdir()
    sh(f"bindfs {place}/source {place}/mnt")
    url = f"sqlite:{place}/mnt/m.db"
    opened = subprocess.run([PROGRAM, "run", "--store", url], stdin=subprocess.DEVNULL, text=True, capture_output=True)
    assert "hold at most for programs that use this mount" in opened.stderr, opened.stderr
    return "warns; " + use(url)


def sqlite_on_rclone(place):
    (place / "source").mkdir()
    sh(f"rclone mount --daemon --vfs-cache-mode writes --config /dev/null {place}/source {place}/mnt")
    return refused(f"sqlite:{place}/mnt/m.db", "may lose acknowledged writes")


def sqlite_file(place):
    """As with `docker -v FILE`."""
    session(f"sqlite:{place}/m.db", [create("/memories/a")])
    (place / "mnt/m.db").touch()
    sh(f"mount --bind {place}/m.db {place}/mnt/m.db")
    try:
        return refused(f"sqlite:{place}/mnt/m.db", "is a separate mount")
    finally:
        sh(f"umount --lazy {place}/mnt/m.db")


def rclone(mode):
    def run(place):
        (place / "source").mkdir()
        options = f"--daemon --vfs-cache-mode {mode} --config /dev/null"
        return refused_server(place, f"rclone mount {options} {place}/source {place}/mnt")

    return run, ["rclone"]


def s3fs(place):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(["moto_server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        sh(f"curl -sS --retry 30 --retry-connrefused --retry-delay 1 -X PUT {url}/bucket")
        (place / "keys").write_text("key:secret\n")
        (place / "keys").chmod(0o600)
        options = f"url={url},use_path_request_style,passwd_file={place}/keys"
        return refused_server(place, f"s3fs bucket {place}/mnt -o {options}")
    finally:
        sh(f"umount --lazy {place}/mnt || true")
        server.kill()
        server.wait()


MODES = "keeps no access rights"
FILE_SYSTEMS = {
    "ext4": block("mkfs.ext4 -q {}", "mount -o loop {image} {mnt}"),
    "xfs": block("mkfs.xfs -q {}", "mount -o loop {image} {mnt}"),
    "btrfs": block("mkfs.btrfs -q {}", "mount -o loop {image} {mnt}", subvolumes, ["btrfs"]),
    "tmpfs": simple("mount -t tmpfs tmpfs {p}/mnt"),
    "mounted file": (mounted_file, []),
    "overlay": overlay("mount -t overlay overlay -o {options},redirect_dir=off {mnt}"),
    "fuse-overlayfs": overlay("fuse-overlayfs -o {options} {mnt}"),
    "bindfs": simple("bindfs {p}/source {p}/mnt"),
    "two views": (two_views, ["bindfs"]),
    "disorderfs": simple("disorderfs {p}/source {p}/mnt"),
    "unionfs": simple("unionfs -o cow {p}/source=RW {p}/mnt"),
    "mergerfs": simple("mergerfs {p}/source:{p}/other {p}/mnt"),
    "mergerfs rand": simple("mergerfs -o category.create=rand {p}/source:{p}/other {p}/mnt"),
    "gocryptfs": simple(
        "gocryptfs -q -init -extpass 'echo secret' {p}/source && gocryptfs -q -extpass 'echo secret' {p}/source {p}/mnt"
    ),
    "encfs": simple("encfs --standard --extpass='echo secret' {p}/source {p}/mnt"),
    "securefs": simple(
        "securefs create --pass secret {p}/source && securefs mount -b --log /dev/null --pass secret {p}/source {p}/mnt"
    ),
    "cryfs": simple("echo secret | CRYFS_FRONTEND=noninteractive cryfs {p}/source {p}/mnt", ["cryfs"]),
    "fuse2fs": block("mkfs.ext4 -q {}", "fuse2fs -o fakeroot {image} {mnt}"),
    "ntfs-3g permissions": block("mkfs.ntfs -qF {}", "ntfs-3g -o permissions {image} {mnt}"),
    "ntfs-3g windows_names": block("mkfs.ntfs -qF {}", "ntfs-3g -o permissions,windows_names {image} {mnt}"),
    "ntfs-3g": block("mkfs.ntfs -qF {}", "ntfs-3g {image} {mnt}", lambda url: refused(url, MODES)),
    "lowntfs-3g ignore_case": block(
        "mkfs.ntfs -qF {}",
        "lowntfs-3g -o permissions,ignore_case {image} {mnt}",
        lambda url: refused(url, "changes the spelling of names"),
    ),
    "exfat-fuse": block("mkfs.exfat {}", "mount.exfat-fuse $(losetup -f --show {image}) {mnt}", lambda url: refused(url, MODES)),
    "exfat-fuse trusted": block(
        "mkfs.exfat {}", "mount.exfat-fuse $(losetup -f --show {image}) {mnt}", url="file:{}/s?trust_other_users=true"
    ),
    "exfat-fuse server": block(
        "mkfs.exfat {}", "mount.exfat-fuse $(losetup -f --show {image}) {mnt}", one_name, url="{}/memories"
    ),
    "fusefat": block("mkfs.vfat {}", "fusefat -o rw+ {image} {mnt}", lambda url: refused(url, MODES)),
    "sshfs": (sshfs, ["sshfs", "/usr/lib/openssh/sftp-server"]),
    **{f"rclone {mode}": rclone(mode) for mode in ["off", "minimal", "writes", "full"]},
    "sqlite on bindfs": (sqlite, ["bindfs"]),
    "sqlite on rclone": (sqlite_on_rclone, ["rclone"]),
    "sqlite, mounted file": (sqlite_file, []),
    "s3fs": (s3fs, ["s3fs", "moto_server", "curl"]),
}


def main():
    names = sys.argv[1:] or FILE_SYSTEMS
    failed = 0
    for name in names:
        run, needs = FILE_SYSTEMS[name]
        missing = [need for need in needs if not shutil.which(need) and need != "echo"]
        if missing:
            print(f"{name}: skipped, needs {' '.join(missing)}", flush=True)
            continue
        place = Path(tempfile.mkdtemp(prefix="file-system-"))
        (place / "mnt").mkdir()
        start = time.monotonic()
        try:
            print(f"{name}: {run(place)} ({time.monotonic() - start:.0f} s)", flush=True)
        except (AssertionError, RuntimeError, subprocess.CalledProcessError, OSError) as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
        finally:
            subprocess.run(["umount", "--lazy", place / "mnt"], capture_output=True)
            subprocess.run(f"losetup -j {place}/image -O NAME -n | xargs -r losetup -d", shell=True)
            shutil.rmtree(place, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
