"""The order of the commands of one tool object, and methods that a subclass overrides."""

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from anthropic.types.beta import BetaMemoryTool20250818CreateCommand as CreateCommand
from conftest import IS_LONG
from dict_store import DictStore
from messages_api import text, use
from test_sdk import RUNS

from memory_tool import AsyncMemoryTool, Memory, MemoryTool, ToolError

TURNS = 200 if IS_LONG else 20
PATH = "/memories/a"


def command(name, path=PATH, **fields):
    return {"command": name, "path": path, **fields}


def delete_and_create(turn):
    return [command("delete"), command("create", file_text=f"{turn}")], f"{turn}"


def two_inserts(turn):
    first, second = (command("insert", insert_line=0, insert_text=f"{turn}.{number}") for number in (1, 2))
    return [first, second], f"{turn}.2\n{turn}.1\n{{old}}"


def five_commands(turn):
    old, new = f"/memories/{turn}.old", f"/memories/{turn}.new"
    calls = [
        command("create", old, file_text="tea"),
        command("str_replace", old, old_str="tea", new_str="milk"),
        command("insert", old, insert_line=0, insert_text="cold"),
        {"command": "rename", "old_path": old, "new_path": new},
        command("view", new),
    ]
    return calls, "{old}"


@pytest.mark.parametrize("shape", [delete_and_create, two_inserts, five_commands])
def test_the_commands_of_a_turn_take_effect_in_order(shape, disk_url):
    async def run():
        tool = await AsyncMemoryTool.open(disk_url)
        await tool.memory.write_text(PATH, "start")
        for turn in range(TURNS):
            old = await tool.memory.read_text(PATH)
            calls, expected = shape(turn)
            replies = await asyncio.gather(*map(tool.call, calls))  # raises the first error
            assert await tool.memory.read_text(PATH) == expected.format(old=old)
            if calls[-1]["command"] == "view":
                assert replies[-1].endswith("     1\tcold\n     2\tmilk")

    asyncio.run(run())


class Gate(DictStore):
    """A change of a path waits until it is open. Its reads do not."""

    def __init__(self, path=PATH):
        super().__init__()
        self.path = path
        self.reached, self.opened = threading.Event(), threading.Event()

    def apply(self, batch):
        if any(getattr(change, "path", None) == self.path for change in batch.changes):
            self.reached.set()
            assert self.opened.wait(60)
        super().apply(batch)


def test_threads_run_commands_in_order():
    store = Gate()
    tool = MemoryTool(store)
    with ThreadPoolExecutor() as threads:
        create = threads.submit(tool.call, command("create", file_text="tea"))
        assert store.reached.wait(60)
        view = threads.submit(tool.call, command("view"))
        other = threads.submit(MemoryTool(tool.memory).call, command("create", "/memories/b", file_text="milk"))
        other.result(60)  # another tool does not wait
        assert not view.done()
        store.opened.set()
        assert create.result(60).startswith("File created")
        assert view.result(60).endswith("     1\ttea")


def test_a_cancelled_command_gives_up_its_place():
    store = Gate()

    async def run():
        tool = await AsyncMemoryTool.open(store)
        create = asyncio.ensure_future(tool.call(command("create", file_text="tea")))
        await asyncio.to_thread(store.reached.wait, 60)
        delete = asyncio.ensure_future(tool.call(command("delete")))
        view = asyncio.ensure_future(tool.call(command("view")))
        await asyncio.sleep(0)
        delete.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delete
        store.opened.set()
        assert (await create).startswith("File created")
        assert (await view).endswith("     1\ttea")

    asyncio.run(run())


class Overriding:
    """The same overrides for both tools. Each returns what `super()` returns, also a coroutine."""

    def create(self, command):
        self.seen = command
        return super().create(command.model_copy(update={"file_text": command.file_text.upper()}))

    def insert(self, command):
        self.seen = command
        return super().insert(command)


class OverridingTool(Overriding, MemoryTool):
    pass


class AsyncOverridingTool(Overriding, AsyncMemoryTool):
    pass


def wait(reply):
    async def await_reply():
        return await reply

    return reply if isinstance(reply, str) else asyncio.run(await_reply())


OVERRIDING = pytest.mark.parametrize("tool_class", [OverridingTool, AsyncOverridingTool])


@OVERRIDING
@pytest.mark.parametrize("method", ["call", "execute", "create"])
def test_an_overridden_method_is_used_everywhere(tool_class, method):
    tool = tool_class("in-process:")
    fields = command("create", file_text="tea")
    given = fields if method == "call" else CreateCommand(**fields)
    assert wait(getattr(tool, method)(given)) == "File created successfully at: /memories/a"
    assert isinstance(tool.seen, CreateCommand)
    assert Memory(tool.memory).read_text(PATH) == "TEA"
    assert wait(tool.call(command("view"))).endswith("     1\tTEA")


@RUNS
def test_the_runner_of_the_sdk_uses_an_overridden_method(run, tool_class):
    class Tool(Overriding, tool_class):
        pass

    tool = Tool("in-process:")
    run(tool, [use("t1", command="create", path=PATH, file_text="tea")], [text("Noted.")])
    assert Memory(tool.memory).read_text(PATH) == "TEA"


@OVERRIDING
def test_an_overridden_method_receives_valid_commands(tool_class):
    tool = tool_class("in-process:")
    wait(tool.call(command("create", "/memories/a/", file_text="tea")))
    assert tool.seen.path == PATH
    wait(tool.call(command("insert", insert_line=0, new_str="cold")))
    assert tool.seen.insert_text == "cold"
    tool.seen = None
    for wrong in [command("create"), command("create", file_text=7), command("create", "/etc", file_text=""), "create"]:
        with pytest.raises(ToolError, match="^Error: "):
            wait(tool.call(wrong))
    assert tool.seen is None


def test_a_method_can_be_overridden_in_an_object():
    tool = MemoryTool("in-process:")
    tool.delete = lambda command: f"{command.path} stays"
    assert tool.call(command("delete")) == "/memories/a stays"


@pytest.mark.parametrize("tool_class", [MemoryTool, AsyncMemoryTool])
def test_an_overridden_execute_is_used_by_call(tool_class):
    class Tool(tool_class):
        def execute(self, command):
            self.seen = command.command
            return super().execute(command)

    tool = Tool("in-process:")
    wait(tool.call(command("create", file_text="tea")))
    assert tool.seen == "create"
    with pytest.raises(ToolError, match="Missing field"):
        wait(tool.call({}))


class Replacing(MemoryTool):
    """Its `create` calls other commands, also from other threads."""

    def create(self, command):
        for path in (command.path, "/memories/none"):
            try:
                self.call({"command": "delete", "path": path})
            except ToolError:
                pass
        context = contextvars.copy_context()
        with ThreadPoolExecutor() as threads:
            threads.submit(context.run, self.call, {"command": "view", "path": "/memories"}).result(60)
            return threads.submit(super().create, command).result(60)


class AsyncReplacing(AsyncMemoryTool):
    async def create(self, command):
        await asyncio.sleep(0.01)
        view = {"command": "view", "path": "/memories"}
        await asyncio.gather(self.call(view), self.view(view))
        try:
            await self.call({"command": "delete", "path": command.path})
        except ToolError:
            pass
        await asyncio.sleep(0.01)
        return await asyncio.create_task(super().create(command))


def test_an_overridden_method_does_not_wait_for_itself():
    tool = Replacing("in-process:")
    for number in range(2):
        thread = threading.Thread(target=tool.call, args=[command("create", file_text=f"{number}")], daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert tool.memory.read_text(PATH) == f"{number}"


def test_an_overridden_method_keeps_its_place_in_the_order():
    async def run():
        tool = await AsyncReplacing.open("in-process:")
        for number in range(5):
            calls = [command("create", file_text=f"{number}"), command("insert", insert_line=0, insert_text="first")]
            *_, view = await asyncio.wait_for(asyncio.gather(*map(tool.call, [*calls, command("view")])), 60)
            assert view.endswith(f"     1\tfirst\n     2\t{number}")

    asyncio.run(run())


def test_an_overridden_method_that_fails_or_is_cancelled_leaves_the_queue():
    class Tool(AsyncMemoryTool):
        async def create(self, command):
            if command.file_text == "fail":
                raise ValueError("no")
            await asyncio.sleep(3600)

    async def run():
        tool = await Tool.open("in-process:")
        with pytest.raises(ValueError):
            await tool.call(command("create", file_text="fail"))
        running = asyncio.ensure_future(tool.call(command("create", file_text="")))
        queued = asyncio.ensure_future(tool.call(command("create", file_text="")))
        view = asyncio.ensure_future(tool.call(command("view", "/memories")))
        await asyncio.sleep(0.01)
        for cancelled in (queued, running):
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        assert (await asyncio.wait_for(view, 60)).endswith("0B\t/memories")

    asyncio.run(run())


def test_a_method_can_be_overridden_without_the_sdk():
    code = """
        import sys
        sys.modules["anthropic"] = None
        from memory_tool import MemoryTool

        class Tool(MemoryTool):
            def create(self, command):
                command.file_text = command.file_text.upper()
                return super().create(command)

        tool = Tool("in-process:")
        print(tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"}))
        print(tool.memory.read_text("/memories/a"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "File created successfully at: /memories/a\nTEA\n", done.stderr
