"""The native module. Use the classes of `memory_tool` instead."""

import asyncio
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Callable

from .store import Change, Quota, State

__version__: str

def open(location: object, options: object) -> NativeMemory: ...
def start_open(
    event_loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], location: object, options: object
) -> Call: ...
def memories(url: object) -> list[str]: ...
def start_memories(event_loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], url: object) -> Call: ...

class NativeMemory:
    def by(self, actor: str, reason: str) -> NativeMemory: ...
    def close(self) -> None: ...
    def perform(self, request: object, destination: NativeMemory | None = None) -> Any: ...
    def start(
        self,
        event_loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        request: object,
        destination: NativeMemory | None = None,
    ) -> Call: ...
    def call(self, input: object, queue: Queue | None, is_worded: bool) -> Any: ...
    def start_call(
        self,
        event_loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        input: object,
        queue: Queue | None,
        is_worded: bool,
    ) -> Call: ...

class NativeWatch:
    def next(self) -> list[dict[str, Any]] | None: ...
    def start(self, event_loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> Call: ...
    def close(self) -> None: ...

class Queue:
    def enter(self) -> Place: ...

class Place:
    def wait(self) -> None: ...
    def start(self, event_loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> Call: ...
    def leave(self) -> None: ...

class Call:
    def cancel(self) -> None: ...

class Answer:
    def __call__(self, future: Future[Any]) -> None: ...

class RejectedPath: ...

class ReadOptions:
    """The preconditions of a read."""

    @property
    def preconditions(self) -> list[tuple[str, bytes | None]]:
        """Paths and their required versions. `None` means that the path must not exist."""

    def check(self, state: State) -> None:
        """Raises `AlreadyExists` or `VersionMismatch` if a precondition does not hold."""

class Batch:
    """Changes to apply atomically. No two of them overlap, so their order does not matter."""

    @property
    def changes(self) -> list[Change]:
        """The changes of files and directories."""

    @property
    def preconditions(self) -> list[tuple[str, bytes | None]]:
        """Paths and their required versions. `None` means that the path must not exist."""

    @property
    def quotas(self) -> list[tuple[str, Quota]]:
        """Directories and their limits after the batch."""

    def check(self, state: State) -> None:
        """Checks preconditions, quotas and conflicts with existing files. Raises a `StoreError`.

        It does not check the length of paths: `replace_prefix` does.
        """

def replace_prefix(path: str, old: str, new: str) -> str:
    """The new path of a file when `old` is renamed to `new`. Raises `InvalidPath` if it is too long."""

def parse_command(input: object) -> dict[str, Any] | None: ...
def describe(name: str, arguments: tuple[object, ...]) -> str: ...
def shut_down() -> None: ...
def run_program(arguments: list[str]) -> int: ...
def cases() -> list[dict[str, Any]]: ...
def run_conformance(
    create: Callable[[], Any],
    reopen: Callable[[Any], Any] | None,
    filters: list[str],
    jobs: int | None,
    races: int | None,
    case_timeout: timedelta | None,
) -> tuple[bool, str, dict[str, Any]]: ...
