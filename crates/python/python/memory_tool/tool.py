"""`MemoryTool` and `AsyncMemoryTool`: the tool for the runners of the SDK `anthropic`."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional

from . import _native
from .errors import _log
from .memory import AsyncMemory, Memory, _wait

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool as _Tool
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool as _AsyncTool
    from anthropic.lib.tools import ToolError as ToolError
    from anthropic.lib.tools._beta_functions import BetaFunctionToolResultType as _Result
    from anthropic.types.beta import BetaCacheControlEphemeralParam
    from typing_extensions import Self, Unpack

    from .options import Location, Options

    def _command(fields: Mapping[str, Any]) -> Any:
        """The command as the SDK passes it to a method."""

else:
    try:
        from anthropic.lib.tools import (
            BetaAbstractMemoryTool as _Tool,
        )
        from anthropic.lib.tools import (
            BetaAsyncAbstractMemoryTool as _AsyncTool,
        )
        from anthropic.lib.tools import (
            ToolError,
        )
        from anthropic.types import beta as _beta

        def _command(fields):
            name = fields["command"].title().replace("_", "")
            return getattr(_beta, f"BetaMemoryTool20250818{name}Command").construct(**fields)

    except ImportError:

        class ToolError(Exception):
            """An error that Claude reads."""

            def __init__(self, content):
                super().__init__(content)
                self.content = content

        class _Tool:
            name = "memory"

            def __init__(self, *, cache_control=None):
                self._cache_control = cache_control

            def to_dict(self):
                definition = {"type": "memory_20250818", "name": self.name}
                if self._cache_control is not None:
                    definition["cache_control"] = self._cache_control
                return definition

        _AsyncTool = _Tool

        class _command:
            def __init__(self, fields):
                self.__dict__.update(fields)

            def to_dict(self):
                return vars(self)


_COMMANDS = frozenset(("view", "create", "str_replace", "insert", "delete", "rename"))

@dataclass(frozen=True)
class ToolOutcome:
    """The reply or the error of a command, for a function that words it."""

    kind: str
    """The reply: `"directory"`, `"file"`, `"image"`, `"created"`, `"replaced"`, `"inserted"`, `"deleted"`, `"renamed"`,
    `"cleared"`. Or the error, such as `"not_found"`, `"already_exists"`, `"no_match"`, `"multiple_matches"` or
    `"refused"`."""
    is_error: bool
    text: str
    """The text of the contract."""
    details: Mapping[str, Any]
    """What the text is about, such as `path`, `old_path`, `command`, `snippet`, `old_str`, `lines` or `reason`."""

    @property
    def path(self) -> str:
        """The path; the new one of a rename. It is empty if there is none."""
        return self.details.get("path", "")


Wording = Callable[[ToolOutcome], Optional[str]]
"""Returns the text that Claude reads, or `None` for the text of the contract."""

_places: ContextVar[tuple[_native.Place, ...]] = ContextVar("memory_tool_places", default=())
"""The places in queues of the overridden methods that this code runs in."""


class MemoryTool(_Tool):
    """The memory tool for `client.beta.messages.tool_runner(tools=[tool], ...)`.

    It is a `BetaAbstractMemoryTool` if `anthropic` is installed, and works without it. Errors are `ToolError`s.

    ```python
    tool = MemoryTool("sqlite:memory.db?memory=alice", limits=True)
    ```

    Commands of several threads take effect in the order in which they are called.

    A subclass can override the method of a command, such as `create`. `call` and `execute` then use it, and pass it
    only commands that are valid. It runs when the turn of its command comes, and so do the commands that it calls, such
    as `super().create(command)`.
    """

    memory: Memory
    """The same memory, for your program."""

    _running: _native.Place | None = None
    """The place of the overridden method that runs, and so has the queue for itself."""

    def __init__(
        self,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        wording: Wording | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens the memory, as `Memory` does. `location` can also be a `Memory`. `wording` words replies and errors."""
        super().__init__(cache_control=cache_control)
        self.memory = location if isinstance(location, Memory) and not options else Memory(location, **options)
        self._queue = _native.Queue()
        self._wording = wording

    def call(self, input: object) -> _Result:
        """Runs the `input` of a `tool_use` block. Returns text, or content blocks for an image."""
        method = _overridden(self, "execute") or _override_of(self, input)
        return self._run(input) if method is None else self._run_override(method, input)

    def execute(self, command: Any) -> _Result:
        """Runs a command of the SDK."""
        method = _override_of(self, command)
        return self._run(command) if method is None else self._run_override(method, command)

    def _run(self, command: Any) -> _Result:
        with _worded_errors(self._wording):
            is_worded = self._wording is not None
            reply = self.memory._native.call(command, _queue_for(self, command), is_worded)
        return _worded(self._wording, reply)

    view = create = str_replace = insert = delete = rename = _run

    def _run_override(self, method: Callable[[Any], _Result], input: object) -> _Result:
        command = _parse(input)
        if command is None:
            return self._run(input)  # raises the error
        if _is_inside(self):
            return method(command)
        place, outer = self._queue.enter(), _places.get()
        try:
            place.wait()
            self._running = place
            _places.set((*outer, place))
            return method(command)
        finally:
            _places.set(outer)
            _leave(self, place)

    def clear_all_memory(self) -> _Result:
        """Removes all files."""
        self.memory.clear()
        return _worded(self._wording, _CLEARED if self._wording else _CLEARED[0])


class AsyncMemoryTool(_AsyncTool):
    """The same as `MemoryTool` for `AsyncAnthropic`: a `BetaAsyncAbstractMemoryTool` with coroutines.

    ```python
    tool = await AsyncMemoryTool.open("s3://bucket/prefix")
    ```

    Concurrent calls, such as those of `asyncio.gather`, take effect in the order in which they start.
    """

    memory: AsyncMemory
    """The same memory, for your program."""

    _running: _native.Place | None = None

    def __init__(
        self,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        wording: Wording | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens the memory, and blocks the event loop until then. `await AsyncMemoryTool.open(...)` does not."""
        super().__init__(cache_control=cache_control)
        self.memory = (
            location if isinstance(location, AsyncMemory) and not options else AsyncMemory(location, **options)
        )
        self._queue = _native.Queue()
        self._wording = wording

    @classmethod
    async def open(
        cls,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        wording: Wording | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Opens the memory. If `location` is a store with coroutines, they run on this event loop."""
        return cls(await AsyncMemory.open(location, **options), cache_control=cache_control, wording=wording)

    async def call(self, input: object) -> _Result:
        """Runs the `input` of a `tool_use` block. Returns text, or content blocks for an image."""
        method = _overridden(self, "execute") or _override_of(self, input)
        return await (self._run(input) if method is None else self._run_override(method, input))

    async def execute(self, command: Any) -> _Result:
        """Runs a command of the SDK."""
        method = _override_of(self, command)
        return await (self._run(command) if method is None else self._run_override(method, command))

    async def _run(self, command: Any) -> _Result:
        with _worded_errors(self._wording):
            is_worded = self._wording is not None
            reply = await _wait(
                lambda loop, future: self.memory._native.start_call(
                    loop, future, command, _queue_for(self, command), is_worded
                )
            )
        return _worded(self._wording, reply)

    view = create = str_replace = insert = delete = rename = _run

    async def _run_override(self, method: Callable[[Any], Any], input: object) -> _Result:
        command = _parse(input)
        if command is None:
            return await self._run(input)  # raises the error
        if _is_inside(self):
            return await method(command)
        place, outer = self._queue.enter(), _places.get()
        try:
            await _wait(place.start)
            self._running = place
            _places.set((*outer, place))
            return await method(command)
        finally:
            _places.set(outer)
            _leave(self, place)

    async def clear_all_memory(self) -> _Result:
        """Removes all files."""
        await self.memory.clear()
        return _worded(self._wording, _CLEARED if self._wording else _CLEARED[0])


_CLEARED = (
    "All memory cleared",
    {"kind": "cleared", "is_error": False, "text": "All memory cleared", "details": {}},
)


def _text(wording: Wording, parts: dict[str, Any]) -> str | None:
    """The text of the hook. If the hook raises an exception, the text of the contract stays."""
    try:
        return wording(ToolOutcome(**parts))
    except Exception as error:
        _log("the function for the wording failed", error)
        return None


def _worded(wording: Wording | None, reply: Any) -> Any:
    """The reply, in the words of the hook if there is one. Then the parts come with the reply."""
    if wording is None:
        return reply
    content, parts = reply
    text = _text(wording, parts)
    return content if text is None else text


@contextmanager
def _worded_errors(wording: Wording | None) -> Iterator[None]:
    try:
        yield
    except ToolError as error:
        parts = getattr(error, "_parts", None)
        text = _text(wording, parts) if wording is not None and parts is not None else None
        if text is None:
            raise
        raise ToolError(text) from error.__cause__


_BASE = frozenset((MemoryTool.execute, MemoryTool._run, AsyncMemoryTool.execute, AsyncMemoryTool._run))


def _overridden(tool: MemoryTool | AsyncMemoryTool, name: str) -> Callable[[Any], Any] | None:
    """The method if it is not the one of this module."""
    method = getattr(tool, name)
    return None if getattr(method, "__func__", None) in _BASE else method


def _override_of(tool: MemoryTool | AsyncMemoryTool, command: object) -> Callable[[Any], Any] | None:
    """The overridden method that runs a command."""
    name = command.get("command") if isinstance(command, dict) else getattr(command, "command", None)
    return _overridden(tool, name) if isinstance(name, str) and name in _COMMANDS else None


def _queue_for(tool: MemoryTool | AsyncMemoryTool, command: object) -> _native.Queue | None:
    """The queue of a command, unless an overridden method calls it, which would wait for itself."""
    # Only an overridden method calls the method that it overrides. It can do so from another thread.
    is_super = tool._running is not None and bool(_overridden(tool, "execute") or _override_of(tool, command))
    return None if is_super or _is_inside(tool) else tool._queue


def _is_inside(tool: MemoryTool | AsyncMemoryTool) -> bool:
    return tool._running is not None and tool._running in _places.get()


def _leave(tool: MemoryTool | AsyncMemoryTool, place: _native.Place) -> None:
    if tool._running is place:
        tool._running = None
    place.leave()


def _parse(input: object) -> Any:
    """The command for an overridden method, or `None` if it is invalid."""
    fields = _native.parse_command(input)
    return _command(fields) if fields is not None and isinstance(input, dict) else fields and input
