"""Stores in Python."""

import asyncio
import os
import threading

import pytest
from dict_store import DictStore

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, Store, ToolError, conformance


class AsyncDictStore(Store):
    """The same with coroutines, which record their event loops."""

    def __init__(self):
        self.inner = DictStore()
        self.loops = set()

    async def _ask(self, method, *arguments):
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return getattr(self.inner, method)(*arguments)

    async def read(self, path, options):
        return await self._ask("read", path, options)

    async def read_record(self, name):
        return await self._ask("read_record", name)

    async def apply(self, batch):
        return await self._ask("apply", batch)


def test_conformance(conformance_case):
    conformance_case.run(DictStore, races=20)


def test_the_suite_passes_on_a_store_with_coroutines():
    report = conformance.run(AsyncDictStore, races=5)
    assert report.is_success, report


def test_the_suite_reports_a_fault():
    class Forgetful(DictStore):
        def apply(self, batch):
            batch.check(self)

    report = conformance.run(Forgetful, filters=["create."])
    assert not report.is_success and "FAILED" in str(report)


def test_the_suite_opens_a_store_again():
    report = conformance.run(DictStore, reopen=lambda store: store, filters=["races."], races=5)
    assert report.is_success, report
    assert not any("reopen" in result.get("lack", "") for result in report.results)


@pytest.mark.parametrize("store", [DictStore, AsyncDictStore])
def test_policies_and_encryption_work_over_a_store(store):
    kept = store()
    tool = MemoryTool(kept, scope="alice", limits=True, max_files=1, key=bytes(32), screen="refuse", expire_after=60)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    assert tool.memory.read_text("/memories/a") == "tea"
    with pytest.raises(ToolError):
        tool.call({"command": "create", "path": "/memories/b", "file_text": "tea"})
    files = getattr(kept, "inner", kept)._files
    assert files and not any(b"tea" in content for content in files.values())


def test_coroutines_run_on_the_event_loop_that_opened_the_memory():
    store = AsyncDictStore()

    async def run():
        tool = await AsyncMemoryTool.open(store)
        await tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
        assert store.loops == {asyncio.get_running_loop()}

    asyncio.run(run())


def test_coroutines_of_a_synchronous_memory_share_one_event_loop():
    store = AsyncDictStore()
    for memory in (Memory(store), AsyncMemory(store), Memory(store)):
        assert memory is not None
    Memory(store).write_text("/memories/a", "tea")
    assert len(store.loops) == 1


class BrokenStore(DictStore):
    error = None

    def apply(self, batch):
        raise self.error


@pytest.mark.parametrize(
    "error, text",
    [
        (OSError("disk /dev/sda is on fire"), "Error: The memory storage failed before it could confirm the change. "
                                              "View the path to check whether the change was made."),
        (memory_tool.StoreFailure("locked", kind="busy"), "Error: The memory storage is busy. Nothing was changed. "
                                                          "Try again."),
        (memory_tool.Refused("/memories/a", "Ask a person first."), "Error: Ask a person first."),
        (memory_tool.SymbolicLink("/memories/a"), "Error: Path /memories/a would escape /memories directory via a "
                                                  "symbolic link"),
    ],
)  # fmt: skip
def test_errors_of_a_store(error, text, caplog):
    store = BrokenStore()
    store.error = error
    with pytest.raises(ToolError) as raised:
        MemoryTool(store).call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    assert str(raised.value) == text
    with pytest.raises(memory_tool.StoreError) as raised:
        Memory(store).write_text("/memories/a", "tea")
    if isinstance(error, (OSError, memory_tool.StoreFailure)):
        assert isinstance(raised.value, memory_tool.StoreFailure)
        assert raised.value.__cause__ is error
        assert str(error) in caplog.text
    else:
        assert (type(raised.value), str(raised.value)) == (type(error), str(error))


def test_an_object_that_is_not_a_store_is_refused():
    with pytest.raises(TypeError, match="which has no read"):
        Memory(object())


def test_a_memory_over_a_memory(url):
    inner = Memory(url)
    Memory(inner, scope="alice").write_text("/memories/a", "tea")
    assert inner.read_text("/memories/scope-alice/a") == "tea"


def test_many_threads_share_a_store():
    memory = Memory(DictStore())
    tool = MemoryTool(memory)
    memory.write_text("/memories/a", "")

    def insert():
        for _ in range(20):
            tool.call({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"})

    threads = [threading.Thread(target=insert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.read_text("/memories/a").count("x") == 80


def test_a_store_can_use_a_memory():
    inner = Memory("in-process:")

    class Counting(DictStore):
        def apply(self, batch):
            super().apply(batch)
            inner.write_text("/memories/count", str(inner.usage().files))

    Memory(Counting()).write_text("/memories/a", "tea")
    assert inner.read_text("/memories/count") == "0"


def test_a_child_of_a_fork_runs_coroutines():
    Memory(AsyncDictStore()).write_text("/memories/a", "tea")
    child = os.fork()
    if child == 0:
        memory = Memory(AsyncDictStore())
        memory.write_text("/memories/a", "tea")
        os._exit(0 if memory.read_text("/memories/a") == "tea" else 1)
    assert os.waitpid(child, 0)[1] == 0
