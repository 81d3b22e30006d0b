#!/usr/bin/env python3
"""Random steps on two memories through all fronts, compared with a model.

Usage: testing/model PROGRAM [--store STORE]... [--seconds N] [--seed N] [--steps N]

STORE is `local`, `sqlite`, or a URL with `{run}` and `{memory}`. Each round takes a new storage, starts two servers and
sessions, makes random steps, and then compares files, listings, logs, past states, ids, versions and raw bytes with the
model. A seed makes the same rounds again. After a mismatch, it prints the shortest sequence of steps that still fails, as
JSON, and exits with 1. `--replay FILE` makes the steps in a file.

The model does not reach: several changes at the same time (linearizability tests do), loss of power, and time.
"""

import argparse
import json
import random
import sys
import time
import traceback

from checks import check
from steps import World, make


def failure(program, store, steps, every):
    """Performs steps on a new storage, and returns what went wrong."""
    world = World(program, store)
    try:
        for number, step in enumerate(steps, 1):
            world.perform(step)
            if number % every == 0 or number == len(steps):
                check(world)
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    finally:
        world.close()
    return None


def shortest(program, store, steps, every, seconds):
    """Leaves out steps as long as the rest still fails."""
    end, size = time.monotonic() + seconds, len(steps) // 2
    while size >= 1:
        at = 0
        while at < len(steps) and time.monotonic() < end:
            fewer = steps[:at] + steps[at + size :]
            if fewer and failure(program, store, fewer, every):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def main():
    parser = argparse.ArgumentParser(prog="testing/model")
    parser.add_argument("program")
    parser.add_argument("--store", action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=10, help="compare after this many steps")
    parser.add_argument("--replay")
    options = parser.parse_args()
    stores = options.store or ["local", "sqlite"]
    end, rounds = time.monotonic() + options.seconds, 0
    if options.replay:
        with open(options.replay) as file:
            sequences = [json.load(file)]
    else:
        sequences = drawn(options.seed, options.steps, end)
    for seed, steps in enumerate(sequences, options.seed):
        for store in stores:
            found = failure(options.program, store, steps, options.every)
            rounds += 1
            if found:
                print(f"seed {seed}, {store}: {found}", flush=True)
                steps = shortest(options.program, store, steps, options.every, 60)
                print(failure(options.program, store, steps, options.every))
                print(json.dumps(steps, indent=None).replace("}, {", "},\n {"))
                sys.exit(1)
    print(f"{rounds} rounds of {options.steps} steps on {', '.join(stores)}: as the model")


def drawn(seed, count, end):
    while time.monotonic() < end:
        source = random.Random(seed)
        yield [make(source, number) for number in range(count)]
        seed += 1


if __name__ == "__main__":
    main()
