"""`Watch` and `AsyncWatch`: the changes of a memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Self

    from ._native import NativeWatch

__all__ = ["AsyncWatch", "MemoryChange", "Watch"]


@dataclass(frozen=True)
class MemoryChange:
    """A change of a memory, without the contents."""

    operation: str
    """`"write"` for a file that was created or replaced, `"edit"`, `"remove"` or `"rename"`."""
    path: str
    """The file or directory; the new path of a rename. Removing `/memories` removes all files."""
    old_path: Optional[str] = None
    """The old path of a rename."""
    size: Optional[int] = None
    """The new size of a written or edited file in bytes."""
    actor: Optional[str] = None
    """The name of the user or agent, if it is known."""


class Watch:
    """The changes of a memory by anyone, from `Memory.watch`. The loop waits for the next change, until `close`.

    Changes by other programs are found within a few seconds. A change may be reported twice. For a loop that lags far
    behind, a `"write"` of `/memories` stands for all changes that it missed.
    """

    def __init__(self, native: NativeWatch) -> None:
        self._native = native
        self._changes: list[MemoryChange] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MemoryChange:
        while not self._changes:
            found = self._native.next()
            if found is None:
                raise StopIteration
            self._changes.extend(MemoryChange(**change) for change in found)
        return self._changes.pop(0)

    def close(self) -> None:
        """Ends the watch, also in a loop of another thread."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncWatch:
    """The same as `Watch` for `async for`, from `AsyncMemory.watch`. A cancelled wait loses no change."""

    def __init__(self, native: NativeWatch) -> None:
        self._native = native
        self._changes: list[MemoryChange] = []
        self._waiting: Optional[asyncio.Future[Any]] = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MemoryChange:
        from asyncio import get_running_loop, shield

        while not self._changes:
            if self._waiting is None:
                event_loop = get_running_loop()
                self._waiting = event_loop.create_future()
                self._native.start(event_loop, self._waiting)
            waiting = self._waiting
            found = await shield(waiting)  # a cancellation leaves it to the next call
            if found is None:
                raise StopAsyncIteration
            if waiting is self._waiting:  # otherwise another task has taken them
                self._waiting = None
                self._changes.extend(MemoryChange(**change) for change in found)
        return self._changes.pop(0)

    def close(self) -> None:
        """Ends the watch."""
        self._native.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


OnChange = Callable[[MemoryChange], object]


def _report(function: OnChange, event_loop: Optional[asyncio.AbstractEventLoop], change: dict[str, Any]) -> None:
    """Calls the function of `on_change`. Its exceptions are logged, because no command caused them."""

    def call() -> None:
        try:
            function(MemoryChange(**change))
        except Exception as error:
            from .errors import _log

            _log("the function for changes failed", error)

    if event_loop is None:
        call()
    elif not event_loop.is_closed():
        event_loop.call_soon_threadsafe(call)
