"""`MemoryTool` and `AsyncMemoryTool`: the tool for the runners of the SDK `anthropic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .memory import AsyncMemory, Memory, _perform

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool as _Tool
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool as _AsyncTool
    from anthropic.lib.tools import ToolError as ToolError
    from anthropic.lib.tools._beta_functions import BetaFunctionToolResultType as _Result
    from anthropic.types.beta import BetaCacheControlEphemeralParam
    from typing_extensions import Self, Unpack

    from .options import Location, Options
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


class MemoryTool(_Tool):
    """The memory tool for `client.beta.messages.tool_runner(tools=[tool], ...)`.

    It is a `BetaAbstractMemoryTool` if `anthropic` is installed, and works without it. Errors are `ToolError`s.

    ```python
    tool = MemoryTool("sqlite:memory.db?memory=alice", limits=True)
    ```
    """

    memory: Memory
    """The same memory, for your program."""

    def __init__(
        self,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens the memory, as `Memory` does. `location` can also be a `Memory`."""
        super().__init__(cache_control=cache_control)
        self.memory = location if isinstance(location, Memory) and not options else Memory(location, **options)

    def call(self, input: object) -> _Result:
        """Runs the `input` of a `tool_use` block. Returns text, or content blocks for an image."""
        return self.memory._native.perform("call", input)

    def execute(self, command: Any) -> _Result:
        """Runs a command of the SDK."""
        return self.call(command)

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> _Result:
        """Removes all files."""
        self.memory.clear()
        return "All memory cleared"


class AsyncMemoryTool(_AsyncTool):
    """The same as `MemoryTool` for `AsyncAnthropic`: a `BetaAsyncAbstractMemoryTool` with coroutines.

    ```python
    tool = await AsyncMemoryTool.open("s3://bucket/prefix")
    ```
    """

    memory: AsyncMemory
    """The same memory, for your program."""

    def __init__(
        self,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Opens the memory, and blocks the event loop until then. `await AsyncMemoryTool.open(...)` does not."""
        super().__init__(cache_control=cache_control)
        self.memory = (
            location if isinstance(location, AsyncMemory) and not options else AsyncMemory(location, **options)
        )

    @classmethod
    async def open(
        cls,
        location: Location,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Opens the memory. If `location` is a store with coroutines, they run on this event loop."""
        return cls(await AsyncMemory.open(location, **options), cache_control=cache_control)

    async def call(self, input: object) -> _Result:
        """Runs the `input` of a `tool_use` block. Returns text, or content blocks for an image."""
        return await _perform(self.memory._native, "call", input)

    async def execute(self, command: Any) -> _Result:
        """Runs a command of the SDK."""
        return await self.call(command)

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> _Result:
        """Removes all files."""
        await self.memory.clear()
        return "All memory cleared"
