"""The errors of memories and stores. They are for you: Claude reads only `ToolError`."""

from __future__ import annotations

from . import _native


class MemoryToolError(Exception):
    """An error of this package, or the cause of one."""

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later, because the storage is busy."""
        return getattr(self, "kind", None) == "busy"


class ForkError(MemoryToolError):
    """The memory was opened in the parent process. Open it again after `fork()`."""


class OpenError(MemoryToolError):
    """A memory cannot be opened. `__cause__` is the error of the storage."""

    def __init__(self, text: str, kind: str = "other") -> None:
        super().__init__(text, kind)
        self.kind = kind
        """`"not_found"` if it does not exist; other kinds are `"invalid"`, `"access_denied"`, `"busy"`, ..."""

    def __str__(self) -> str:
        return str(self.args[0])


class StoreError(MemoryToolError):
    """An operation on a memory failed."""


class _Described(StoreError):
    def __str__(self) -> str:
        return _native.describe(type(self).__name__, self.args)


class _AtPath(_Described):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class AlreadyExists(_AtPath):
    """The path must not exist, but does."""


class NotFound(_AtPath):
    """The path does not exist."""


class VersionMismatch(_AtPath):
    """The file is not at the required version, or has other contents than required. Read it again."""


class NotADirectory(_AtPath):
    """The path is a file, and a directory is required."""


class NotAFile(_AtPath):
    """The path is a directory, and a file is required."""


class NotText(_AtPath):
    """The file is not UTF-8 text."""


class SymbolicLink(_AtPath):
    """The path is a symbolic link, which is never followed."""


class NotARegularFile(_AtPath):
    """The path is a pipe, socket or device."""


class OverQuota(_Described):
    """The change exceeds a limit."""

    def __init__(self, path: str, kind: str, limit: int, requested: int, remaining: int) -> None:
        super().__init__(path, kind, limit, requested, remaining)
        self.path = path
        self.kind = kind
        """`"files"`, `"bytes"`, `"file_bytes"` or `"depth"`."""
        self.limit = limit
        self.requested = requested
        self.remaining = remaining


class Refused(_Described):
    """A policy refused the operation. Claude reads `reason`."""

    def __init__(self, path: str, reason: str, policy: str = "store") -> None:
        super().__init__(path, reason, policy)
        self.path = path
        self.reason = reason
        self.policy = policy
        """The policy, such as `"limits"`, `"read-only"` or `"screening"`."""


class InvalidPath(StoreError):
    """The path is invalid."""

    def __reduce__(self) -> tuple[type[InvalidPath], tuple[object, ...]]:
        return type(self), self.args  # without `_error`, which is native


class InvalidBatch(StoreError):
    """The batch is invalid."""


class HistoryError(MemoryToolError):
    """The history cannot do this. The text names the reason, such as a file that has changed since."""


class ProposalError(MemoryToolError):
    """The proposal cannot be decided like this. The text names the reason, such as a file that has changed since."""


class SearchError(MemoryToolError):
    """The pattern or an option of a search is invalid. The text names the mistake."""


class TransferError(MemoryToolError):
    """A copy, an export or an import stopped. `__cause__` is the error of the storage."""

    def __init__(self, text: str, kind: str = "other") -> None:
        super().__init__(text, kind)
        self.kind = kind
        """`"already_exists"`, `"invalid"`, `"not_found"`, `"unsupported"` or the kind of the failure."""

    def __str__(self) -> str:
        return str(self.args[0])


class StoreFailure(StoreError):
    """The storage failed. `__cause__` is its error.

    A store raises it to state the kind: `"access_denied"`, `"busy"`, `"damaged"`, `"full"`, `"outcome_unknown"`,
    `"unsupported_name"` or `"other"`. All but `"outcome_unknown"` promise that nothing was changed.
    """

    def __init__(self, text: str, kind: str = "other") -> None:
        super().__init__(text, kind)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0])


def _log(text: str, cause: BaseException) -> None:
    """Logs the cause of an error that Claude reads, because the SDK drops it."""
    import logging

    logging.getLogger("memory_tool").error("%s", text, exc_info=cause)
