import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "examples"))

FULL = os.environ.get("MEMORY_TOOL_TESTS") in ("full", "long")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: runs only with MEMORY_TOOL_TESTS=full")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("full") and not FULL:
            item.add_marker(pytest.mark.skip(reason="MEMORY_TOOL_TESTS is not full"))


@pytest.fixture(params=["local", "sqlite"])
def url(request, tmp_path):
    return str(tmp_path / "memory") if request.param == "local" else f"sqlite:{tmp_path}/memory.db"
