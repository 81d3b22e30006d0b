"""Programs of others: their packages and versions, and servers that run until the end of a block."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PROGRAM = TARGET / "debug/memory-tool"
PATIENCE = 60
NEWEST = "2026-11-28"  # the packages that the pinned ones of PyPI and npm need are older


def debian_version(package):
    """The version of an installed package without the revision of Debian."""
    words = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package]
    found = subprocess.run(words, capture_output=True, text=True).stdout if shutil.which("dpkg-query") else ""
    status, _, version = found.partition(" ")
    return version.split(":")[-1].split("-")[0].split("+")[0] if status == "installed" else None


def install_debian(packages):
    missing = sorted(package for package in set(packages) if not debian_version(package))
    if missing:
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", *missing], check=True)


def installed(name, words, *commands):
    """A directory with packages of PyPI or npm, which `commands` install once."""
    folder = TARGET / "world" / name.replace("/", "_")
    mark, wanted = folder / "installed", repr([NEWEST, words])
    if not mark.exists() or mark.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in commands:
            subprocess.run([str(word).replace("{folder}", str(folder)) for word in command], check=True, cwd=folder)
        mark.write_text(wanted, "utf-8")
    return folder


def from_pypi(name, words):
    """The interpreter that has the packages: requirements for pip, or a file of them."""
    pip = ["{folder}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    commands = [sys.executable, "-m", "venv", "{folder}"], [*pip, "pip==26.3"], [*pip, "--uploaded-prior-to", NEWEST, *words]
    return installed(name, words, *commands) / "bin/python"


def from_npm(name, words):
    options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--before", NEWEST, "--prefix", "{folder}"]
    return installed(name, words, ["npm", "install", *options, *words])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(address):
    """Waits until a port, or a socket at a path, accepts connections."""
    is_path, end = isinstance(address, str), time.monotonic() + PATIENCE
    while True:
        try:
            with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as stream:
                return stream.connect(address if is_path else ("127.0.0.1", address))
        except OSError:
            assert time.monotonic() < end, f"nothing listens at {address}"
            time.sleep(0.05)


class Running:
    """A program until the end of a block. Its output is printed if the block fails."""

    def __init__(self, words, log, **environment):
        self.words, self.log, self.environment = [str(word) for word in words], log, {**os.environ, **environment}

    def __enter__(self):
        output = self.log.open("wb")
        self.process = subprocess.Popen(self.words, stdout=output, stderr=subprocess.STDOUT, env=self.environment)
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        if kind:
            print(self.log.read_text("utf-8", "replace")[-3000:], file=sys.stderr)


def new_token(tokens, *options):
    words = [PROGRAM, "token", "new", "--tokens", tokens, *options]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
