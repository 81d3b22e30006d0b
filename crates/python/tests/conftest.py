import os
import sys
import uuid
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "examples"))

TIER = os.environ.get("MEMORY_TOOL_TESTS")
IS_LONG = TIER == "long"


def pytest_configure(config):
    config.addinivalue_line("markers", "full: runs only with MEMORY_TOOL_TESTS=full or long")
    config.addinivalue_line("markers", "long: runs only with MEMORY_TOOL_TESTS=long")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("full") and TIER not in ("full", "long"):
            item.add_marker(pytest.mark.skip(reason="MEMORY_TOOL_TESTS is not full"))
        if item.get_closest_marker("long") and not IS_LONG:
            item.add_marker(pytest.mark.skip(reason="MEMORY_TOOL_TESTS is not long"))


def url_of(kind, tmp_path):
    """The URL of a new store of this kind."""
    if kind == "local":
        return str(tmp_path / "memory")
    if kind == "sqlite":
        return f"sqlite:{tmp_path}/memory.db"
    if kind == "postgres":
        database = os.environ.get("MEMORY_TOOL_POSTGRES")
        assert database, "no servers are running: start pytest with .ci/python"
        return f"{database}?memory={uuid.uuid4()}"
    buckets = os.environ.get("MEMORY_TOOL_BUCKETS", "").split()
    bucket = next((bucket for bucket in buckets if bucket.startswith(f"{kind}:")), None)
    assert bucket, "no servers are running: start pytest with .ci/python"
    return f"{bucket}/{uuid.uuid4()}"


DISKS = ["local", "sqlite"]
POSTGRES = [pytest.param("postgres", marks=pytest.mark.full)]
BUCKETS = [pytest.param(kind, marks=pytest.mark.full) for kind in ("s3", "gs", "az")]
BUCKETS_OF_LONG_TIER = [pytest.param(kind, marks=pytest.mark.long) for kind in ("s3", "gs", "az")]


def location_of(kind, tmp_path):
    """A new memory of this kind."""
    from dict_store import DictStore

    if kind == "custom":
        return DictStore()
    return "in-process:" if kind == "in-process" else url_of(kind, tmp_path)


@pytest.fixture(params=["local", "sqlite", "in-process", "custom"])
def location(request, tmp_path):
    """A new memory of each kind that needs no server."""
    return location_of(request.param, tmp_path)


@pytest.fixture(params=DISKS)
def disk_url(request, tmp_path):
    return url_of(request.param, tmp_path)


@pytest.fixture(params=BUCKETS)
def bucket_url(request, tmp_path):
    return url_of(request.param, tmp_path)


@pytest.fixture(params=DISKS + POSTGRES + BUCKETS)
def url_of_any_kind(request, tmp_path):
    return url_of(request.param, tmp_path)


@pytest.fixture(params=DISKS + POSTGRES + BUCKETS_OF_LONG_TIER)
def url(request, tmp_path):
    return url_of(request.param, tmp_path)
