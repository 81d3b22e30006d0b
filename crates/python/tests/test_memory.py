"""Memories: operations, options and errors."""

import asyncio
import base64
import datetime
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, Options, ToolError


def test_many_coroutines_write_at_once(url):
    async def run():
        memory = await AsyncMemory.open(url)
        await asyncio.gather(*(memory.write_text(f"/memories/{number}", "tea") for number in range(50)))
        assert (await memory.usage()).files == 50

    asyncio.run(run())


def test_errors_can_be_pickled():
    for call in ("/memories/none", "/memories", "/etc"):
        with pytest.raises(memory_tool.StoreError) as raised:
            Memory("in-process:").read_text(call)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (type(copy), str(copy)) == (type(raised.value), str(raised.value))


def test_an_open_error_has_the_cause_of_the_storage(tmp_path):
    with pytest.raises(memory_tool.OpenError) as raised:
        Memory(str(tmp_path / "none"), must_exist=True)
    assert isinstance(raised.value.__cause__, FileNotFoundError)


def test_an_open_error_names_a_missing_bucket(bucket_url):
    url = bucket_url.replace("://test/", "://missing/")
    with pytest.raises(memory_tool.OpenError) as raised:
        Memory(url)
    assert str(raised.value).startswith(f"cannot open the memory store at {url}: ")
    assert "the bucket does not exist: create it" in str(raised.value)


def test_a_reply_never_contains_a_path_of_the_host(tmp_path):
    tool = MemoryTool(tmp_path)
    (tmp_path / "memories").rmdir()
    (tmp_path / "memories").symlink_to("/nowhere")
    with pytest.raises(ToolError) as raised:
        tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "tea"})
    assert str(tmp_path) not in str(raised.value) and "/nowhere" not in str(raised.value)


@pytest.mark.parametrize(
    "value",
    ["\ud800", float("nan"), float("inf"), 10**400, {1: 2}, object(), [[]] * 2],
)
def test_an_input_that_is_not_json_is_an_error(value):
    with pytest.raises(ToolError, match="^Error: "):
        MemoryTool("in-process:").call({"command": "view", "path": "/memories", "view_range": value, "new_path": value}
                                       if not isinstance(value, list) else value)  # fmt: skip


def test_a_deep_input_is_an_error():
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ToolError, match="nested too deeply"):
        MemoryTool("in-process:").call({"command": "view", "path": value})
    while value:
        value = value.pop()  # its destructor would be recursive


def test_tuples_and_big_numbers_are_those_of_json():
    tool = MemoryTool("in-process:")
    tool.memory.write_text("/memories/a", "1\n2\n3")
    reply = tool.call({"command": "view", "path": "/memories/a", "view_range": (2.0, 10**30)})
    assert reply.endswith("with line numbers:\n     2\t2\n     3\t3")


def test_options_have_the_types_of_python(tmp_path):
    docs = [("/memories/docs", tmp_path / "docs")]
    memory = Memory(tmp_path / "memory", expire_after=datetime.timedelta(days=90), mounts=docs, timeout=1)
    memory.write_text("/memories/docs/a", "tea")
    assert (tmp_path / "docs" / "memories" / "a").read_text() == "tea"


@pytest.mark.parametrize("option", Options.__annotations__)
def test_a_value_that_no_option_can_have_is_refused_with_the_name_of_the_option(option):
    cyclic = []
    cyclic.append(cyclic)
    for text in ("bob\ud83d", "bob\ud83e\U0001f600", "\U0001f600\udbff"):
        for value in (text, [text]):
            with pytest.raises((TypeError, ValueError), match=f"invalid {option}: .*"):
                Memory("in-process:", **{option: value})
    for value in (cyclic, [cyclic], (cyclic,), {"a": cyclic}.values()):
        with pytest.raises((TypeError, ValueError), match=f"invalid {option}: "):
            Memory("in-process:", **{option: value})


def test_a_lone_surrogate_in_a_location_or_name_is_refused():
    for location in ("bob\ud83d", "sqlite:a.db?memory=bob\ud83d", Path("bob\ud83d")):
        for open_memory in (Memory, AsyncMemory, MemoryTool, AsyncMemoryTool):
            with pytest.raises(ValueError, match="invalid location: .*surrogate"):
                open_memory(location)
    for mounts in ({"/memories/bob\ud83d": "in-process:"}, [("/memories/bob\ud83d", "in-process:")]):
        with pytest.raises(ValueError, match="invalid mounts: .*surrogate"):
            Memory("in-process:", mounts=mounts)
    memory = Memory("in-process:")
    for call in (
        lambda: memory.read_text("/memories/bob\ud83d"),
        lambda: memory.write_text("/memories/a", "bob\ud83d"),
        lambda: memory.rename("/memories/a", "/memories/bob\ud83d"),
        lambda: memory.list("/memories/bob\ud83d"),
    ):
        with pytest.raises(ValueError):
            call()
    for field in ("path", "file_text"):
        command = {"command": "create", "path": "/memories/a", "file_text": "tea", field: "/memories/bob\ud83d"}
        with pytest.raises(ToolError, match="surrogate"):
            MemoryTool(memory).call(command)
    assert memory.list() == []


def test_a_path_of_the_host_need_not_be_unicode(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    Memory(str(tmp_path / name)).write_text("/memories/a", "tea")
    assert (tmp_path / name / "memories" / "a").read_text() == "tea"


KEYS = [bytes(range(32)).hex(), base64.b64encode(bytes(range(1, 33))).decode()]


def shown(error):
    """All that a program can print of an error."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return " ".join(texts)


@pytest.mark.parametrize("secret", KEYS)
@pytest.mark.parametrize("option", [option for option in Options.__annotations__ if "key" in option or "pass" in option])
def test_no_error_contains_a_key(option, secret):
    number = int.from_bytes(secret[:8].encode(), "big")
    for value in (secret, [secret], secret.encode(), [secret.encode()], {secret: 1}, number, [number], (secret, 1)):
        key = {} if option in ("key", "key_file", "key_env", "passphrase_file") else {"key": bytes(32)}
        with pytest.raises((TypeError, ValueError, memory_tool.OpenError)) as raised:
            Memory("in-process:", **key, **{option: value})
        assert secret not in shown(raised.value) and str(number) not in shown(raised.value)


def test_no_representation_contains_a_key():
    secret = bytes(range(32))
    for open_memory in (Memory, AsyncMemory, MemoryTool, AsyncMemoryTool):
        opened = open_memory("in-process:", key=secret)
        for text in (repr(opened), repr(vars(opened)), repr(vars(getattr(opened, "memory", opened)))):
            assert repr(secret)[2:-1] not in text and secret.hex() not in text


def test_a_leading_tilde_is_the_home_directory(tmp_path):
    code = """
        import os, sys
        from memory_tool import Memory, MemoryTool, OpenError
        for location in ("~/a", "file:~/b", "sqlite:~/c.db"):
            Memory(location).write_text("/memories/x", "tea")
        MemoryTool("~/d", audit_log="~/audit", actor="alice").memory.write_text("/memories/x", "tea")
        for wrong in ("~alice/a", "$HOME/a", "sqlite:$HOME/a.db"):
            try:
                MemoryTool(wrong)
            except OpenError as error:
                print(error)
        try:
            Memory("~/none", must_exist=True)
        except OpenError as error:
            print(error.kind)
    """
    home, current = tmp_path / "home", tmp_path / "current"
    home.mkdir()
    current.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=current, env={**os.environ, "HOME": str(home)}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *refused, kind = done.stdout.splitlines()
    assert len(refused) == 3 and kind == "not_found"
    assert sorted(path.name for path in home.iterdir() if not path.name.startswith("c.db")) == ["a", "audit", "b", "d"]
    assert (home / "c.db").exists() and list(current.iterdir()) == []


CREDENTIALS = ["s3://AKIAEXAMPLE:hunter2secret@bucket/a", "https://bob:hunter2secret@host/a",
               "file://bob:hunter2secret@host/a", "sqlite://bob:hunter2secret@host/a.db"]  # fmt: skip


@pytest.mark.parametrize("url", CREDENTIALS)
def test_no_error_contains_credentials_of_a_url(url):
    for open_memory in (Memory, AsyncMemory, MemoryTool, AsyncMemoryTool):
        for location, options in ((url, {}), ("in-process:", {"mounts": {"/memories/a": url}})):
            with pytest.raises(ValueError if options else memory_tool.OpenError) as raised:
                open_memory(location, **options)
            assert "hunter2secret" not in shown(raised.value)


def test_the_program(tmp_path):
    program = [sys.executable, "-m", "memory_tool"]
    store = ["--store", f"sqlite:{tmp_path}/memory.db"]
    created = subprocess.run([*program, "create", *store, "/memories/a", "--text", "tea"], capture_output=True, text=True)
    assert (created.returncode, created.stdout) == (0, "File created successfully at: /memories/a\n")
    missing = subprocess.run([*program, "view", *store, "/memories/b"], capture_output=True, text=True)
    assert missing.returncode == 1
    wrong = subprocess.run([*program, "shred"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "unrecognized subcommand" in wrong.stderr
    version = subprocess.run([*program, "--version"], capture_output=True, text=True)
    assert version.stdout.startswith("memory-tool ")
    assert Memory(store[1]).read_text("/memories/a") == "tea"
