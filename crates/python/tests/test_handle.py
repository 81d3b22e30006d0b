"""The methods of the handle, on every kind of store, plain and as coroutines."""

import asyncio
import inspect
import re
import tarfile
import threading
import time

import pytest

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, ToolError, VersionMismatch


class Waiting:
    """Runs the coroutines of an asynchronous object, so that one test covers both classes."""

    def __init__(self, inner, event_loop):
        self._inner, self._loop = inner, event_loop

    def __getattr__(self, name):
        def call(*arguments, **named):
            arguments = [getattr(argument, "_inner", argument) for argument in arguments]
            outcome = getattr(self._inner, name)(*arguments, **named)
            return self._loop.run_until_complete(outcome) if inspect.isawaitable(outcome) else outcome

        return call


@pytest.fixture(params=["plain", "coroutines"])
def opened(request):
    """A function that opens a memory."""
    if request.param == "plain":
        yield Memory
        return
    event_loop = asyncio.new_event_loop()
    opening = AsyncMemory.open
    yield lambda *given, **options: Waiting(event_loop.run_until_complete(opening(*given, **options)), event_loop)
    event_loop.close()


def test_bytes_appends_and_existence(location, opened):
    memory = opened(location)
    memory.write_bytes("/memories/a/image", b"\x89PNG\0")
    assert memory.read_bytes("/memories/a/image") == b"\x89PNG\0"
    with pytest.raises(memory_tool.NotText):
        memory.read_text("/memories/a/image")
    memory.append("/memories/log", "one\n")
    memory.append("/memories/log", b"two\xff")
    assert memory.read_bytes("/memories/log") == b"one\ntwo\xff"
    paths = ["/memories", "/memories/a", "/memories/log", "/memories/none"]
    assert [memory.exists(path) for path in paths] == [True, True, True, False]
    for wrong in (
        lambda: memory.append("/memories/a", "x"),
        lambda: memory.read_bytes("/memories/a"),
        lambda: memory.write_text("/memories/a", "x", if_text="y"),
    ):
        with pytest.raises(memory_tool.NotAFile):
            wrong()
    for mistyped in (
        lambda: memory.write_text("/memories/b", b"x"),
        lambda: memory.write_bytes("/memories/b", "x"),
        lambda: memory.append("/memories/b", 1),
        lambda: memory.exists(None),
    ):
        with pytest.raises(TypeError):
            mistyped()


def test_a_write_with_a_condition_replaces_only_what_was_read(location, opened):
    memory = opened(location)
    memory.write_text("/memories/a", "one", if_absent=True)
    with pytest.raises(memory_tool.AlreadyExists) as exists:
        memory.write_text("/memories/a", "two", if_absent=True)
    assert exists.value.path == "/memories/a"
    memory.write_text("/memories/a", "two", if_text="one")
    memory.write_bytes("/memories/a", b"three", if_bytes=b"two")
    for path in ("/memories/a", "/memories/none"):
        with pytest.raises(VersionMismatch) as changed:
            memory.write_text(path, "four", if_text="two")
        assert changed.value.path == path
    assert memory.read_text("/memories/a") == "three"
    assert not memory.exists("/memories/none")
    for condition in ({"if_text": None}, {"if_text": b"three"}, {"if_text": "three", "if_absent": True}):
        with pytest.raises(TypeError, match="if_text must be str"):
            memory.write_text("/memories/a", "four", **condition)


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


def test_a_copy_an_export_and_an_import(location, opened, tmp_path):
    memory, other = opened(location), opened("in-process:")
    memory.write_text("/memories/a/b.md", "tea")
    other.write_text("/memories/a/b.md", "coffee")
    report = memory.copy_to(other)
    [conflict] = report.conflicts
    assert (report.is_complete, report.copied, conflict.path) == (False, 0, "/memories/a/b.md")
    assert other.read_text("/memories/a/b.md") == "coffee"
    report = memory.copy_to(other, overwrite=True)
    assert (report.is_complete, report.overwritten, report.bytes) == (True, 1, 3)
    assert other.read_text("/memories/a/b.md") == "tea"

    archive = tmp_path / "alice.tar.gz"
    exported = memory.export(archive)
    assert (exported.is_complete, exported.exported, exported.kept) == (True, 1, None)
    with tarfile.open(archive) as opened_archive:
        assert opened_archive.extractfile("a/b.md").read() == b"tea"
    with pytest.raises(memory_tool.TransferError, match="the target exists") as refused:
        memory.export(archive)
    assert refused.value.kind == "already_exists"
    memory.clear()
    imported = memory.import_(archive)
    assert (imported.is_complete, imported.copied, imported.skipped) == (True, 1, [])
    assert memory.read_text("/memories/a/b.md") == "tea"
    with pytest.raises(memory_tool.TransferError, match="into itself"):
        memory.copy_to(memory)


def test_damage_expiry_scopes_and_memories(tmp_path, opened):
    place = tmp_path / "users"
    memory = opened(str(place / "alice"))
    memory.write_text("/memories/a", "tea")
    report = memory.verify()
    assert (report.files, report.bytes, report.problems) == (1, 3, [])
    encrypted = opened(str(tmp_path / "encrypted"), key=bytes(32))
    encrypted.write_text("/memories/a", "tea")
    for object in (tmp_path / "encrypted" / "memories").rglob("*"):
        if object.is_file() and object.stat().st_size < 200:
            object.write_bytes(b"damaged")
    assert ["/memories/a" in problem for problem in encrypted.verify().problems] == [True]

    opened(str(place / "alice"), scope="team").write_text("/memories/b", "tea")
    assert memory.scopes() == ["team"]
    opened(f"sqlite:{tmp_path}/users.db?memory=alice").write_text("/memories/a", "tea")
    assert memory.memories(f"sqlite:{tmp_path}/users.db") == [f"sqlite://{tmp_path}/users.db?memory=alice"]
    assert memory.memories(place) == [f"file://{place}/alice"]
    with pytest.raises(memory_tool.OpenError) as missing:
        memory.memories(tmp_path / "none")
    assert missing.value.kind == "not_found"
    with pytest.raises(memory_tool.OpenError, match="unknown scheme"):
        memory.memories("foo:bar")

    assert memory.expire() == []
    assert memory.expire_all() == []
    expiring = opened(str(place / "alice"), expire_after=1, pins=["/memories/scope-team"])
    expiring.write_text("/memories/old", "tea")
    removed = []
    while not removed:  # a second has to pass
        time.sleep(0.05)
        removed = expiring.expire()
    assert "/memories/old" in removed
    assert not (place / "alice" / "memories" / "old").exists()


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
