"""Claude's memory tool on the storage you already run.

`MemoryTool` and `AsyncMemoryTool` are tools for the SDK `anthropic`. `Memory` and `AsyncMemory` are the same memory for
your program. `Store` is the base class of your own storage.
"""

from __future__ import annotations

import atexit as _atexit
from typing import TYPE_CHECKING

from . import _native
from .errors import (
    AlreadyExists,
    ForkError,
    InvalidBatch,
    InvalidPath,
    MemoryToolError,
    NotADirectory,
    NotAFile,
    NotARegularFile,
    NotFound,
    NotText,
    OpenError,
    OverQuota,
    RecordMismatch,
    Refused,
    StoreError,
    StoreFailure,
    SymbolicLink,
    VersionMismatch,
)
from .memory import AsyncMemory, Memory
from .store import (
    Batch,
    Change,
    Entry,
    File,
    Quota,
    ReadOptions,
    Remove,
    Rename,
    State,
    Store,
    Usage,
    Write,
    is_under,
    replace_prefix,
)

if TYPE_CHECKING:
    from .options import Options
    from .tool import AsyncMemoryTool, MemoryTool, ToolError

__all__ = [
    "AlreadyExists",
    "AsyncMemory",
    "AsyncMemoryTool",
    "Batch",
    "Change",
    "Entry",
    "File",
    "ForkError",
    "InvalidBatch",
    "InvalidPath",
    "Memory",
    "MemoryTool",
    "MemoryToolError",
    "NotADirectory",
    "NotAFile",
    "NotARegularFile",
    "NotFound",
    "NotText",
    "OpenError",
    "Options",
    "OverQuota",
    "Quota",
    "ReadOptions",
    "RecordMismatch",
    "Refused",
    "Remove",
    "Rename",
    "State",
    "Store",
    "StoreError",
    "StoreFailure",
    "SymbolicLink",
    "ToolError",
    "Usage",
    "VersionMismatch",
    "Write",
    "is_under",
    "replace_prefix",
]

_atexit.register(_native.shut_down)


def __getattr__(name: str) -> object:
    # The tools import the SDK, which takes a second. Programs that use only `Memory` do not need it.
    if name in ("AsyncMemoryTool", "MemoryTool", "ToolError"):
        from . import tool

        return getattr(tool, name)
    if name == "Options":
        from .options import Options

        return Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
