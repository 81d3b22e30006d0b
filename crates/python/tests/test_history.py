"""The history of a memory."""

import asyncio
import datetime
import inspect

import pytest

from memory_tool import AsyncMemory, History, HistoryError, InvalidPath, Memory, MemoryTool
from memory_tool.history import AsyncHistory


def test_changes_are_listed_taken_back_and_redacted(disk_url):
    tool = MemoryTool(disk_url, history=True, actor="alice")
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "one\n"})
    memory = tool.memory
    memory.write_text("/memories/a.md", "two\n")
    memory.rename("/memories/a.md", "/memories/b.md")
    history = Memory(disk_url).history()  # continues it without the option
    newest, changed, created = history.log("/memories/b.md")
    assert (created.number, created.actor, created.command, created.origin) == (1, "alice", "create", "edit")
    assert abs(datetime.datetime.now(datetime.timezone.utc) - created.time) < datetime.timedelta(minutes=1)
    assert changed.changes[0]["before"]["size"] == 4
    assert newest.changes == [{"change": "rename", "from": "/memories/a.md", "to": "/memories/b.md"}]
    assert history.read_text("/memories/a.md", 1) == "one\n"
    assert history.diff(1, 2).endswith("@@ -1 +1 @@\n-one\n+two\n")

    undone = history.undo(2, by="bob")
    assert (undone.origin, undone.of, undone.actor) == ("undo", [3, 2], "bob")
    assert memory.read_text("/memories/a.md") == "one\n"
    assert (history.redo().of, memory.read_text("/memories/b.md")) == ([4], "two\n")
    assert history.restore("/memories", 1).origin == "restore"
    assert history.revert([6], force=True).of == [6]
    history.redact([2])
    assert [entry.number for entry in history.log(limit=3, before=4)] == [3, 2, 1]
    assert history.log(before=3, limit=1)[0].is_redacted
    assert [entry.number for entry in history.log(actor="alice")] == [3, 2, 1]
    history.clear()
    assert history.log() == []
    memory.write_text("/memories/c.md", "three\n")
    memory.clear()
    assert [entry.number for entry in history.log()] == [2, 1]
    memory.forget()
    assert (history.log(), memory.list()) == ([], [])


def test_errors_name_the_reason(disk_url):
    memory = Memory(disk_url)
    with pytest.raises(HistoryError, match="nothing to undo"):
        memory.history().undo()
    with pytest.raises(HistoryError, match="there is no entry 9; the newest is 0"):
        memory.history().read_text("/memories/a", 9)
    with pytest.raises(InvalidPath):
        memory.history().log("/elsewhere")
    assert memory.history().log() == []


def test_the_history_as_coroutines(disk_url):
    async def run():
        memory = await AsyncMemory.open(disk_url, history=True)
        await memory.write_text("/memories/a", "one")
        await memory.write_text("/memories/a", "two")
        history = memory.history()
        assert [entry.number for entry in await history.log()] == [2, 1]
        await history.undo()
        assert await history.read_text("/memories/a", 3) == "one"
        assert await memory.read_text("/memories/a") == "one"

    asyncio.run(run())


def test_both_classes_have_the_same_methods():
    def methods(of):
        return {name: inspect.signature(method) for name, method in inspect.getmembers(of, inspect.isfunction)}

    sync, coroutines = methods(History), methods(AsyncHistory)
    assert sync.keys() == coroutines.keys()
    assert all(sync[name].parameters == coroutines[name].parameters for name in sync if name != "__init__")


def test_all_changes_of_a_memory_have_its_actor(disk_url):
    memory = Memory(disk_url, history=True, actor="agent")
    memory.write_text("/memories/a.md", "one")
    memory.append("/memories/a.md", "two")
    memory.rename("/memories/a.md", "/memories/b.md")
    memory.history().undo()
    memory.remove("/memories/a.md")
    assert [entry.actor for entry in memory.history().log()] == ["agent"] * 5
