"""The SDK's own example of a memory, with our tool in place of its own and nothing else changed."""

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest
from messages_api import messages_api, text, use

from memory_tool import Memory

ARCHIVE = Path(sys.prefix) / "sdk" / f"anthropic-{version('anthropic')}.tar.gz"
"""The source archive of the SDK, which `.ci/python` downloads. Only it has the examples."""

REPLACED = {
    "from anthropic.tools import BetaLocalFilesystemMemoryTool\n": "from memory_tool import MemoryTool\n",
    "memory = BetaLocalFilesystemMemoryTool()\n": "memory = MemoryTool({!r})\n",
}


@pytest.fixture
def example(tmp_path, url):
    with tarfile.open(ARCHIVE) as archive:
        name = f"{ARCHIVE.name.removesuffix('.tar.gz')}/examples/memory/basic.py"
        source = archive.extractfile(name).read().decode()
    for old, new in REPLACED.items():
        assert source.count(old) == 1
        source = source.replace(old, new.format(url))
    path = tmp_path / "example.py"
    path.write_text(source)
    return path


def test_the_example_of_the_sdk(example, url):
    script = [
        [use("t1", command="view", path="/memories")],
        [
            use("t2", command="create", path="/memories/user.xml", file_text="<xml><name>Ada</name></xml>"),
            use("t3", command="view", path="/memories/none.xml"),
        ],
        [text("Hello Ada.")],
    ]
    entered = ["My name is Ada.", "/memory_view", "/debug", "/memory_clear", "/quit"]
    with messages_api(*script) as api:
        variables = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [sys.executable, str(example)],
            input="\n".join([*entered, ""]).encode(),
            capture_output=True,
            env={**os.environ, **variables},
        )
        output = done.stdout.decode()
        assert done.returncode == 0, done.stderr.decode()
        assert api.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
        assert api.results(2)["t2"]["content"] == "File created successfully at: /memories/user.xml"
        assert api.results(2)["t3"]["is_error"]
    assert "[Memory tool called: create]" in output
    assert "Hello Ada." in output
    assert "27B\t/memories/user.xml" in output  # the answer to /memory_view
    assert "All memory cleared" in output
    assert Memory(url).list() == []
