"""Stores in Python."""

import asyncio
import logging
import os
import threading

import pytest
from dict_store import DictStore

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Entry, Memory, MemoryTool, Store, ToolError, conformance


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


def test_any_exception_is_a_failure_and_its_cause_is_logged(caplog):
    store = BrokenStore()
    store.error = OSError("disk /dev/sda is on fire")
    with pytest.raises(ToolError, match="^Error: The memory storage failed before it could confirm the change"):
        MemoryTool(store).call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    with pytest.raises(memory_tool.StoreFailure) as raised:
        Memory(store).write_text("/memories/a", "tea")
    assert raised.value.__cause__ is store.error
    assert str(store.error) in caplog.text


def test_an_object_that_is_not_a_store_is_refused():
    with pytest.raises(TypeError, match="which has no read"):
        Memory(object())


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


def test_an_error_that_a_program_creates_is_retryable_or_not():
    assert memory_tool.OpenError("locked", "busy").retryable is True
    assert memory_tool.VersionMismatch("/memories/a").retryable is False


class NosyFile:
    """Its properties call another memory."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def content(self):
        self.inner.write_text("/memories/seen", "content")
        return b"tea"

    @property
    def version(self):
        return self.inner.read_text("/memories/seen").encode()


class NosyStore(DictStore):
    def __init__(self):
        super().__init__()
        self.inner = Memory("in-process:")

    def read(self, path, options):
        if path == "/memories/a":
            return NosyFile(self.inner)
        return (self.inner.usage() and entry for entry in [Entry("/memories/a", 3)])


class AsyncNosyStore(NosyStore):
    async def read(self, path, options):
        return super().read(path, options)


@pytest.mark.parametrize("store", [NosyStore, AsyncNosyStore])
def test_properties_and_generators_of_a_store_can_call_a_memory(store):
    memory = Memory(store())
    assert memory.read_text("/memories/a") == "tea"
    assert [entry.path for entry in memory.list()] == ["/memories/a"]

    async def run():
        memory = await AsyncMemory.open(store())
        texts = await asyncio.gather(*(memory.read_text("/memories/a") for _ in range(20)))
        assert texts == ["tea"] * 20
        assert [entry.path for entry in await memory.list()] == ["/memories/a"]

    asyncio.run(run())


def test_a_log_handler_can_call_a_memory():
    log = Memory("in-process:")

    class Handler(logging.Handler):
        def emit(self, record):
            log.write_text("/memories/log", record.getMessage())

    store, handler, logger = BrokenStore(), Handler(), logging.getLogger("memory_tool")
    store.error = OSError("no")
    logger.addHandler(handler)
    try:
        call = {"command": "create", "path": "/memories/a", "file_text": "tea"}
        for run in (MemoryTool(store).call, lambda call: asyncio.run(AsyncMemoryTool(store).call(call))):
            log.clear()
            with pytest.raises(ToolError) as raised:
                run(call)
            assert log.read_text("/memories/log") == str(raised.value)
    finally:
        logger.removeHandler(handler)


class HangingStore(DictStore):
    """Calls of the path never return."""

    def __init__(self, opened):
        super().__init__()
        self.opened = opened

    def read(self, path, options):
        if path == "/memories/a":
            self.opened.wait()
        return super().read(path, options)

    def apply(self, batch):
        self.opened.wait()


class AsyncHangingStore(DictStore):
    def __init__(self, _):
        super().__init__()

    async def read(self, path, options):
        if path == "/memories/a":
            await asyncio.Event().wait()
        return super().read(path, options)

    async def apply(self, batch):
        await asyncio.Event().wait()


@pytest.mark.parametrize("store", [HangingStore, AsyncHangingStore])
def test_the_timeout_bounds_a_method_that_never_returns(store):
    opened = threading.Event()
    try:
        memory = Memory(store(opened), timeout=0.1)
        with pytest.raises(memory_tool.StoreFailure) as raised:
            memory.read_text("/memories/a")
        assert raised.value.kind == "busy"
        assert "did not return within the timeout of 0.1 seconds" in str(raised.value.__cause__)
        with pytest.raises(memory_tool.StoreFailure) as raised:
            memory.write_text("/memories/b", "tea")
        assert raised.value.kind == "outcome_unknown"
        with pytest.raises(ToolError, match="^Error: The memory storage is busy"):
            MemoryTool(memory).call({"command": "view", "path": "/memories/a"})
    finally:
        opened.set()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt("stop"), SystemExit(3)])
@pytest.mark.parametrize("place", ["apply", "read", "property", "state", "log"])
def test_an_interrupt_stays_one(place, interrupt):
    def stop(*_):
        raise interrupt

    class Interrupted(DictStore):
        def apply(self, batch):
            if place == "log":
                raise OSError("no")
            stop() if place == "apply" else super().apply(batch)

        def read(self, path, options):
            if place == "read" and path == "/memories/a":
                stop()
            return property_that_stops() if place == "property" and path == "/memories/a" else super().read(path, options)

        def stat(self, path):
            return stop() if place == "state" else super().stat(path)

    def property_that_stops():
        return type("File", (), {"content": property(stop)})()

    handler, logger = logging.Handler(), logging.getLogger("memory_tool")
    handler.emit = stop
    logger.addHandler(handler)
    try:
        tool = MemoryTool(Interrupted())
        is_read = place in ("read", "property")
        command = {"command": "view" if is_read else "create", "path": "/memories/a", "file_text": "tea"}
        with pytest.raises(type(interrupt)) as raised:
            tool.call(command)
        assert raised.value is interrupt
        if place != "log":
            with pytest.raises(type(interrupt)) as raised:
                tool.memory.read_text("/memories/a") if is_read else tool.memory.write_text("/memories/a", "tea")
            assert raised.value is interrupt
    finally:
        logger.removeHandler(handler)


def test_an_interrupt_of_a_store_interrupts_a_coroutine():
    class Interrupted(AsyncDictStore):
        async def apply(self, batch):
            raise KeyboardInterrupt

    async def run():
        memory = await AsyncMemory.open(Interrupted())
        await memory.write_text("/memories/a", "tea")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    for _ in range(2):  # the event loop of the stores survives
        with pytest.raises(KeyboardInterrupt):
            Memory(Interrupted()).write_text("/memories/a", "tea")


def test_a_child_of_a_fork_runs_coroutines():
    Memory(AsyncDictStore()).write_text("/memories/a", "tea")
    child = os.fork()
    if child == 0:
        memory = Memory(AsyncDictStore())
        memory.write_text("/memories/a", "tea")
        os._exit(0 if memory.read_text("/memories/a") == "tea" else 1)
    assert os.waitpid(child, 0)[1] == 0
