"""A memory with a history on real file systems, as root on Linux.

For each file system: the commands of the tool, names that some file systems refuse, eight writers of one file, and
writers that are killed. No acknowledged line may be lost, every reply must be a success or a refusal of the name, and
`verify` must find no problem. File systems that the program must refuse are mounted too.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import typing
import urllib.error
import urllib.request
from pathlib import Path

from programs import PROGRAM, ROOT, Running, free_port, from_pypi, new_token, wait_for
from results import attempt

PAGE, NOUN = "docs/file-systems.md", "file system"
WRITERS, LINES, KILLS = 8, 20, 5
NAMES = ["a: b.md", "what?.md", "con.md", "notes.", ".wh.x", "é ü.md", "\u8a18" * 60, "x" * 200, "\u8a18" * 84]
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


def check_warning(url):
    """FUSE has a warning, unless its server uses a device."""
    path = url.split(":")[-1].split("?")[0]
    kind = sh(f"findmnt -n -o FSTYPE -T '{path if os.path.exists(path) else os.path.dirname(path)}'").strip()
    opened = subprocess.run([PROGRAM, "run", "--store", url], stdin=subprocess.DEVNULL, text=True, capture_output=True)
    is_fuse = kind == "fuse" or kind.startswith("fuse.")
    assert ("for programs that use this mount" in opened.stderr) == is_fuse, (kind, opened.stderr)


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


def use_names(url):
    """The refused names. A refused one must not harm the store."""
    refused = []
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
        if created == UNSUPPORTED:
            refused.append(f"`{name}`" if len(name) < 50 else f"{len(name.encode())} bytes")
    return ", ".join(refused)


def use_writers(url):
    """Concurrent writers lose no acknowledged line."""
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


def use_kills(url):
    """Killed writers lose no acknowledged file."""
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
        first = writer.stdout.readline()
        time.sleep(0.2 + 0.07 * round)
        writer.send_signal(signal.SIGKILL)
        done = (first + writer.stdout.read()).count(b"File created")
        writer.wait()
        session(url, [{"command": "view", "path": "/memories"}])  # completes or undoes what the writer left
        files = sh(f"'{PROGRAM}' ls -a --store '{url}' k").split() if done else []
        found = len([file for file in files if file.split("/")[-1].startswith(f"{round}-")])
        assert found >= done, f"{found} of {done} files"
        acknowledged += done
    assert acknowledged > 0, "no writer created a file"


def use(url):
    check_warning(url)
    use_commands(url)
    session(url, [create("/memories/d/c")])
    refused_names = use_names(url)
    use_writers(url)
    use_kills(url)
    verify(url)
    return f"refuses the names {refused_names}" if refused_names else None


def refused(url, reason):
    try:
        session(url, [create("/memories/a")])
    except RuntimeError as error:
        assert reason in str(error), error
        return "refused"
    raise AssertionError("it is not refused")


def one_name(base):
    """A server on a disk that ignores case: a token for `Alice` gets no memory `alice`."""
    place, url = Path(base), f"file:{base}?trust_other_users=true"
    place.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        options = ["--actor", "a", "--right", "tool", "--create", "--memory"]
        tokens = {name: new_token(folder / "tokens", *options, name) for name in ["alice", "Alice", "ALICE", "alice.", "bob"]}
        words = [PROGRAM, "serve", "--store", url, "--tokens", folder / "tokens", "--listen", f"127.0.0.1:{port}"]
        with Running(words, folder / "log"):
            wait_for(port)
            statuses = {}
            for name, token in tokens.items():
                body = json.dumps(create(f"/memories/{name}")).encode()
                target = f"http://127.0.0.1:{port}/v1/memory_stores/{name}/tool"
                try:
                    statuses[name] = urllib.request.urlopen(urllib.request.Request(target, body, {"x-api-key": token})).status
                except urllib.error.HTTPError as error:
                    statuses[name] = error.code
    listed = sorted(entry.name for entry in place.iterdir() if not entry.name.startswith("."))
    assert {name for name, status in statuses.items() if status == 200} == set(listed), (statuses, listed)
    assert statuses["alice"] == statuses["bob"] == 200 and statuses["Alice"] == 404, statuses


class Mount(typing.NamedTuple):
    """What uses it, in a directory with the mount `mnt`; the packages of Debian that it needs, first its own; and the
    file system of the kernel.
    """

    run: typing.Callable
    packages: list = []
    kernel: str = ""


def fuse(command, packages):
    """A file system of the directory `source`, whose server `command` mounts at `mnt`."""

    def run(place):
        for name in ["source", "other"]:
            (place / name).mkdir()
        sh(command.format(p=place))
        for _ in range(100):
            if os.path.ismount(place / "mnt"):
                return use(str(place / "mnt/s"))
            time.sleep(0.1)
        raise RuntimeError("it is not mounted")

    return Mount(run, packages)


def block(make, mount, packages, checks=use, url="{}/s", kernel=""):
    """A file system in an image."""

    def run(place):
        sh(f"truncate -s 300M {place}/image")
        sh(make.format(f"{place}/image"))
        sh(mount.format(image=place / "image", mnt=place / "mnt"))
        return checks(url.format(place / "mnt"))

    return Mount(run, packages, kernel)


def kernel(name, make, package, checks=use):
    return block(make, f"mount -t {name} -o loop {{image}} {{mnt}}", [package] if package else [], checks, kernel=name)


def overlay(kind, packages=()):
    """Directories of the image are moved and deleted, and then used."""

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
        return use(url)

    return Mount(run, packages, "" if packages else "overlay")


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
    return use(url)


def subvolumes(url):
    base = Path(url)
    (base / "memories").parent.mkdir()
    sh(f"btrfs subvolume create {base}/memories")
    refused(url, "is a separate mount or subvolume")
    sh(f"btrfs subvolume delete {base}/memories")
    session(url, [create("/memories/c")])
    sh(f"btrfs subvolume create {base}/memories/sub")
    inside, outside = session(url, [create("/memories/sub/a"), insert("/memories/c", "x")])
    assert inside.startswith("Error") and "edited" in outside, (inside, outside)
    sh(f"btrfs subvolume delete {base}/memories/sub")
    session(url, [delete("/memories/c")])
    return use(url)


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


def sshfs(place):
    """The server of sshd, without the network."""
    (place / "source").mkdir()
    (place / "ssh").write_text("#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n")
    (place / "ssh").chmod(0o700)
    sh(f"sshfs -o ssh_command={place}/ssh host:{place}/source {place}/mnt")
    return use(str(place / "mnt/s"))


def sqlite(place):
    (place / "source").mkdir()
    sh(f"bindfs {place}/source {place}/mnt")
    return use(f"sqlite:{place}/mnt/m.db")


def sqlite_file(place):
    """As with `docker -v FILE`."""
    session(f"sqlite:{place}/m.db", [create("/memories/a")])
    (place / "mnt/m.db").touch()
    sh(f"mount --bind {place}/m.db {place}/mnt/m.db")
    try:
        return refused(f"sqlite:{place}/mnt/m.db", "is a separate mount")
    finally:
        sh(f"umount --lazy {place}/mnt/m.db")


def rclone(place):
    (place / "source").mkdir()
    for mode in ["off", "minimal", "writes", "full"]:
        sh(f"rclone mount --daemon --vfs-cache-mode {mode} --config /dev/null {place}/source {place}/mnt")
        for url in [f"{place}/mnt/s", f"sqlite:{place}/mnt/m.db"]:
            outcome = refused(url, "may lose acknowledged writes")
        sh(f"umount --lazy {place}/mnt")
    return outcome


def s3fs(place):
    """In front of the server that our tests of S3 use."""
    requirements = ROOT / "testing/servers/requirements/ministack.txt"
    python, port = from_pypi("ministack", ["--require-hashes", "-r", str(requirements)]), free_port()
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "s3"}
    with Running([python.parent / "ministack"], place / "log", **settings):
        wait_for(port)
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT"))
        (place / "keys").write_text("key:secret\n")
        (place / "keys").chmod(0o600)
        sh(f"s3fs bucket {place}/mnt -o url={url},use_path_request_style,passwd_file={place}/keys")
        try:
            return refused(str(place / "mnt/s"), "may lose acknowledged writes")
        finally:
            sh(f"umount --lazy {place}/mnt")


def no_modes(url):
    return refused(url, "keeps no access rights")


def other_spelling(url):
    return refused(url, "changes the spelling of names")


EXFAT = ["mkfs.exfat {}", "mount.exfat-fuse $(losetup -f --show {image}) {mnt}", ["exfat-fuse", "exfatprogs"]]
MOUNTS = {
    "ext4": kernel("ext4", "mkfs.ext4 -q {}", ""),
    "xfs": kernel("xfs", "mkfs.xfs -q {}", "xfsprogs"),
    "btrfs, with subvolumes": kernel("btrfs", "mkfs.btrfs -q {}", "btrfs-progs", subvolumes),
    "vfat": kernel("vfat", "mkfs.vfat {}", "dosfstools", no_modes),
    "exfat": kernel("exfat", "mkfs.exfat {}", "exfatprogs", no_modes),
    "ntfs3": kernel("ntfs3", "mkfs.ntfs -qF {}", "ntfs-3g", no_modes),
    "tmpfs": Mount(lambda place: sh(f"mount -t tmpfs tmpfs {place}/mnt") or use(f"{place}/mnt/s"), kernel="tmpfs"),
    "a mounted file": Mount(mounted_file),
    "a mounted file, SQLite": Mount(sqlite_file),
    "overlay": overlay("mount -t overlay overlay -o {options},redirect_dir=off {mnt}"),
    "fuse-overlayfs": overlay("fuse-overlayfs -o {options} {mnt}", ["fuse-overlayfs"]),
    "bindfs": fuse("bindfs {p}/source {p}/mnt", ["bindfs"]),
    "bindfs and its source in turns": Mount(two_views, ["bindfs"]),
    "bindfs, SQLite": Mount(sqlite, ["bindfs"]),
    "disorderfs": fuse("disorderfs {p}/source {p}/mnt", ["disorderfs"]),
    "unionfs-fuse": fuse("unionfs -o cow {p}/source=RW {p}/mnt", ["unionfs-fuse"]),
    "mergerfs, two branches": fuse("mergerfs -o minfreespace=0 {p}/source:{p}/other {p}/mnt", ["mergerfs"]),
    "mergerfs, `category.create=rand`": fuse("mergerfs -o category.create=rand,minfreespace=0 {p}/source:{p}/other {p}/mnt", ["mergerfs"]),
    "gocryptfs": fuse(
        "gocryptfs -q -init -extpass 'echo secret' {p}/source && gocryptfs -q -extpass 'echo secret' {p}/source {p}/mnt",
        ["gocryptfs"],
    ),
    "encfs": fuse("encfs --standard --extpass='echo secret' {p}/source {p}/mnt", ["encfs"]),
    "securefs": fuse(
        "securefs create --pass secret {p}/source && securefs mount -b --log /dev/null --pass secret {p}/source {p}/mnt",
        ["securefs"],
    ),
    "cryfs": fuse("echo secret | CRYFS_FRONTEND=noninteractive cryfs {p}/source {p}/mnt", ["cryfs"]),
    "fuse2fs": block("mkfs.ext4 -q {}", "fuse2fs -o fakeroot {image} {mnt}", ["fuse2fs"]),
    "ntfs-3g": block("mkfs.ntfs -qF {}", "ntfs-3g {image} {mnt}", ["ntfs-3g"], no_modes),
    "ntfs-3g, `permissions`": block("mkfs.ntfs -qF {}", "ntfs-3g -o permissions {image} {mnt}", ["ntfs-3g"]),
    "ntfs-3g, `windows_names`": block("mkfs.ntfs -qF {}", "ntfs-3g -o permissions,windows_names {image} {mnt}", ["ntfs-3g"]),
    "lowntfs-3g, `ignore_case`": block(
        "mkfs.ntfs -qF {}", "lowntfs-3g -o permissions,ignore_case {image} {mnt}", ["ntfs-3g"], other_spelling
    ),
    "exfat-fuse": block(*EXFAT, no_modes),
    "exfat-fuse, `?trust_other_users=true`": block(*EXFAT, url="file:{}/s?trust_other_users=true"),
    "exfat-fuse, a server": block(*EXFAT, one_name, "{}/memories"),
    "fusefat": block("mkfs.vfat {}", "fusefat -o rw+ {image} {mnt}", ["fusefat", "dosfstools"], no_modes),
    "sshfs": Mount(sshfs, ["sshfs", "openssh-sftp-server"]),
    "rclone, each cache mode": Mount(rclone, ["rclone"]),
    "s3fs": Mount(s3fs, ["s3fs"]),
}


def needs(mount):
    yield "root"
    yield from [f"kernel:{mount.kernel}"] if mount.kernel else ["/dev/fuse"] if mount.packages else []
    yield from [f"debian:{package}" for package in mount.packages]


SUBJECTS = {name: list(needs(mount)) for name, mount in MOUNTS.items()}


def checks(name):
    place = Path(tempfile.mkdtemp(prefix="world-"))
    (place / "mnt").mkdir()
    try:
        yield "a memory", attempt(MOUNTS[name].run, place)
    finally:
        subprocess.run(["umount", "--lazy", place / "mnt"], capture_output=True)
        subprocess.run(f"losetup -j {place}/image -O NAME -n | xargs -r losetup -d", shell=True)
        shutil.rmtree(place, ignore_errors=True)
