"""`Memory` and `AsyncMemory`: a memory for your program."""

from __future__ import annotations

from . import _native
from .options import to_native

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Callable, List

    from typing_extensions import Self, Unpack

    from .history import AsyncHistory, History
    from .options import Location, Options
    from .search import SearchOptions, SearchReport
    from .store import Entry, Usage


class Memory:
    """A memory, with the methods for a program. `MemoryTool(memory)` is the tool for Claude.

    The methods release the interpreter's lock while they wait. Ctrl-C interrupts them. Threads can share a memory.
    Open it again after `fork()`.

    ```python
    memory = Memory("sqlite:memory.db?memory=alice", limits=True)
    memory.write_text("/memories/profile.md", "Prefers tea.")
    ```
    """

    _native: _native.NativeMemory

    def __init__(self, location: Location, **options: Unpack[Options]) -> None:
        """Opens the memory, and creates it if it does not exist.

        Raises `OpenError` if that fails, and `ValueError` or `TypeError` for an invalid option.
        """
        self._native = _native.NativeMemory.open(location, to_native(options))

    def read_text(self, path: str) -> str:
        """Reads a file as UTF-8 text. Raises `NotFound`, `NotAFile` or `NotText` if that is impossible."""
        return self._native.perform("read_text", path)

    def write_text(self, path: str, text: str) -> None:
        """Creates a file, or replaces its contents. Raises `Refused` if a policy refuses the text."""
        self._native.perform("write_text", path, text)

    def list(self, directory: str = "/memories") -> List[Entry]:
        """Lists every file under a directory, at any depth, sorted by path."""
        return self._native.perform("list", directory)

    def remove(self, path: str) -> None:
        """Removes a file, or a directory and every file under it. Raises `NotFound` if there is none."""
        self._native.perform("remove", path)

    def rename(self, old_path: str, new_path: str) -> None:
        """Moves a file or directory. Raises `AlreadyExists` if `new_path` exists."""
        self._native.perform("rename", old_path, new_path)

    def clear(self) -> None:
        """Removes all files. A history keeps their contents."""
        self._native.perform("clear")

    def forget(self) -> None:
        """Removes all files, the history, the access times and the other records in one step."""
        self._native.perform("forget")

    def usage(self) -> Usage:
        """The number and the total size of all files."""
        return self._native.perform("usage")

    def search(self, pattern: str, **options: Unpack[SearchOptions]) -> SearchReport:
        """Finds words or a regular expression in the names and lines of all files.

        Raises `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
        """
        from .search import to_report, to_request

        return to_report(self._native.perform("search", to_request(pattern, options)))

    def history(self) -> History:
        """The history, to see and take back changes. Open the memory with `history=True` to start it."""
        from .history import History  # here, because most programs never need it

        return History(lambda request: self._native.perform("history", request))


class AsyncMemory:
    """The same as `Memory`, with coroutines. A cancelled call leaves the state before the call or after it.

    ```python
    memory = await AsyncMemory.open("sqlite:memory.db?memory=alice")
    await memory.write_text("/memories/profile.md", "Prefers tea.")
    ```
    """

    _native: _native.NativeMemory

    def __init__(self, location: Location, **options: Unpack[Options]) -> None:
        """Opens the memory, and blocks the event loop until then. `await AsyncMemory.open(...)` does not."""
        self._native = _native.NativeMemory.open(location, to_native(options))

    @classmethod
    async def open(cls, location: Location, **options: Unpack[Options]) -> Self:
        """Opens the memory. If `location` is a store with coroutines, they run on this event loop."""
        memory = cls.__new__(cls)
        memory._native = await _open(location, options)
        return memory

    async def read_text(self, path: str) -> str:
        """Reads a file as UTF-8 text. Raises `NotFound`, `NotAFile` or `NotText` if that is impossible."""
        return await _perform(self._native, "read_text", path)

    async def write_text(self, path: str, text: str) -> None:
        """Creates a file, or replaces its contents. Raises `Refused` if a policy refuses the text."""
        await _perform(self._native, "write_text", path, text)

    async def list(self, directory: str = "/memories") -> List[Entry]:
        """Lists every file under a directory, at any depth, sorted by path."""
        return await _perform(self._native, "list", directory)

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory and every file under it. Raises `NotFound` if there is none."""
        await _perform(self._native, "remove", path)

    async def rename(self, old_path: str, new_path: str) -> None:
        """Moves a file or directory. Raises `AlreadyExists` if `new_path` exists."""
        await _perform(self._native, "rename", old_path, new_path)

    async def clear(self) -> None:
        """Removes all files. A history keeps their contents."""
        await _perform(self._native, "clear")

    async def forget(self) -> None:
        """Removes all files, the history, the access times and the other records in one step."""
        await _perform(self._native, "forget")

    async def usage(self) -> Usage:
        """The number and the total size of all files."""
        return await _perform(self._native, "usage")

    async def search(self, pattern: str, **options: Unpack[SearchOptions]) -> SearchReport:
        """Finds words or a regular expression in the names and lines of all files.

        Raises `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
        """
        from .search import to_report, to_request

        return to_report(await _perform(self._native, "search", to_request(pattern, options)))

    def history(self) -> AsyncHistory:
        """The history, to see and take back changes. Open the memory with `history=True` to start it."""
        from .history import AsyncHistory

        return AsyncHistory(lambda request: _perform(self._native, "history", request))


async def _open(location: object, options: Options) -> _native.NativeMemory:
    given = to_native(options)
    return await _wait(lambda loop, future: _native.NativeMemory.start_open(loop, future, location, given))


async def _perform(native: _native.NativeMemory, name: str, *arguments: object) -> Any:
    return await _wait(lambda loop, future: native.start(loop, future, name, *arguments))


async def _wait(start: Callable[[asyncio.AbstractEventLoop, asyncio.Future[Any]], _native.Call]) -> Any:
    from asyncio import get_running_loop  # here, because its import takes a third of the time to the first call

    event_loop = get_running_loop()
    future = event_loop.create_future()
    call = start(event_loop, future)
    try:
        return await future
    finally:
        call.cancel()  # has no effect after the end of the call


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    """Runs on the event loop when a call has ended."""
    if future.done():
        return  # it was cancelled
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
