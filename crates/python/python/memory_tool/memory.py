"""`Memory` and `AsyncMemory`: a memory for your program."""

from __future__ import annotations

from copy import copy

from . import _native
from .options import to_native

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import os
    from types import TracebackType
    from typing import Any, Callable, List, Sequence

    from typing_extensions import Self, Unpack

    from .changes import AsyncWatch, Watch
    from .history import AsyncHistory, History
    from .proposals import AsyncProposals, Proposals
    from .options import Location, Options
    from .reports import CopyReport, ExportReport, ImportReport, LintReport, SyncReport, VerifyReport
    from .search import SearchOptions, SearchReport
    from .store import Entry, Usage

_UNCONDITIONAL: Any = object()
"""The default of a condition: `None` can be the result of a failed read."""


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
        self._native = _native.open(location, to_native(options))

    def read_text(self, path: str) -> str:
        """Reads a file as UTF-8 text. Raises `NotFound`, `NotAFile` or `NotText` if that is impossible."""
        return self._native.perform({"files": {"read_text": {"path": path}}})

    def read_bytes(self, path: str) -> bytes:
        """Reads a file. Raises `NotFound` or `NotAFile` if that is impossible."""
        return self._native.perform({"files": {"read": {"path": path}}})

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory. `/memories` always exists."""
        return self._native.perform({"files": {"exists": {"path": path}}})

    def write_text(
        self, path: str, text: str, *, if_text: str = _UNCONDITIONAL, if_absent: bool = False
    ) -> None:
        """Creates a file, or replaces its contents. Raises `Refused` if a policy refuses the text.

        With `if_text`, it replaces only this text, and raises `VersionMismatch` if the file has another one or does not
        exist. With `if_absent`, it raises `AlreadyExists` if the path exists. No concurrent change is lost.
        """
        self._native.perform(_write(path, "text", text, str, if_text, if_absent))

    def write_bytes(
        self, path: str, content: bytes, *, if_bytes: bytes = _UNCONDITIONAL, if_absent: bool = False
    ) -> None:
        """The same as `write_text` for any bytes."""
        self._native.perform(_write(path, "bytes", content, bytes, if_bytes, if_absent))

    def append(self, path: str, content: str | bytes) -> None:
        """Adds text or bytes at the end of a file, and creates it if it does not exist. No concurrent change is lost."""
        self._native.perform({"files": {"append": {"path": path, "content": _content(content, (str, bytes))}}})

    def list(self, directory: str = "/memories") -> List[Entry]:
        """Lists every file under a directory, at any depth, sorted by path."""
        return self._native.perform({"files": {"list": {"directory": directory}}})

    def remove(self, path: str) -> None:
        """Removes a file, or a directory and every file under it. Raises `NotFound` if there is none."""
        self._native.perform({"files": {"remove": {"path": path}}})

    def rename(self, old_path: str, new_path: str) -> None:
        """Moves a file or directory. Raises `AlreadyExists` if `new_path` exists."""
        self._native.perform({"files": {"rename": {"old_path": old_path, "new_path": new_path}}})

    def clear(self) -> None:
        """Removes all files. A history keeps their contents."""
        self._native.perform({"files": {"clear": {}}})

    def forget(self) -> None:
        """Removes all files, the history, the access times and the other records in one step."""
        self._native.perform({"care": {"forget": {}}})

    def expire(self) -> List[str]:
        """Removes the files that have expired, which are already hidden, and returns their paths.

        If most files have expired, the clock may be wrong. They are then removed by a call at least a day, or 1/24 of
        the time of `expire_after`, later.
        """
        return self._native.perform({"care": {"expire": {}}})

    def expire_all(self) -> List[str]:
        """Like `expire`, also if most files have expired. Call it if the clock is known to be right."""
        return self._native.perform({"care": {"expire_all": {}}})

    def usage(self) -> Usage:
        """The number and the total size of all files."""
        return self._native.perform({"care": {"usage": {}}})

    def search(self, pattern: str, **options: Unpack[SearchOptions]) -> SearchReport:
        """Finds words or a regular expression in the names and lines of all files.

        Raises `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
        """
        from .search import to_report, to_request

        return to_report(self._native.perform(to_request(pattern, options)))

    def by(self, actor: str, *, reason: str = "") -> Self:
        """A handle on the same memory whose changes are by this actor, for the history, `watch` and the audit log.
        The history keeps up to 500 characters of the reason.

        Take the name from a trusted source, such as the user of an authenticated request, and never from the model.
        Raises `ValueError` for an empty name, control characters and more than 256 bytes. Close each handle.
        """
        handle = copy(self)
        handle._native = self._native.by(actor, reason)
        return handle

    def history(self) -> History:
        """The history, to see and take back changes. Open the memory with `history=True` to start it."""
        from .history import History  # here, because most programs never need it

        return History(lambda request: self._native.perform({"history": request}))

    def proposals(self) -> Proposals:
        """The changes that wait for a person's consent. Open the memory with `propose=` to make some."""
        from .proposals import Proposals

        return Proposals(lambda request: self._native.perform({"proposals": request}))

    def verify(self) -> VerifyReport:
        """Reads the whole storage, also files that policies hide, and reports damage."""
        from .reports import VerifyReport, to_report

        return to_report(VerifyReport, self._native.perform({"care": {"verify": {}}}))

    def lint(
        self, *, only: Sequence[str] = (), off: Sequence[str] = (), within: Sequence[str] = ()
    ) -> LintReport:
        """Finds text that Claude misreads or does not see, by all rules, or by some of `memory-tool lint`."""
        from .reports import LintReport, to_report

        request = {"only": list(only), "off": list(off), "within": list(within)}
        return to_report(LintReport, self._native.perform({"care": {"lint": request}}))

    def copy_to(
        self, destination: Memory | AsyncMemory, *, overwrite: bool = False, with_history: bool = False
    ) -> CopyReport:
        """Copies all files to another memory. A file with other contents is kept, unless `overwrite` is set.

        With `with_history`, it also copies the history, to a memory without files.

        Raises `TransferError` if the copy stops. Run it again to continue.
        """
        from .reports import CopyReport, to_report

        request = {"transfer": {"copy": {"overwrite": overwrite, "with_history": with_history}}}
        return to_report(CopyReport, self._native.perform(request, destination._native))

    def sync(
        self, other: Memory | AsyncMemory, *, names: Sequence[str] = ("first", "second"), allow_empty: bool = False
    ) -> SyncReport:
        """Makes one memory of this and another one, with the changes of both since they were synchronized.

        If both changed the same lines of a file, the older text is kept beside it as `NAME (conflict DATE SIDE).EXT`.
        `names` are the names of the sides. A memory that has lost all of more than ten files is an error, unless
        `allow_empty` is set.

        Raises `TransferError` if the synchronization stops. Run it again to continue.
        """
        from .reports import SyncReport, to_report

        request = {"transfer": {"sync": {"names": list(names), "allow_empty": allow_empty}}}
        return to_report(SyncReport, self._native.perform(request, other._native))

    def export(
        self, path: str | os.PathLike[str], *, within: Sequence[str] = (), overwrite: bool = False
    ) -> ExportReport:
        """Writes all files, or those within some files and directories, to a directory, or to an archive if the name
        ends in `.tar`, `.tar.gz`, `.tgz` or `.zip`.

        Raises `TransferError` if that fails, or if the target exists and `overwrite` is not set.
        """
        from .reports import ExportReport, to_report

        return to_report(ExportReport, self._native.perform(_export(path, within, overwrite)))

    def import_(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> ImportReport:
        """Writes the files of a directory or of a tar archive, which can be untrusted, to this memory.

        Raises `TransferError` if the source cannot be read.
        """
        from .reports import ImportReport, to_report

        return to_report(ImportReport, self._native.perform({"transfer": {"import": {"path": _path(path), "overwrite": overwrite}}}))

    def scopes(self) -> List[str]:
        """The scopes that have files in the whole storage. `Memory(location, scope=name)` opens one."""
        return self._native.perform({"care": {"scopes": {}}})

    def watch(self) -> Watch:
        """The changes by anyone from now on: `for change in memory.watch()`."""
        from .changes import Watch

        return Watch(self._native.perform({"files": {"watch": {}}}))

    @staticmethod
    def memories(location: str | os.PathLike[str]) -> List[str]:
        """The URLs of the memories in a database, or at and right under a directory or prefix."""
        return _native.memories(location)

    def close(self) -> None:
        """Closes the memory. Calls that run still end; later calls raise `MemoryToolError`."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
        self._native = _native.open(location, to_native(options))

    @classmethod
    async def open(cls, location: Location, **options: Unpack[Options]) -> Self:
        """Opens the memory. If `location` is a store with coroutines, they run on this event loop."""
        memory = cls.__new__(cls)
        memory._native = await _open(location, options)
        return memory

    async def read_text(self, path: str) -> str:
        """Reads a file as UTF-8 text. Raises `NotFound`, `NotAFile` or `NotText` if that is impossible."""
        return await _perform(self._native, {"files": {"read_text": {"path": path}}})

    async def read_bytes(self, path: str) -> bytes:
        """Reads a file. Raises `NotFound` or `NotAFile` if that is impossible."""
        return await _perform(self._native, {"files": {"read": {"path": path}}})

    async def exists(self, path: str) -> bool:
        """Whether there is a file or directory. `/memories` always exists."""
        return await _perform(self._native, {"files": {"exists": {"path": path}}})

    async def write_text(
        self, path: str, text: str, *, if_text: str = _UNCONDITIONAL, if_absent: bool = False
    ) -> None:
        """Creates a file, or replaces its contents. Raises `Refused` if a policy refuses the text.

        With `if_text`, it replaces only this text, and raises `VersionMismatch` if the file has another one or does not
        exist. With `if_absent`, it raises `AlreadyExists` if the path exists. No concurrent change is lost.
        """
        await _perform(self._native, _write(path, "text", text, str, if_text, if_absent))

    async def write_bytes(
        self, path: str, content: bytes, *, if_bytes: bytes = _UNCONDITIONAL, if_absent: bool = False
    ) -> None:
        """The same as `write_text` for any bytes."""
        await _perform(self._native, _write(path, "bytes", content, bytes, if_bytes, if_absent))

    async def append(self, path: str, content: str | bytes) -> None:
        """Adds text or bytes at the end of a file, and creates it if it does not exist. No concurrent change is lost."""
        await _perform(self._native, {"files": {"append": {"path": path, "content": _content(content, (str, bytes))}}})

    async def list(self, directory: str = "/memories") -> List[Entry]:
        """Lists every file under a directory, at any depth, sorted by path."""
        return await _perform(self._native, {"files": {"list": {"directory": directory}}})

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory and every file under it. Raises `NotFound` if there is none."""
        await _perform(self._native, {"files": {"remove": {"path": path}}})

    async def rename(self, old_path: str, new_path: str) -> None:
        """Moves a file or directory. Raises `AlreadyExists` if `new_path` exists."""
        await _perform(self._native, {"files": {"rename": {"old_path": old_path, "new_path": new_path}}})

    async def clear(self) -> None:
        """Removes all files. A history keeps their contents."""
        await _perform(self._native, {"files": {"clear": {}}})

    async def forget(self) -> None:
        """Removes all files, the history, the access times and the other records in one step."""
        await _perform(self._native, {"care": {"forget": {}}})

    async def expire(self) -> List[str]:
        """Removes the files that have expired, which are already hidden, and returns their paths.

        If most files have expired, the clock may be wrong. They are then removed by a call at least a day, or 1/24 of
        the time of `expire_after`, later.
        """
        return await _perform(self._native, {"care": {"expire": {}}})

    async def expire_all(self) -> List[str]:
        """Like `expire`, also if most files have expired. Call it if the clock is known to be right."""
        return await _perform(self._native, {"care": {"expire_all": {}}})

    async def usage(self) -> Usage:
        """The number and the total size of all files."""
        return await _perform(self._native, {"care": {"usage": {}}})

    async def search(self, pattern: str, **options: Unpack[SearchOptions]) -> SearchReport:
        """Finds words or a regular expression in the names and lines of all files.

        Raises `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
        """
        from .search import to_report, to_request

        return to_report(await _perform(self._native, to_request(pattern, options)))

    def by(self, actor: str, *, reason: str = "") -> Self:
        """The same as `Memory.by`."""
        handle = copy(self)
        handle._native = self._native.by(actor, reason)
        return handle

    def history(self) -> AsyncHistory:
        """The history, to see and take back changes. Open the memory with `history=True` to start it."""
        from .history import AsyncHistory

        return AsyncHistory(lambda request: _perform(self._native, {"history": request}))

    def proposals(self) -> AsyncProposals:
        """The changes that wait for a person's consent. Open the memory with `propose=` to make some."""
        from .proposals import AsyncProposals

        return AsyncProposals(lambda request: _perform(self._native, {"proposals": request}))

    async def verify(self) -> VerifyReport:
        """Reads the whole storage, also files that policies hide, and reports damage."""
        from .reports import VerifyReport, to_report

        return to_report(VerifyReport, await _perform(self._native, {"care": {"verify": {}}}))

    async def lint(
        self, *, only: Sequence[str] = (), off: Sequence[str] = (), within: Sequence[str] = ()
    ) -> LintReport:
        """Finds text that Claude misreads or does not see, by all rules, or by some of `memory-tool lint`."""
        from .reports import LintReport, to_report

        request = {"only": list(only), "off": list(off), "within": list(within)}
        return to_report(LintReport, await _perform(self._native, {"care": {"lint": request}}))

    async def copy_to(
        self, destination: Memory | AsyncMemory, *, overwrite: bool = False, with_history: bool = False
    ) -> CopyReport:
        """Copies all files to another memory. A file with other contents is kept, unless `overwrite` is set.

        With `with_history`, it also copies the history, to a memory without files.

        Raises `TransferError` if the copy stops. Run it again to continue.
        """
        from .reports import CopyReport, to_report

        request = {"transfer": {"copy": {"overwrite": overwrite, "with_history": with_history}}}
        return to_report(CopyReport, await _perform(self._native, request, destination._native))

    async def sync(
        self, other: Memory | AsyncMemory, *, names: Sequence[str] = ("first", "second"), allow_empty: bool = False
    ) -> SyncReport:
        """Makes one memory of this and another one, with the changes of both since they were synchronized.

        If both changed the same lines of a file, the older text is kept beside it as `NAME (conflict DATE SIDE).EXT`.
        `names` are the names of the sides. A memory that has lost all of more than ten files is an error, unless
        `allow_empty` is set.

        Raises `TransferError` if the synchronization stops. Run it again to continue.
        """
        from .reports import SyncReport, to_report

        request = {"transfer": {"sync": {"names": list(names), "allow_empty": allow_empty}}}
        return to_report(SyncReport, await _perform(self._native, request, other._native))

    async def export(
        self, path: str | os.PathLike[str], *, within: Sequence[str] = (), overwrite: bool = False
    ) -> ExportReport:
        """Writes all files, or those within some files and directories, to a directory, or to an archive if the name
        ends in `.tar`, `.tar.gz`, `.tgz` or `.zip`.

        Raises `TransferError` if that fails, or if the target exists and `overwrite` is not set.
        """
        from .reports import ExportReport, to_report

        return to_report(ExportReport, await _perform(self._native, _export(path, within, overwrite)))

    async def import_(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> ImportReport:
        """Writes the files of a directory or of a tar archive, which can be untrusted, to this memory.

        Raises `TransferError` if the source cannot be read.
        """
        from .reports import ImportReport, to_report

        return to_report(ImportReport, await _perform(self._native, {"transfer": {"import": {"path": _path(path), "overwrite": overwrite}}}))

    async def scopes(self) -> List[str]:
        """The scopes that have files in the whole storage. `Memory(location, scope=name)` opens one."""
        return await _perform(self._native, {"care": {"scopes": {}}})

    async def watch(self) -> AsyncWatch:
        """The changes by anyone from now on: `async for change in await memory.watch()`."""
        from .changes import AsyncWatch

        return AsyncWatch(await _perform(self._native, {"files": {"watch": {}}}))

    @staticmethod
    async def memories(location: str | os.PathLike[str]) -> List[str]:
        """The URLs of the memories in a database, or at and right under a directory or prefix."""
        return await _wait(lambda loop, future: _native.start_memories(loop, future, location))

    def close(self) -> None:
        """Closes the memory. Calls that run still end; later calls raise `MemoryToolError`."""
        self._native.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _write(path: str, name: str, content: object, kind: type, expected: object, if_absent: bool) -> object:
    """The request of a write. `name` is that of the contents."""
    if expected is not _UNCONDITIONAL and (not isinstance(expected, kind) or if_absent):
        raise TypeError(f"if_{name} must be {kind.__name__}, without if_absent, which creates a file")
    condition = {} if expected is _UNCONDITIONAL else {"if_content": expected}
    return {"files": {"write": {"path": path, "content": _content(content, (kind,)), "if_absent": if_absent, **condition}}}


def _content(content: object, kinds: tuple[type, ...]) -> object:
    if isinstance(content, bytearray) and bytes in kinds:
        return bytes(content)
    if not isinstance(content, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"invalid content: expected {expected}, got {type(content).__name__}")
    return content


def _path(path: str | os.PathLike[str]) -> str:
    from os import fspath

    return fspath(path)


def _export(path: str | os.PathLike[str], within: Sequence[str], overwrite: bool) -> object:
    return {"transfer": {"export": {"path": _path(path), "within": list(within), "overwrite": overwrite}}}


async def _open(location: object, options: Options) -> _native.NativeMemory:
    given = to_native(options)
    return await _wait(lambda loop, future: _native.start_open(loop, future, location, given))


async def _perform(native: _native.NativeMemory, request: object, destination: _native.NativeMemory | None = None) -> Any:
    return await _wait(lambda loop, future: native.start(loop, future, request, destination))


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
