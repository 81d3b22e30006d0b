"""Memories: operations, options and errors."""

import asyncio
import base64
import datetime
import os
import pickle
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import pytest

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, Options, ToolError, Usage


def test_the_methods(url_of_any_kind):
    url = url_of_any_kind
    memory = Memory(url)
    memory.write_text("/memories/a.txt", "é\r\n")
    assert memory.read_text("/memories/a.txt") == "é\r\n"
    memory.rename("/memories/a.txt", "/memories/b/c.txt")
    [entry] = memory.list()
    assert (entry.path, entry.size, entry.damaged) == ("/memories/b/c.txt", 4, False)
    assert memory.list("/memories/none") == []
    assert memory.usage() == Usage(files=1, bytes=4, depth=2)
    assert Memory(url).read_text("/memories/b/c.txt") == "é\r\n"
    memory.remove("/memories/b")
    memory.write_text("/memories/a.txt", "a")
    memory.clear()
    assert memory.usage() == Usage(0, 0, 0)


def test_entries_have_times(disk_url):
    memory = Memory(disk_url)
    memory.write_text("/memories/a", "tea")
    [entry] = memory.list()
    age = datetime.datetime.now(datetime.timezone.utc) - entry.modified
    assert abs(age) < datetime.timedelta(minutes=1)


def test_the_methods_as_coroutines(url):
    async def run():
        memory = await AsyncMemory.open(url)
        await memory.write_text("/memories/a.txt", "tea")
        await memory.rename("/memories/a.txt", "/memories/b.txt")
        assert await memory.read_text("/memories/b.txt") == "tea"
        assert [entry.path for entry in await memory.list()] == ["/memories/b.txt"]
        assert await memory.usage() == Usage(1, 3, 1)
        with pytest.raises(memory_tool.NotFound):
            await memory.remove("/memories/a.txt")
        await memory.clear()
        assert await memory.list() == []
        await asyncio.gather(*(memory.write_text(f"/memories/{number}", "tea") for number in range(50)))
        assert (await memory.usage()).files == 50

    asyncio.run(run())


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda memory: memory.read_text("/memories/none"), "NotFound", "/memories/none does not exist"),
        (lambda memory: memory.read_text("/memories/d"), "NotAFile", "/memories/d is a directory, not a file"),
        (lambda memory: memory.write_text("/memories/a/b", ""), "NotADirectory", "/memories/a is a file, not a directory"),
        (lambda memory: memory.write_text("/memories/d", ""), "AlreadyExists", "/memories/d already exists"),
        (lambda memory: memory.rename("/memories/a", "/memories/d"), "AlreadyExists", "/memories/d already exists"),
        (lambda memory: memory.read_text("/etc"), "InvalidPath", "Path must start with /memories, got: /etc"),
    ],
)  # fmt: skip
def test_errors_have_a_class_and_a_path(call, error, text):
    memory = Memory("in-process:")
    memory.write_text("/memories/a", "tea")
    memory.write_text("/memories/d/e", "tea")
    with pytest.raises(getattr(memory_tool, error)) as raised:
        call(memory)
    assert isinstance(raised.value, memory_tool.StoreError)
    assert str(raised.value) == text
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy)) == (type(raised.value), text)


def test_an_open_error_has_the_cause_of_the_storage(tmp_path):
    with pytest.raises(memory_tool.OpenError) as raised:
        Memory(str(tmp_path / "none"), must_exist=True)
    assert raised.value.kind == "not_found"
    assert str(raised.value) == f"there is no memory store at file://{tmp_path}/none"
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    with pytest.raises(memory_tool.OpenError, match="at foo:bar"):
        Memory("foo:bar")
    with pytest.raises(memory_tool.OpenError):
        asyncio.run(AsyncMemory.open("foo:bar"))


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


def test_numbers_are_those_of_json():
    tool = MemoryTool("in-process:")
    tool.memory.write_text("/memories/a", "1\n2\n3")
    reply = tool.call({"command": "view", "path": "/memories/a", "view_range": (2.0, 10**30)})
    assert reply == "Here's the content of /memories/a with line numbers:\n     2\t2\n     3\t3"
    with pytest.raises(ToolError, match=r"\[true, -1\]"):
        tool.call({"command": "view", "path": "/memories/a", "view_range": [True, -1]})


def test_scopes_share_a_store_and_not_their_files(url):
    alice, bob = Memory(url, scope="alice"), Memory(url, scope="bob")
    alice.write_text("/memories/a", "tea")
    assert bob.list() == []
    assert [entry.path for entry in Memory(url).list()] == ["/memories/scope-alice/a"]


def test_a_read_only_memory_refuses_changes(url):
    Memory(url).write_text("/memories/a", "tea")
    memory = Memory(url, read_only=True)
    with pytest.raises(memory_tool.Refused) as raised:
        memory.write_text("/memories/b", "tea")
    assert (raised.value.path, raised.value.policy) == ("/memories/b", "read-only")
    with pytest.raises(ToolError, match="^Error: .*read-only"):
        MemoryTool(memory).call({"command": "delete", "path": "/memories/a"})


def test_limits():
    memory = Memory("in-process:", limits=True, max_files=1, max_bytes=10)
    memory.write_text("/memories/a", "tea")
    for path, text in [("/memories/b", "tea"), ("/memories/a", "x" * 11)]:
        with pytest.raises((memory_tool.Refused, memory_tool.OverQuota)):
            memory.write_text(path, text)


def test_mounts(tmp_path):
    team = Memory("in-process:")
    team.write_text("/memories/plan", "tea at four")
    Memory(str(tmp_path / "docs")).write_text("/memories/page", "docs")
    memory = Memory(
        "in-process:", mounts={"/memories/team": team}, read_only_mounts=[("/memories/docs", tmp_path / "docs")]
    )
    assert memory.read_text("/memories/team/plan") == "tea at four"
    memory.write_text("/memories/team/new", "milk")
    assert team.read_text("/memories/new") == "milk"
    with pytest.raises(memory_tool.Refused):
        memory.write_text("/memories/docs/page", "changed")


def test_expiry(url):
    memory = Memory(url, expire_after=datetime.timedelta(days=90), pins=["/memories/keep"])
    memory.write_text("/memories/keep", "tea")
    assert Memory(url, expire_after=7.5).read_text("/memories/keep") == "tea"


def test_screening():
    secret = "postgres://app:t7Kq-9vLz2@db.internal/app"
    with pytest.raises(memory_tool.Refused) as raised:
        Memory("in-process:", screen="refuse").write_text("/memories/a", secret)
    assert raised.value.policy == "screening"
    memory = Memory("in-process:", screen="redact", screen_also=["iban"])
    memory.write_text("/memories/a", secret + " DE89370400440532013000")
    assert "t7Kq" not in memory.read_text("/memories/a") and "DE89" not in memory.read_text("/memories/a")


def test_the_audit_log_records_changes(tmp_path):
    tool = MemoryTool("in-process:", audit_log=tmp_path / "audit", actor="alice", audit_views=True, audit_sync=True)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    log = (tmp_path / "audit").read_text()
    assert '"alice"' in log and "/memories/a" in log


def test_encryption(url, tmp_path):
    key, file = bytes(range(32)), tmp_path / "key"
    memory = Memory(url, key=key, padding="padme", label="alice")
    memory.write_text("/memories/a", "tea")
    with pytest.raises(memory_tool.OpenError) as raised:
        Memory(url)
    assert "encrypted" in str(raised.value.__cause__)
    file.write_text(key.hex())
    file.chmod(0o600)
    assert Memory(url, key_file=file, label="alice").read_text("/memories/a") == "tea"
    with pytest.raises(memory_tool.OpenError):
        Memory(url, key=key, label="bob")
    with pytest.raises(memory_tool.OpenError, match="cannot use the key"):
        Memory(url, key_file=tmp_path / "none")


def test_keys_do_not_apply_to_mounted_memories(tmp_path):
    team, url = Memory("in-process:"), f"sqlite:{tmp_path / 'docs.db'}"
    memory = Memory("in-process:", key=bytes(32), mounts={"/memories/team": team, "/memories/docs": url})
    memory.write_text("/memories/team/a", "tea")
    memory.write_text("/memories/docs/a", "tea")
    assert team.read_text("/memories/a") == "tea"
    with pytest.raises(memory_tool.OpenError):
        Memory(url)  # they apply to paths and URLs


def test_a_dry_run_changes_nothing(tmp_path):
    memory = Memory(tmp_path / "memory", dry_run=True)
    memory.write_text("/memories/a", "tea")
    assert memory.read_text("/memories/a") == "tea" and not (tmp_path / "memory").exists()


def test_create_overwrites_and_the_limit_of_views():
    tool = MemoryTool("in-process:", create_overwrites=True, max_view_characters=20)
    for text in ("tea", "milk\n" * 10):
        tool.call({"command": "create", "path": "/memories/a", "file_text": text})
    assert "view_range" in tool.call({"command": "view", "path": "/memories/a"})
    tool = MemoryTool(tool.memory, max_view_characters=None)
    assert "view_range" not in tool.call({"command": "view", "path": "/memories/a"})


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"readonly": True}, TypeError, "unknown option readonly"),
        ({"max_files": "many"}, TypeError, "invalid max_files"),
        ({"pins": "/memories/a", "expire_after": 1}, TypeError, "invalid pins"),
        ({"pins": ["/a"], "expire_after": 1}, ValueError, "invalid pins: Path must start with /memories"),
        ({"pins": ["/memories/a"]}, ValueError, "pins requires expire_after"),
        ({"expire_after": -1}, ValueError, "invalid expire_after"),
        ({"screen": "hide"}, ValueError, "invalid screen: unknown variant `hide`, expected `refuse` or `redact`"),
        ({"screen": "refuse", "screen_also": ["mood"]}, ValueError, "invalid screen_also: expected one of personal, "),
        ({"audit_log": "log"}, ValueError, "audit_log requires actor"),
        ({"scope": ""}, ValueError, "invalid scope"),
        ({"key": b"short"}, ValueError, "invalid key: expected 32 bytes, got 5"),
        ({"key": bytes(32), "key_env": "KEY"}, ValueError, "set only one of"),
        ({"label": "alice"}, ValueError, "requires a key"),
        ({"log": "all"}, ValueError, "invalid log"),
    ],
)
def test_wrong_options_are_refused(options, error, text):
    for open_memory in (Memory, AsyncMemory, MemoryTool, AsyncMemoryTool):
        with pytest.raises(error, match=text):
            open_memory("in-process:", **options)


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
    suite = [*program, "conformance", "--store", str(tmp_path / "new"), "--filter", "restarts."]
    tested = subprocess.run(suite, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert Memory(store[1]).read_text("/memories/a") == "tea"
