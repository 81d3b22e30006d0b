"""Validates the vectors against their JSON Schema."""

import json
import pathlib

import jsonschema

VECTORS = pathlib.Path(__file__).parent.parent / "vectors"


def load(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


validator = jsonschema.Draft202012Validator(load("schema.json"))
files = sorted({path.name for path in VECTORS.glob("*.json")} - {"faults.json", "schema.json"})
assert files, f"no vectors in {VECTORS}"
for name in files:
    validator.validate(load(name))
