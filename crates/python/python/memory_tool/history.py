"""`History` and `AsyncHistory`: what changed in a memory, and how to take it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Optional, Sequence

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["AsyncHistory", "History", "HistoryEntry", "TextRedaction"]


@dataclass(frozen=True)
class HistoryEntry:
    """A change of a memory."""

    number: int
    """The first entry is 1, and no number is left out."""
    time: datetime
    actor: Optional[str]
    command: Optional[str]
    """The command of the tool, if one made the change."""
    origin: str
    """`"edit"`, `"undo"`, `"redo"`, `"revert"`, `"restore"` or `"redaction"`."""
    of: Sequence[int]
    """The entries that it takes back, restores or redacts."""
    changes: Sequence[dict[str, Any]]
    """One `write`, `remove` or `rename` per file, with paths, sizes and SHA-256."""
    is_redacted: bool = False
    reason: Optional[str] = None
    """The reason that was given."""
    authors: Sequence[str] = ()
    """The actors who wrote the change, if another one agreed to it."""
    missing: Sequence[str] = ()
    """After `undo`, `redo`, `revert` and `restore`: files that stay as they were, because their earlier contents had
    expired or were redacted."""


@dataclass(frozen=True)
class TextRedaction:
    """Where a text was found, and erased unless it was a dry run."""

    files: Sequence[tuple[str, int]]
    """The present files in which the text was replaced, and how often."""
    names: Sequence[str]
    """The present files whose names contain the text. They stay: rename them, and redact the text again."""
    unreadable: Sequence[str]
    """The present files that cannot be read, and so may contain the text."""
    entries: Sequence[int]
    """The entries that had the text in the contents or names of files."""
    entry: Optional[HistoryEntry]
    """The new entry. `None` after a dry run, and if the text was not found."""


class History:
    """The history of a memory, from `Memory.history`. An entry is named by its number; 0 is the beginning."""

    def __init__(self, perform: Callable[[object], Any]) -> None:
        self._perform = perform

    def log(
        self,
        path: Optional[str] = None,
        *,
        actor: Optional[str] = None,
        command: Optional[str] = None,
        text: Optional[str] = None,
        deleted: bool = False,
        since: Optional[datetime] = None,
        until: Optional[datetime] = None,
        before: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> list[HistoryEntry]:
        """Lists entries, newest first. A path is followed through renames. `text` selects entries that have it in names,
        or in contents before or after them, and `deleted` deletions of files that do not exist now."""
        more = {"since": _seconds(since), "until": _seconds(until), "deleted": deleted, "text": text}
        request = _request("log", path=path, actor=actor, command=command, before=before, limit=limit, **more)
        return [_entry(entry) for entry in self._perform(request)]

    def read_text(self, path: str, entry: int) -> str:
        """Reads a file in its state after an entry."""
        return self._perform(_request("read_text", path=path, entry=entry))

    def diff(self, start: int, end: int, path: str = "/memories") -> str:
        """The differences between two entries in the unified format."""
        return self._perform(_request("diff", **{"from": start}, to=end, path=path))

    def undo(self, count: int = 1, *, force: bool = False) -> HistoryEntry:
        """Takes back the last changes in one step. Raises `HistoryError` if a file has changed since."""
        return _entry(self._perform(_request("undo", count=count, force=force)))

    def redo(self, *, force: bool = False) -> HistoryEntry:
        """Takes back the last undo."""
        return _entry(self._perform(_request("redo", force=force)))

    def revert(self, entries: Sequence[int], *, force: bool = False) -> HistoryEntry:
        """Takes back certain entries."""
        return _entry(self._perform(_request("revert", entries=list(entries), force=force)))

    def restore(self, path: str, to: Optional[int] = None) -> HistoryEntry:
        """Restores a file or directory to its state after an entry, or a deleted one as it was last."""
        return _entry(self._perform(_request("restore", path=path, to=to)))

    def redact(self, entries: Sequence[int]) -> HistoryEntry:
        """Removes the contents, paths, sizes and hashes of entries from the history."""
        return _entry(self._perform(_request("redact", entries=list(entries))))

    def redact_path(self, path: str) -> HistoryEntry:
        """Redacts all changes of a file or directory under all its names, and no others of the same entries. Raises
        `HistoryError` if there are none."""
        return _entry(self._perform(_request("redact_path", path=path)))

    def redact_text(self, text: str, *, dry_run: bool = False) -> TextRedaction:
        """Erases a text: `[redacted]` replaces it in the present files, and the history loses the earlier texts and
        names that contain it."""
        return _text_redaction(self._perform(_request("redact_text", text=text, dry_run=dry_run)))

    def clear(self) -> None:
        """Removes the whole history, even if it is damaged."""
        self._perform(_request("clear"))


class AsyncHistory:
    """The same as `History`, with coroutines."""

    def __init__(self, perform: Callable[[object], Awaitable[Any]]) -> None:
        self._perform = perform

    async def log(
        self,
        path: Optional[str] = None,
        *,
        actor: Optional[str] = None,
        command: Optional[str] = None,
        text: Optional[str] = None,
        deleted: bool = False,
        since: Optional[datetime] = None,
        until: Optional[datetime] = None,
        before: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> list[HistoryEntry]:
        """Lists entries, newest first. A path is followed through renames. `text` selects entries that have it in names,
        or in contents before or after them, and `deleted` deletions of files that do not exist now."""
        more = {"since": _seconds(since), "until": _seconds(until), "deleted": deleted, "text": text}
        request = _request("log", path=path, actor=actor, command=command, before=before, limit=limit, **more)
        return [_entry(entry) for entry in await self._perform(request)]

    async def read_text(self, path: str, entry: int) -> str:
        """Reads a file in its state after an entry."""
        return await self._perform(_request("read_text", path=path, entry=entry))

    async def diff(self, start: int, end: int, path: str = "/memories") -> str:
        """The differences between two entries in the unified format."""
        return await self._perform(_request("diff", **{"from": start}, to=end, path=path))

    async def undo(self, count: int = 1, *, force: bool = False) -> HistoryEntry:
        """Takes back the last changes in one step. Raises `HistoryError` if a file has changed since."""
        return _entry(await self._perform(_request("undo", count=count, force=force)))

    async def redo(self, *, force: bool = False) -> HistoryEntry:
        """Takes back the last undo."""
        return _entry(await self._perform(_request("redo", force=force)))

    async def revert(self, entries: Sequence[int], *, force: bool = False) -> HistoryEntry:
        """Takes back certain entries."""
        return _entry(await self._perform(_request("revert", entries=list(entries), force=force)))

    async def restore(self, path: str, to: Optional[int] = None) -> HistoryEntry:
        """Restores a file or directory to its state after an entry, or a deleted one as it was last."""
        return _entry(await self._perform(_request("restore", path=path, to=to)))

    async def redact(self, entries: Sequence[int]) -> HistoryEntry:
        """Removes the contents, paths, sizes and hashes of entries from the history."""
        return _entry(await self._perform(_request("redact", entries=list(entries))))

    async def redact_path(self, path: str) -> HistoryEntry:
        """Redacts all changes of a file or directory under all its names, and no others of the same entries. Raises
        `HistoryError` if there are none."""
        return _entry(await self._perform(_request("redact_path", path=path)))

    async def redact_text(self, text: str, *, dry_run: bool = False) -> TextRedaction:
        """Erases a text: `[redacted]` replaces it in the present files, and the history loses the earlier texts and
        names that contain it."""
        return _text_redaction(await self._perform(_request("redact_text", text=text, dry_run=dry_run)))

    async def clear(self) -> None:
        """Removes the whole history, even if it is damaged."""
        await self._perform(_request("clear"))


def _request(name: str, **arguments: object) -> object:
    return {name: arguments}


def _seconds(time: Optional[datetime]) -> Optional[float]:
    return None if time is None else time.timestamp()


def _text_redaction(value: dict[str, Any]) -> TextRedaction:
    files = [(path, count) for path, count in value["files"]]
    entry = value["entry"] and _entry(value["entry"])
    return TextRedaction(**{**value, "files": files, "entry": entry})


def _entry(value: dict[str, Any]) -> HistoryEntry:
    from datetime import datetime, timezone

    origin = value.get("origin", "edit")
    kind, of = next(iter(origin.items())) if isinstance(origin, dict) else (origin, [])
    return HistoryEntry(
        number=value["number"],
        time=datetime.fromtimestamp(value["time"] / 1000, timezone.utc),
        actor=value.get("actor"),
        command=value.get("command"),
        origin=kind,
        of=of if isinstance(of, list) else [of],
        changes=value["changes"],
        is_redacted=value.get("is_redacted", False),
        reason=value.get("reason"),
        authors=value.get("authors", ()),
        missing=value.get("missing", ()),
    )
