#!/usr/bin/env python3
"""Random steps on two memories through all fronts, compared with a model.

Usage: testing/model PROGRAM [--python PYTHON] [--node MODULE] [--store STORE]... [--seconds N] [--seed N] [--steps N]

STORE is `local`, `sqlite`, or a URL with `{run}` and `{memory}`. The default is the first two, and the servers of
`memory-tool-test-servers` if it runs this. The words `limited` and `encrypted` after it, as in `'sqlite encrypted'`, add
small limits and two keys, which the default has in some rounds. Each round takes a new storage, starts two servers and
sessions, makes random steps, and then compares files, listings, logs, past states, ids, versions and raw bytes with the
model. A seed makes the same rounds again. After a mismatch, it prints the shortest sequence of steps that still fails, as
JSON, and exits with 1. `--replay FILE` makes the steps in a file. PYTHON has the Python package, and MODULE is that of
the package for Node.js.

Without root it leaves out full disks and a disk that refuses a file, and without Debian's package `faketime` other clocks.
The model does not reach: several changes at the same time (linearizability tests do), loss of power, and time.
"""

import argparse
import json
import os
import random
import re
import sys
import time
import traceback

from checks import check
from steps import World, make


counts = {"made": 0, "refused": 0}

# What the stores of a seed are in addition.
VARIANTS = ["", " limited", " encrypted", " limited encrypted"]


def failure(options, store, steps):
    """Performs steps on a new storage, and returns what went wrong."""
    world = World(options, store)
    try:
        for number, step in enumerate(steps, 1):
            world.perform(step)
            if number % options.every == 0 or number == len(steps):
                check(world)
        counts["made"] += world.made
        counts["refused"] += world.refused
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    finally:
        world.close()
    return None


def shortest(options, store, steps, found):
    """Leaves out steps as long as the rest fails in the same way."""
    end, size = time.monotonic() + options.shrink, len(steps) // 2
    while size >= 1:
        at = 0
        while at < len(steps) and time.monotonic() < end:
            fewer = steps[:at] + steps[at + size :]
            other = failure(options, store, fewer) if fewer else None
            if other and kind_of(other) == kind_of(found):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def kind_of(found):
    """The beginning of a failure, without names and numbers of this run."""
    return re.sub(r"[0-9].*", "", found.partition("\n")[0])[:40]


def main():
    parser = argparse.ArgumentParser(prog="testing/model")
    parser.add_argument("program")
    parser.add_argument("--python")
    parser.add_argument("--node")
    parser.add_argument("--store", action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=10, help="compare after this many steps")
    parser.add_argument("--shrink", type=float, default=60, help="look for a shorter sequence for this many seconds")
    parser.add_argument("--replay")
    options = parser.parse_args()
    stores = ["local", "sqlite", *of_servers()]
    end, rounds = time.monotonic() + options.seconds, 0
    if options.replay:
        with open(options.replay) as file:
            sequences = [json.load(file)]
    else:
        sequences = drawn(options.seed, options.steps, end)
    for seed, steps in enumerate(sequences, options.seed):
        variant = VARIANTS[seed % len(VARIANTS)]
        for store in options.store or [store + variant for store in stores]:
            found = failure(options, store, steps)
            rounds += 1
            if found:
                print(f"seed {seed}, {store}: {found}", flush=True)
                steps = shortest(options, store, steps, found)
                print(failure(options, store, steps))
                print(json.dumps(steps, indent=None).replace("}, {", "},\n {"))
                sys.exit(1)
    print(f"{rounds} rounds of {options.steps} steps on {', '.join(options.store or stores)}: as the model, {counts}")


def of_servers():
    """The storages of `memory-tool-test-servers`, if it runs this."""
    databases = [os.environ[name] for name in ("MEMORY_TOOL_POSTGRES", "MEMORY_TOOL_PGBOUNCER") if name in os.environ]
    databases = [database + "?schema={run}&memory={memory}" for database in databases]
    return databases + [bucket + "/{run}/{memory}" for bucket in os.environ.get("MEMORY_TOOL_BUCKETS", "").split()]


def drawn(seed, count, end):
    while time.monotonic() < end:
        source = random.Random(seed)
        yield [make(source, number) for number in range(count)]
        seed += 1


if __name__ == "__main__":
    main()
