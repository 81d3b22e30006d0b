"""The methods of the handle, on every kind of store. `test_scenarios.py` has more of them."""

import asyncio
import threading
from importlib.metadata import version

import pytest

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, ToolError, VersionMismatch


def test_writers_that_race_lose_no_edit(location):
    memory, edits = Memory(location), 25
    memory.write_text("/memories/count", "0")

    def count():
        for _ in range(edits):
            while True:
                text = memory.read_text("/memories/count")
                try:
                    memory.write_text("/memories/count", str(int(text) + 1), if_text=text)
                    break
                except VersionMismatch:
                    continue

    def append():
        for _ in range(edits):
            memory.append("/memories/log", "x")

    threads = [threading.Thread(target=work) for work in (count, count, append, append)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.read_text("/memories/count") == str(2 * edits)
    assert memory.read_text("/memories/log") == "x" * 2 * edits


def test_changes_of_a_handle_are_by_its_actor(location):
    memory = Memory(location, history=True)
    support = memory.by("support")
    assert isinstance(support, Memory)
    support.write_text("/memories/a", "tea")
    MemoryTool(memory.by("claude")).call({"command": "view", "path": "/memories/a"})
    MemoryTool(memory.by("claude")).call({"command": "delete", "path": "/memories/a"})
    support.close()
    memory.write_text("/memories/a", "coffee")

    async def write():
        async with await AsyncMemory.open(location, history=True) as memory:
            await memory.by("job").append("/memories/a", "!")
            assert [entry.actor for entry in await memory.history().log(limit=1)] == ["job"]

    actors = [entry.actor for entry in memory.history().log()]
    assert actors == [None, "claude", "support"]
    asyncio.run(write())
    assert memory.by("support", reason="a\ntypo").history().undo()
    assert (memory.history().log()[0].actor, memory.history().log()[0].reason) == ("support", "a typo")
    for actor in ["", "a\n", "x" * 257]:
        with pytest.raises(ValueError, match="^invalid actor: "):
            memory.by(actor)


def test_the_version_is_of_the_package():
    assert memory_tool.__version__ == version("memory-tool")


def test_damage_is_reported(tmp_path):
    memory = Memory(tmp_path, key=bytes(32))
    memory.write_text("/memories/a", "tea")
    for object in (tmp_path / "memories").rglob("*"):
        if object.is_file() and object.stat().st_size < 200:
            object.write_bytes(b"damaged")
    assert ["/memories/a" in problem for problem in memory.verify().problems] == [True]


def test_lint_names_files_and_lines(location):
    memory = Memory(location)
    memory.write_text("/memories/a.md", "x\n[b](b.md)")
    memory.write_text("/memories/c.md", "")
    report = memory.lint()
    assert (report.files, report.skipped, report.more) == (2, 0, 0)
    link, empty = report.findings
    assert (link.rule, link.path, link.line) == ("broken-link", "/memories/a.md", 2)
    assert (empty.rule, empty.path, empty.line, empty.message) == ("empty", "/memories/c.md", None, "the file is empty")
    assert memory.lint(only=["empty"]).findings == [empty] == memory.lint(off=["broken-link"]).findings
    assert memory.lint(within=["/memories/a.md"]).findings == [link]
    with pytest.raises(ValueError, match="expected one of long-index, "):
        memory.lint(only=["mood"])


def test_a_closed_memory_refuses_calls(location):
    with Memory(location) as memory:
        memory.write_text("/memories/a", "tea")
        tool = MemoryTool(memory)
    memory.close()
    with pytest.raises(memory_tool.MemoryToolError, match="^the memory is closed$"):
        memory.read_text("/memories/a")
    with pytest.raises(ToolError, match="Nothing was changed"):
        tool.call({"command": "view", "path": "/memories"})

    async def run():
        async with await AsyncMemory.open(location) as memory:
            call = asyncio.ensure_future(memory.write_text("/memories/b", "tea"))
            await asyncio.sleep(0)
        await call  # a call that has begun ends
        with pytest.raises(memory_tool.MemoryToolError, match="^the memory is closed$"):
            await memory.read_text("/memories/a")

    asyncio.run(run())


def german(outcome):
    if outcome.kind == "created":
        return f"Datei angelegt: {outcome.path}"
    if outcome.kind == "renamed":
        return f"{outcome.details['old_path']} heißt nun {outcome.path}"
    if outcome.kind == "not_found":
        return f"Fehler: {outcome.path} gibt es nicht ({outcome.details['command']})."
    if outcome.kind == "cleared":
        return "Der Speicher ist leer."
    if outcome.kind == "deleted":
        raise RuntimeError("a fault of the hook")
    return None


COMMANDS = [
    ({"command": "create", "path": "/memories/a", "file_text": "tea"}, "Datei angelegt: /memories/a"),
    ({"command": "view", "path": "/memories/b"}, "Fehler: /memories/b gibt es nicht (view)."),
    ({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}, "/memories/a heißt nun /memories/b"),
    ({"command": "create", "path": "/memories/b", "file_text": ""}, "Error: File /memories/b already exists"),
    ({"command": "delete", "path": "/memories/b"}, "Successfully deleted /memories/b"),
    ({"command": "paint"}, None),
]


def test_a_function_words_replies_and_errors(location, caplog):
    def texts(call):
        found = []
        for command, _ in COMMANDS:
            try:
                found.append(call(command))
            except ToolError as error:
                found.append(error.content)
        return found

    worded, plain = MemoryTool(location, wording=german), MemoryTool("in-process:")
    found, contract = texts(worded.call), texts(plain.call)
    assert found == [text or contract[-1] for _, text in COMMANDS]
    assert contract[0] == "File created successfully at: /memories/a"
    assert (worded.clear_all_memory(), plain.clear_all_memory()) == ("Der Speicher ist leer.", "All memory cleared")
    assert "a fault of the hook" in caplog.text

    async def run():
        tool = await AsyncMemoryTool.open("in-process:", wording=german)
        created = await tool.call(COMMANDS[0][0])
        with pytest.raises(ToolError) as raised:
            await tool.call(COMMANDS[1][0])
        return created, raised.value.content

    assert asyncio.run(run()) == (COMMANDS[0][1], COMMANDS[1][1])


def test_the_words_of_a_failed_storage_keep_its_cause(tmp_path):
    tool = MemoryTool(tmp_path, wording=lambda outcome: f"{outcome.kind} {outcome.is_error} {outcome.details}")
    (tmp_path / "memories").rmdir()
    (tmp_path / "memories").write_text("not a directory")
    with pytest.raises(ToolError) as raised:
        tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    assert raised.value.content == "other True {'failure': 'other'}"
    assert raised.value.__cause__ is not None and str(tmp_path) not in raised.value.content
