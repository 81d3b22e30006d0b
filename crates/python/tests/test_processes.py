"""Threads, processes, signals, forks and exits."""

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import memory_tool
from conftest import IS_LONG
from memory_tool import AsyncMemory, AsyncMemoryTool, File, Memory, MemoryTool, Store, ToolError

THREADS, INSERTS = 8, 50 if IS_LONG else 10


def insert_many(url, process):
    tool = MemoryTool(url, timeout=120)

    def insert(thread):
        for number in range(INSERTS):
            line = f"{process}.{thread}.{number}"
            tool.call({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": line})

    threads = [threading.Thread(target=insert, args=[thread]) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_insert_of_two_processes_with_eight_threads_is_lost(url):
    memory = Memory(url)
    memory.write_text("/memories/a", "")
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=insert_many, args=[url, process]) for process in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    lines = memory.read_text("/memories/a").splitlines()
    expected = {f"{p}.{t}.{n}" for p in range(2) for t in range(THREADS) for n in range(INSERTS)}
    assert sorted(lines) == sorted(expected)


def test_coroutines_of_one_tool_keep_all_inserts(url):
    async def run():
        tool = await AsyncMemoryTool.open(url)
        await tool.call({"command": "create", "path": "/memories/a", "file_text": ""})
        inserts = (
            tool.call({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": f"{number}"})
            for number in range(100)
        )
        await asyncio.gather(*inserts)
        return await tool.memory.read_text("/memories/a")

    assert sorted(asyncio.run(run()).split()) == sorted(map(str, range(100)))


class WaitingStore(Store):
    """Its reads of a file wait."""

    def __init__(self, wait):
        self.wait = wait

    def read(self, path, options):
        if path == "/memories/a":
            self.wait(timeout=60)
            return File(b"tea", b"1")

    def apply(self, batch):
        pass


def test_a_blocked_call_releases_the_lock_of_the_interpreter():
    memory = Memory(WaitingStore(threading.Barrier(8).wait), timeout=120)
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(memory.read_text, "/memories/a") for _ in range(8)]
        assert [call.result() for call in calls] == ["tea"] * 8


def test_the_event_loop_runs_during_a_call():
    async def run():
        released = threading.Event()
        memory = await AsyncMemory.open(WaitingStore(released.wait))
        call = asyncio.ensure_future(memory.read_text("/memories/a"))
        await asyncio.sleep(0.1)
        assert not call.done()
        released.set()
        assert await call == "tea"

    asyncio.run(run())


def test_coroutines_need_no_thread_each(url):
    async def run():
        memory = await AsyncMemory.open(url)
        await memory.write_text("/memories/a", "tea")
        before = threading.active_count()
        reads = [asyncio.ensure_future(memory.read_text("/memories/a")) for _ in range(1000)]
        await asyncio.sleep(0)
        during = threading.active_count()
        assert set(await asyncio.gather(*reads)) == {"tea"}
        return before, during

    before, during = asyncio.run(run())
    assert during == before


def test_a_cancelled_coroutine_leaves_the_old_state_or_the_new(url):
    async def run():
        memory = await AsyncMemory.open(url)
        outcomes = set()
        for number in range(100):
            old, new = f"old {number}", f"new {number}" * 1000
            await memory.write_text("/memories/a", old)
            call = asyncio.ensure_future(memory.write_text("/memories/a", new))
            await asyncio.sleep(number / 100_000)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
                raise asyncio.CancelledError  # it ended before
            found = await memory.read_text("/memories/a")
            assert found in (old, new)
            outcomes.add(found == new)
        return outcomes

    assert asyncio.run(run())


def run_python(code, *arguments, **options):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_ctrl_c_interrupts_a_blocked_call():
    code = """
        import os, signal, threading
        from memory_tool import Memory, Store

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it

        class HangingStore(Store):
            async def read(self, path, options):
                import asyncio
                if path == "/memories/hang":
                    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                    await asyncio.sleep(1000)

        memory = Memory(HangingStore())
        try:
            memory.read_text("/memories/hang")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_a_signal_handler_can_call_a_memory():
    code = """
        import os, signal, threading
        from memory_tool import File, Memory, Store

        log, opened = Memory("in-process:"), threading.Event()

        def handle(*_):
            log.write_text("/memories/log", "handled")
            opened.set()

        signal.signal(signal.SIGUSR1, handle)

        class WaitingStore(Store):
            def read(self, path, options):
                if path == "/memories/wait":
                    os.kill(os.getpid(), signal.SIGUSR1)
                    opened.wait(50)
                    return File(b"tea", b"1")

        print(Memory(WaitingStore()).read_text("/memories/wait"), log.read_text("/memories/log"))
    """
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "tea handled\n"), done.stderr


def test_after_a_fork_a_memory_is_refused_and_can_be_opened_again(url):
    memory = Memory(url)
    memory.write_text("/memories/a", "tea")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        report = b"no error"
        try:
            memory.read_text("/memories/a")
        except memory_tool.ForkError as error:
            report = str(error).encode()
        try:
            Memory(memory, scope="alice")
        except memory_tool.ForkError:
            report += b"|"
        again = Memory(url)
        report += again.read_text("/memories/a").encode()
        again.write_text("/memories/b", "milk")
        del memory, again
        gc.collect()
        os.write(writer, report)
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "the memory was opened in the parent process: open it again after a fork|tea"
    memory.write_text("/memories/c", "the parent goes on")
    assert memory.read_text("/memories/b") == "milk"


def test_after_a_fork_the_model_reads_no_details(url):
    tool = MemoryTool(url)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            tool.call({"command": "view", "path": "/memories"})
        except ToolError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "Error: The memory storage failed. Nothing was changed."


@pytest.mark.parametrize("kind", ["thread", "coroutine", "store"])
def test_the_interpreter_can_exit_during_a_call(kind, tmp_path):
    code = """
        import asyncio, sys, threading, time
        from memory_tool import AsyncMemory, Memory, Store

        class SlowStore(Store):
            def read(self, path, options):
                time.sleep(0.4)

        kind, url = sys.argv[1:]
        if kind == "coroutine":
            async def write_forever(memory):
                while True:
                    await memory.write_text("/memories/a", "tea" * 1000)
            async def main():
                memory = await AsyncMemory.open(url)
                tasks = [asyncio.ensure_future(write_forever(memory)) for _ in range(8)]
                await asyncio.sleep(0.2)
                asyncio.get_running_loop().stop()
            loop = asyncio.new_event_loop()
            loop.create_task(main())
            loop.run_forever()
        else:
            memory = Memory(url if kind == "thread" else SlowStore())
            def work():
                while True:
                    if kind == "thread":
                        memory.write_text("/memories/a", "tea" * 1000)
                    else:
                        memory.list("/memories/a")
            for _ in range(8):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.2)
        print("end")
    """
    for _ in range(3):
        done = run_python(code, kind, tmp_path / "memory")
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_a_sub_thread_can_own_the_event_loop(url):
    async def run():
        memory = await AsyncMemory.open(url)
        await memory.write_text("/memories/a", "tea")
        return await memory.read_text("/memories/a")

    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(run())))
    thread.start()
    thread.join()
    assert outcomes == ["tea"]


@pytest.mark.full
def test_many_calls_need_no_more_memory(disk_url):
    tool = MemoryTool(disk_url)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "tea\n" * 100})

    async def run_async(calls):
        tool = await AsyncMemoryTool.open(disk_url)
        for _ in range(calls):
            await tool.call({"command": "view", "path": "/memories/a"})

    def run(calls):
        for number in range(calls // 2):
            tool.call({"command": "view", "path": "/memories/a"})
            if number % 100 == 0:
                with pytest.raises(ToolError):
                    tool.call({"command": "view", "path": "/memories/none"})
        asyncio.run(run_async(calls // 2))

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    run(10_000)
    before = resident()
    run(100_000 if IS_LONG else 10_000)
    assert resident() - before < 8 * 1024 * 1024


