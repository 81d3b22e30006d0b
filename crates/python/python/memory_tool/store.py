"""`Store`: the base class of your own storage, and the values of its methods.

A path is a `str` such as `/memories/a.txt`, already checked. A version is `bytes` that you choose: equal versions of a
path must mean equal contents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Awaitable, Iterable, Literal, Optional, Protocol, Union

from ._native import Batch, ReadOptions, replace_prefix

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "Batch",
    "Change",
    "Entry",
    "File",
    "Quota",
    "ReadOptions",
    "Remove",
    "Rename",
    "State",
    "Store",
    "Usage",
    "Write",
    "is_under",
    "replace_prefix",
]


@dataclass(frozen=True)
class File:
    """The contents and the version of a file."""

    content: bytes
    version: bytes


@dataclass(frozen=True)
class Entry:
    """A file in a listing. Memories in a bucket have no times."""

    path: str
    size: int
    created: Optional[datetime] = None
    modified: Optional[datetime] = None
    damaged: bool = False


@dataclass(frozen=True)
class Usage:
    """The number of files, their total size in bytes, and the number of names in the longest path."""

    files: int
    bytes: int
    depth: int


@dataclass(frozen=True)
class Quota:
    """Limits of a directory. `None` is no limit."""

    files: Optional[int] = None
    bytes: Optional[int] = None
    file_bytes: Optional[int] = None
    depth: Optional[int] = None


@dataclass(frozen=True)
class Write:
    """Create the file, or replace its contents."""

    path: str
    content: bytes


@dataclass(frozen=True)
class Remove:
    """Remove the file, or the directory and every file under it."""

    path: str


@dataclass(frozen=True)
class Rename:
    """Move the file, or the directory and every file under it."""

    old_path: str
    new_path: str


Change = Union[Write, Remove, Rename]


class State(Protocol):
    """The state of a store, for `Batch.check` and `ReadOptions.check`. It must not change during the check."""

    def stat(self, path: str) -> bytes | Literal["directory"] | None:
        """The version of the file, `"directory"`, or `None` if the path does not exist. A root is a directory."""

    def usage(self, path: str) -> Usage:
        """The usage of the file, or of all files under the directory."""


class Store:
    """Your own storage: implement two methods, plain or `async`. Paths are under `/memories`, or under
    `/records` for data of policies.

    Plain methods run on threads, several at a time. Coroutines run on the event loop that opened the memory with
    `AsyncMemory.open`, or on one in a thread of its own. A cancelled call does not cancel them, and neither does one that
    exceeds the timeout.

    Raise `StoreFailure` to state the kind of a failure. Every other exception is a failure too: one of `apply` means
    that the change may have been made. The call raises `KeyboardInterrupt` and `SystemExit`
    unchanged.
    """

    def read(
        self, path: str, options: ReadOptions
    ) -> File | Iterable[Entry] | None | Awaitable[File | Iterable[Entry] | None]:
        """Reads a path: a `File`, an `Entry` for every file under a directory, or `None`.

        A root is always a directory. First call `options.check(state)`, in the same transaction.
        """
        raise NotImplementedError

    def apply(self, batch: Batch) -> None | Awaitable[None]:
        """Applies a batch atomically, and returns when it is durable.

        First call `batch.check(state)`, in the same transaction. It raises the error of a batch that does not fit.
        """
        raise NotImplementedError


def is_under(path: str, directory: str) -> bool:
    """Whether a path is below a directory."""
    return path.startswith(directory + "/")
