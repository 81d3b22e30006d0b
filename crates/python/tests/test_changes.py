"""`on_change` and `watch`."""

import asyncio
import queue
import threading

import pytest

from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryChange, MemoryTool

EDITS = [
    {"command": "create", "path": "/memories/a", "file_text": "tea"},
    {"command": "str_replace", "path": "/memories/a", "old_str": "tea", "new_str": "mate"},
    {"command": "str_replace", "path": "/memories/a", "old_str": "none", "new_str": ""},
    {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
    {"command": "delete", "path": "/memories/b"},
]
CHANGES = [
    MemoryChange("write", "/memories/a", None, 3, "claude"),
    MemoryChange("edit", "/memories/a", None, 4, "claude"),
    MemoryChange("rename", "/memories/b", "/memories/a", None, "claude"),
    MemoryChange("remove", "/memories/b", None, None, "claude"),
]


def test_a_function_receives_changes(location, caplog):
    found = queue.Queue()

    def on_change(change):
        found.put((change, memory.exists(change.path), threading.current_thread()))
        raise RuntimeError("a fault of the function")

    memory = Memory(location, on_change=on_change, actor="claude")
    tool = MemoryTool(memory)
    for edit in EDITS:
        try:
            tool.call(edit)
        except Exception as error:
            assert "did not appear" in str(error)
    reported = [found.get(timeout=30) for _ in CHANGES]
    memory.write_text("/memories/c", "milk")
    reported.append(found.get(timeout=30))
    assert [change for change, *_ in reported] == [*CHANGES, MemoryChange("write", "/memories/c", None, 4, "claude")]
    assert reported[-1][1] and reported[-1][2] is not threading.current_thread()
    assert "a fault of the function" in caplog.text
    with pytest.raises(TypeError, match="invalid on_change: expected a function, got str"):
        Memory(location, on_change="print")


def test_a_function_receives_changes_on_the_event_loop(location):
    async def run():
        found = asyncio.Queue()
        tool = await AsyncMemoryTool.open(location, on_change=found.put_nowait, actor="claude")
        for edit in EDITS:
            await asyncio.wait([asyncio.ensure_future(tool.call(edit))])
        return [await asyncio.wait_for(found.get(), 30) for _ in CHANGES]

    assert asyncio.run(run()) == CHANGES


def test_a_watch_reports_the_changes_of_this_memory_and_ends(location):
    memory = Memory(location)
    with memory.watch() as watch:
        memory.write_text("/memories/a", "tea")
        memory.rename("/memories/a", "/memories/b")
        found = [next(watch)]
        while found[-1] != MemoryChange("rename", "/memories/b", "/memories/a"):
            found.append(next(watch))  # a change may be reported twice
        assert MemoryChange("write", "/memories/a", None, 3) in found
        threading.Timer(0.2, watch.close).start()
        assert {change.path for change in watch} <= {"/memories/a", "/memories/b"}
    assert list(watch) == []


def test_a_watch_reports_the_changes_of_others(tmp_path):
    place = str(tmp_path / "memory")
    watching, other = Memory(place), Memory(place)
    with watching.watch() as watch:
        other.write_text("/memories/a", "tea")
        assert next(watch) == MemoryChange("write", "/memories/a", None, 3)


def test_a_watch_of_coroutines_loses_no_change(location):
    async def run():
        memory = await AsyncMemory.open(location)
        async with await memory.watch() as watch:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(watch.__anext__(), 0.01)
            waiting = asyncio.ensure_future(watch.__anext__())
            await memory.write_text("/memories/a", "tea")
            waiting.cancel()
            async for change in watch:
                break
            found = {change.path}

            async def read():
                async for change in watch:
                    found.add(change.path)  # a change may be reported twice
                    if len(found) == 3:
                        watch.close()  # ends the other reader too

            reading = asyncio.gather(read(), read())
            await memory.write_text("/memories/b", "tea")
            await memory.write_text("/memories/c", "tea")
            await reading
        return sorted(found)

    assert asyncio.run(run()) == ["/memories/a", "/memories/b", "/memories/c"]
