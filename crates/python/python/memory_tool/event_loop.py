"""Coroutines of stores, and the event loop of those that were not opened on one."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Awaitable

if TYPE_CHECKING:
    from ._native import Answer

_lock = threading.Lock()
_own: asyncio.AbstractEventLoop | None = None


def run_on(event_loop: asyncio.AbstractEventLoop | None, awaitable: Awaitable[object], answer: Answer) -> None:
    """Runs the coroutine of a store, and passes a future with its outcome to `answer`."""
    outcome: Future[object] = Future()
    outcome.add_done_callback(answer)

    async def run() -> None:
        try:
            outcome.set_result(await awaitable)
        except GeneratorExit:
            raise  # the event loop ended
        except BaseException as error:  # the caller raises `KeyboardInterrupt`: here it would end the event loop
            outcome.set_exception(error)

    asyncio.run_coroutine_threadsafe(run(), event_loop or _own_event_loop())


def _own_event_loop() -> asyncio.AbstractEventLoop:
    global _own
    with _lock:
        if _own is None:
            event_loop = asyncio.new_event_loop()
            threading.Thread(target=event_loop.run_forever, name="memory-tool-stores", daemon=True).start()
            _own = event_loop
        return _own


def _forget() -> None:
    """The child of a fork has no thread that runs the event loop."""
    global _lock, _own
    _lock, _own = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
