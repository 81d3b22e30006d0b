"""The keyword arguments of memories and tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Literal, Mapping, NamedTuple, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from typing import TypeAlias

    from .changes import MemoryChange
    from .memory import AsyncMemory, Memory
    from .store import Store

Location: TypeAlias = "Union[str, os.PathLike[str], Store, Memory, AsyncMemory]"
"""A path, a URL, your own store, or an open memory.

| path or URL | storage |
|---|---|
| `memory`, `file:///srv/memory` | plain files in a local directory |
| `sqlite:memory.db?memory=alice` | a memory in a SQLite database |
| `postgres://user@host/database?memory=alice` | a memory in a PostgreSQL database |
| `s3://bucket/prefix`, `gs://...`, `az://...` | a prefix in a bucket |
| `in-process:` | a temporary memory in this process |
"""


class Options(TypedDict, total=False):
    """The options of a memory. They have the names of the options of the program `memory-tool`."""

    must_exist: bool
    """Open the memory only if it exists. Default: create it."""
    timeout: timedelta | float
    """How long an operation waits for other processes, for requests and for a `Store`, in seconds. Default: 30."""
    gc_every: timedelta | float
    """Collect the garbage of a bucket this often, in seconds. Default: never."""
    dry_run: bool
    """Simulate changes, without writing anything."""
    create_overwrites: bool
    """Whether `create` replaces a file. Default: `create` fails if the file exists."""
    max_view_characters: int | None
    """The most characters that `view` returns. Default: 16,000. `None` is no limit."""

    scope: str
    """Work only in the part of the storage that belongs to this tenant. Take the name from a trusted source."""
    read_only: bool
    """Refuse every change."""
    mounts: Mapping[str, Location] | Sequence[tuple[str, Location]]
    """Other memories, by their paths under `/memories`. The keys apply to those that are paths and URLs."""
    read_only_mounts: Mapping[str, Location] | Sequence[tuple[str, Location]]
    """Other memories that can only be read."""

    limits: bool
    """Limit the memory to sizes that suit an agent. The four options below replace one limit each."""
    max_file_bytes: int
    """The largest file in bytes."""
    max_files: int
    """The most files."""
    max_bytes: int
    """The most bytes of all files together."""
    max_depth: int
    """The most levels of directories and files."""

    history: bool
    """Keep a history of all changes. Later openings of the memory continue it without this option."""
    history_age: timedelta | float
    """Start a history too, and remove its entries after this time, 64 at once."""

    on_change: Callable[[MemoryChange], object]
    """Called soon after each change through this memory, on the event loop of `AsyncMemory.open`, or else on another
    thread. `Memory.watch` reports changes by other programs too."""

    expire_after: timedelta | float
    """Hide files that are not read or written for this time. `Memory.expire` removes them."""
    pins: Sequence[str]
    """Files and directories that never expire."""

    screen: Literal["refuse", "redact"]
    """Refuse texts with passwords, tokens and keys, or redact those."""
    screen_also: Sequence[str]
    """More kinds of data to screen, such as `"iban"`, or `"personal"` for all personal data."""

    propose: str
    """The name of the proposal where all changes wait for a person's consent. Mounted memories are read-only."""
    propose_except: Sequence[str]
    """Files and directories whose changes count at once."""
    propose_over: int
    """The number of lines of a file that can change at once."""

    audit_log: str | os.PathLike[str]
    """A file that records each change before and after it is made. Requires `actor`."""
    actor: str
    """The name of the user or agent in the audit log and the history."""
    audit_views: bool
    """Record views too."""
    audit_sync: bool
    """Wait until each audit record is on the disk."""

    log: Literal["commands", "operations"]
    """Log commands, or operations of the storage too, as JSON lines to standard error."""
    log_paths: bool
    """Log paths too."""

    key: bytes
    """Encrypt the memory with these 32 bytes."""
    key_file: str | os.PathLike[str]
    """Encrypt with the key in this file."""
    key_env: str
    """Encrypt with the key in this environment variable."""
    passphrase_file: str | os.PathLike[str]
    """Encrypt with the passphrase in this file."""
    old_keys: Sequence[bytes]
    """Decrypt with these keys too."""
    old_key_files: Sequence[str | os.PathLike[str]]
    """Decrypt with the keys in these files too."""
    old_key_envs: Sequence[str]
    """Decrypt with the keys in these environment variables too."""
    old_passphrase_files: Sequence[str | os.PathLike[str]]
    """Decrypt with the passphrases in these files too."""
    padding: Literal["padme"] | int
    """Hide the sizes of files: at most 12 % larger, or multiples of this number of bytes."""
    label: str
    """The label of the encrypted memory. A memory with another label is refused."""
    old_labels: Sequence[str]
    """Accept these labels too."""
    was_unlabeled: bool
    """Accept a memory without a label too."""


class Given(NamedTuple):
    """Options for the native module."""

    data: list[tuple[str, str]]
    """The names and the values in JSON of options that are data."""
    key: bytes | None
    old_keys: list[bytes]
    mounts: list[tuple[str, Location, bool]]
    """The path, the location, and whether it can only be read."""
    on_change: Callable[[MemoryChange], object] | None


def to_native(options: Options) -> Given:
    """Converts options. Raises `TypeError` or `ValueError` if one cannot be converted."""
    data = []
    given = Given(data, None, [], [], None)
    for name, value in options.items():
        if value is None and name != "max_view_characters":
            continue
        if name == "key":
            given = given._replace(key=_key(name, value))
        elif name == "on_change":
            if not callable(value):
                raise TypeError(f"invalid {name}: expected a function, got {type(value).__name__}")
            given = given._replace(on_change=value)
        elif name == "old_keys":
            given.old_keys.extend(_key(name, key) for key in _items(name, value))
        elif name in ("mounts", "read_only_mounts"):
            pairs = value.items() if isinstance(value, Mapping) else _items(name, value)
            given.mounts.extend((*_mount(name, pair), name == "read_only_mounts") for pair in pairs)
        else:
            data.append((name, _to_json(name, value)))
    return given


def _to_json(name: str, value: object) -> str:
    try:
        return json.dumps(value, default=_to_data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise type(error)(f"invalid {name}: {error}") from None


def _to_data(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Mapping)):
        return list(value)
    raise TypeError(f"unexpected {type(value).__name__}")


def _key(name: str, value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"invalid {name}: expected 32 bytes, got {type(value).__name__}")
    return bytes(value)


def _items(name: str, value: object) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise TypeError(f"invalid {name}: expected a list, got {type(value).__name__}")
    return list(value)


def _mount(name: str, pair: object) -> tuple[str, Location]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise TypeError(f"invalid {name}: expected memories by their paths, got {type(pair).__name__}")
    try:
        pair[0].encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"invalid {name}: {error}") from None
    return pair[0], pair[1]
