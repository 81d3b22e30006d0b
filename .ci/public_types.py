#!/usr/bin/env python3
"""Checks that a public API uses only the types of allowed dependencies.

Usage: public_types.py CRATE.json DEPENDENCY...

Reads the JSON output of rustdoc. Prints each type or trait of another crate in a signature, field, bound, implementation or
re-export, and exits with status 1 if there are any. Types behind `impl Trait`, boxed errors and items under `#[doc(hidden)]` are
not detected.
"""

import json
import sys

OF_RUST = {"alloc", "core", "std"}


def named(value):
    """Yields the ids of all items in a type, bound, implementation or re-export."""
    if isinstance(value, dict):
        if ("path" in value or "source" in value) and isinstance(value.get("id"), int):
            yield value["id"]
        for part in value.values():
            yield from named(part)
    elif isinstance(value, list):
        for part in value:
            yield from named(part)


def is_written(item):
    """Whether an item is in the source. The compiler adds implementations that every type has."""
    implementation = item["inner"].get("impl", {})
    return not implementation.get("is_synthetic") and not implementation.get("blanket_impl")


def main(file, allowed):
    with open(file, encoding="utf-8") as opened:
        crate = json.load(opened)
    found = {}
    for item in crate["index"].values():
        if item["crate_id"] != 0 or not is_written(item):
            continue
        for of in named(item["inner"]):
            path = crate["paths"].get(str(of))
            if path and path["crate_id"] != 0:
                owner = crate["external_crates"][str(path["crate_id"])]["name"]
                if owner not in OF_RUST | allowed:
                    where = item["span"]["filename"] if item.get("span") else "?"
                    found.setdefault("::".join(path["path"]), set()).add(where)
    for name, files in sorted(found.items()):
        print(f"{file}: {name} is in the public API ({', '.join(sorted(files))})")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], set(sys.argv[2:])))
