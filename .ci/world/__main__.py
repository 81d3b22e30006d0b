#!/usr/bin/env python3
"""Runs the server and the memories with programs of others: proxies, poolers, mounts, clients, and Chromium behind TLS.

Usage: python3 .ci/world [--install] [--update] [PART | PART/SUBJECT]...

Prints a line for each check: part, subject, version, check, outcome. known.toml lists the outcomes that differ from
`works`. Exits with 1 if another one differs, if a listed one does not, or if a table of the documentation is out of date,
as after an update of a package: `--update` writes it. `--install` installs the missing packages of Debian, as root. Subjects
that need more than this machine has are left out by name.
"""

import argparse
import importlib
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from programs import debian_version, install_debian
from results import Result, known_differences, problem, table, unused

PARTS = ["proxies", "browser", "poolers", "mounts", "clients", "sign_in"]


def lacks(needs):
    """What this machine does not have: root, packages, devices, and file systems of its kernel."""
    missing = ["root"] if "root" in needs and os.geteuid() != 0 else []
    for need in needs:
        kind, _, name = need.rpartition(":")
        if kind == "debian" and not debian_version(name):
            missing.append(f"the package {name}")
        elif kind == "kernel":
            subprocess.run(f"modprobe -q {name}", shell=True, capture_output=True)
            if f"\t{name}\n" not in pathlib.Path("/proc/filesystems").read_text("utf-8"):
                missing.append(f"{name} in the kernel")
        elif kind == "program" and not shutil.which(name):
            missing.append(name)
        elif need.startswith("/") and not os.path.exists(need):
            missing.append(need)
    return missing


def version(needs):
    """The version of the first package, or of the kernel."""
    packages = [need.removeprefix("debian:") for need in needs if need.startswith("debian:")]
    has_package = packages and not any(need.startswith("kernel:") for need in needs)
    return debian_version(packages[0]) if has_package else "Linux " + ".".join(os.uname().release.split(".")[:2])


def results(part, name):
    of_subject = getattr(part, "version", lambda name: version(part.SUBJECTS[name]))(name)
    try:
        for check, outcome in part.checks(name):
            yield Result(name, of_subject, check, outcome)
    except Exception as error:  # it does not start, or ends
        yield Result(name, of_subject, "start", f"failed: {error!r}")


def run(part, chosen, options):
    """Problems of a part."""
    names = [subject for subject in part.SUBJECTS if not chosen or subject in chosen]
    assert names, f"none of {chosen} is in {part.__name__}: {', '.join(part.SUBJECTS)}"
    if options.install and os.geteuid() == 0:
        install_debian(need.removeprefix("debian:") for name in names for need in part.SUBJECTS[name] if need.startswith("debian:"))
    missing = {name: lacks(part.SUBJECTS[name]) for name in names}
    known, found, problems, failed = known_differences().get(part.__name__, {}), [], [], set()
    for result in (result for name in names if not missing[name] for result in results(part, name)):
        found.append(result)
        print(part.__name__, *result, sep=" | ", flush=True)
        if reason := problem(result, known):
            problems.append(f"{result.subject} {result.version}: {result.check}: {reason}")
            failed.add(result.subject)
    for name in names:
        if missing[name]:
            print(f"left out: {part.__name__}/{name}: needs {', '.join(missing[name])}", flush=True)
    problems += unused(part, known, found)
    changed = table(part, known, [result for result in found if result.subject not in failed], options.update)
    if changed and not options.update:
        problems.append("\n".join([f"the table in {part.PAGE} differs; `--update` writes it:", *changed]))
    return [f"{part.__name__}: {text}" for text in problems]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("parts", nargs="*", metavar="PART", default=PARTS)
    options = parser.parse_args()
    chosen = {}
    for name, _, subject in (given.partition("/") for given in options.parts):
        assert name in PARTS, f"{name} is not one of {', '.join(PARTS)}"
        chosen.setdefault(name, []).extend([subject] if subject else [])
    problems = [found for name in chosen for found in run(importlib.import_module(name), chosen[name], options)]
    print(*problems, sep="\n", file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
