"""Claude's memory tool on the storage you already run.

`MemoryTool` and `AsyncMemoryTool` are tools for the SDK `anthropic`. `Memory` and `AsyncMemory` are the same memory for
your program. `Store` is the base class of your own storage.
"""

from __future__ import annotations

import atexit as _atexit

from . import _native

TYPE_CHECKING = False  # as in `typing`, which takes time to import
if TYPE_CHECKING:
    from . import conformance as conformance
    from .changes import (
        AsyncWatch as AsyncWatch,
        MemoryChange as MemoryChange,
        Watch as Watch,
    )
    from .errors import (
        AlreadyExists as AlreadyExists,
        ForkError as ForkError,
        HistoryError as HistoryError,
        InvalidBatch as InvalidBatch,
        InvalidPath as InvalidPath,
        MemoryToolError as MemoryToolError,
        NotADirectory as NotADirectory,
        NotAFile as NotAFile,
        NotARegularFile as NotARegularFile,
        NotFound as NotFound,
        NotText as NotText,
        OpenError as OpenError,
        OverQuota as OverQuota,
        ProposalError as ProposalError,
        Refused as Refused,
        SearchError as SearchError,
        StoreError as StoreError,
        StoreFailure as StoreFailure,
        SymbolicLink as SymbolicLink,
        TransferError as TransferError,
        VersionMismatch as VersionMismatch,
    )
    from .history import (
        AsyncHistory as AsyncHistory,
        History as History,
        HistoryEntry as HistoryEntry,
        TextRedaction as TextRedaction,
    )
    from .memory import (
        AsyncMemory as AsyncMemory,
        Memory as Memory,
    )
    from .options import (
        Location as Location,
        Options as Options,
    )
    from .proposals import (
        AsyncProposals as AsyncProposals,
        Proposal as Proposal,
        Proposals as Proposals,
        ProposalSummary as ProposalSummary,
        ProposedChange as ProposedChange,
    )
    from .reports import (
        CopyReport as CopyReport,
        ExportReport as ExportReport,
        FileProblem as FileProblem,
        ImportReport as ImportReport,
        LintFinding as LintFinding,
        LintReport as LintReport,
        SyncConflict as SyncConflict,
        SyncedSide as SyncedSide,
        SyncReport as SyncReport,
        VerifyReport as VerifyReport,
    )
    from .search import (
        FoundLine as FoundLine,
        FoundPath as FoundPath,
        SearchOptions as SearchOptions,
        SearchReport as SearchReport,
        SkippedItem as SkippedItem,
    )
    from .store import (
        Batch as Batch,
        Change as Change,
        Entry as Entry,
        File as File,
        Quota as Quota,
        ReadOptions as ReadOptions,
        Remove as Remove,
        Rename as Rename,
        State as State,
        Store as Store,
        Usage as Usage,
        Write as Write,
        is_under as is_under,
        replace_prefix as replace_prefix,
    )
    from .tool import (
        AsyncMemoryTool as AsyncMemoryTool,
        MemoryTool as MemoryTool,
        ToolError as ToolError,
        ToolOutcome as ToolOutcome,
    )

# Imported on first use: the tools import the SDK, which takes a second, and the stores `asyncio`.
_MODULES = {
    "changes": (
        "AsyncWatch",
        "MemoryChange",
        "Watch",
    ),
    "errors": (
        "AlreadyExists",
        "ForkError",
        "HistoryError",
        "InvalidBatch",
        "InvalidPath",
        "MemoryToolError",
        "NotADirectory",
        "NotAFile",
        "NotARegularFile",
        "NotFound",
        "NotText",
        "OpenError",
        "OverQuota",
        "ProposalError",
        "Refused",
        "SearchError",
        "StoreError",
        "StoreFailure",
        "SymbolicLink",
        "TransferError",
        "VersionMismatch",
    ),
    "history": (
        "AsyncHistory",
        "History",
        "HistoryEntry",
        "TextRedaction",
    ),
    "memory": (
        "AsyncMemory",
        "Memory",
    ),
    "options": (
        "Location",
        "Options",
    ),
    "proposals": (
        "AsyncProposals",
        "Proposal",
        "ProposalSummary",
        "Proposals",
        "ProposedChange",
    ),
    "reports": (
        "CopyReport",
        "ExportReport",
        "FileProblem",
        "ImportReport",
        "LintFinding",
        "LintReport",
        "SyncConflict",
        "SyncReport",
        "SyncedSide",
        "VerifyReport",
    ),
    "search": (
        "FoundLine",
        "FoundPath",
        "SearchOptions",
        "SearchReport",
        "SkippedItem",
    ),
    "store": (
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
    ),
    "tool": (
        "AsyncMemoryTool",
        "MemoryTool",
        "ToolError",
        "ToolOutcome",
    ),
}

__all__ = sorted(name for names in _MODULES.values() for name in names)

__version__ = _native.__version__

_atexit.register(_native.shut_down)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "conformance":
        return import_module(".conformance", __name__)
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(import_module(f".{module}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
