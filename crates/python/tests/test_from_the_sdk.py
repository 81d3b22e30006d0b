"""The page `docs/sdk-comparison.md`: the directory of the SDK's tool is a local store."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from anthropic.lib.tools import ToolError as SdkToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from memory_tool import MemoryTool, OpenError

PAGE = (Path(__file__).parents[3] / "docs" / "sdk-comparison.md").read_text()
NOTES = "/memories/people/notes.md"


def tools():
    """The tools before and after the change of the page's line."""
    [before, after] = re.search(r"```diff\n-tool = (.+)\n\+tool = (.+)\n", PAGE).groups()
    return eval(before), eval(after)


def edit(tool, old, new):
    return tool.call({"command": "str_replace", "path": NOTES, "old_str": old, "new_str": new})


def shown(tool, path=NOTES):
    return tool.call({"command": "view", "path": path})


@pytest.fixture
def sdk_memory(tmp_path, monkeypatch):
    """The memory of an agent with the SDK's tool."""
    monkeypatch.chdir(tmp_path)
    sdk = BetaLocalFilesystemMemoryTool("./memory")
    sdk.call({"command": "create", "path": NOTES, "file_text": "Prefers tea.\n"})
    return tmp_path / "memory"


def modes(directory):
    return {stat.S_IMODE(path.lstat().st_mode) for path in directory.rglob("*") if path.is_file()}


def test_the_tools_read_and_edit_the_same_files(sdk_memory):
    assert [path.name for path in sdk_memory.iterdir()] == ["memories"]
    before, after = tools()
    assert shown(after).endswith("\n     1\tPrefers tea.\n     2\t")
    edit(after, "tea", "coffee")
    assert "\tPrefers coffee.\n" in shown(before)
    edit(before, "coffee", "milk")
    assert "\tPrefers milk.\n" in shown(after)
    after.call({"command": "create", "path": "/memories/new.md", "file_text": "New."})
    assert modes(sdk_memory) == {0o600}
    assert {path.name for path in sdk_memory.iterdir()} == {"memories", ".memory-tool"}
    assert "/memories/new.md" in shown(before, "/memories") and ".memory-tool" not in shown(before, "/memories")
    directories = [sdk_memory / "memories", sdk_memory / "memories" / "people", sdk_memory / ".memory-tool"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o700}


def test_a_base_that_others_can_write_to_is_refused(sdk_memory):
    sdk_memory.chmod(0o775)
    with pytest.raises(OpenError, match="`chmod go-w`.* trust these users"):
        tools()
    sdk_memory.chmod(0o755)
    tools()


def test_a_symbolic_link_is_not_followed(sdk_memory):
    (sdk_memory / "memories" / "link.md").symlink_to("people/notes.md")
    before, after = tools()
    assert "Prefers tea." in shown(before, "/memories/link.md")
    assert "link.md" in shown(before, "/memories") and "link.md" not in shown(after, "/memories")
    with pytest.raises(SdkToolError, match="symbolic link"):
        shown(after, "/memories/link.md")


@pytest.mark.parametrize("name", ["cafe\u0301.md", "a\tb.md"])
def test_verify_names_the_files_that_cannot_be_shown(sdk_memory, name):
    command = re.search(r"```sh\n(.*)\n```", PAGE).group(1).split()
    assert command[0] == "memory-tool"

    def verify():
        return subprocess.run([sys.executable, "-m", "memory_tool", *command[1:]], capture_output=True, text=True)

    assert verify().returncode == 0
    sdk = BetaLocalFilesystemMemoryTool("./memory")
    sdk.call({"command": "create", "path": f"/memories/{name}", "file_text": "Hidden."})
    done = verify()
    assert done.returncode == 1 and "cannot be listed" in done.stdout, done
    assert [path.name for path in sdk_memory.iterdir()] == ["memories"]
