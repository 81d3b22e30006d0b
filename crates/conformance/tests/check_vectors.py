"""Validates the vectors in a directory against its JSON Schema. The default is the crate's directory.

    python3 crates/conformance/tests/check_vectors.py [DIRECTORY]
"""

import json
import pathlib
import sys

import jsonschema

VECTORS = pathlib.Path(sys.argv[1]) if sys.argv[1:] else pathlib.Path(__file__).parent.parent / "vectors"


def load(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


validator = jsonschema.Draft202012Validator(load("schema.json"))
files = sorted({path.name for path in VECTORS.glob("*.json")} - {"clauses.json", "code.json", "faults.json", "schema.json"})
assert files, f"no vectors in {VECTORS}"
for name in files:
    validator.validate(load(name))
