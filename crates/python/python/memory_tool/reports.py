"""The reports of `Memory.copy_to`, `sync`, `export`, `import_` and `verify`. Each list has at most 1,000 items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, TypeVar

__all__ = ["CopyReport", "ExportReport", "FileProblem", "ImportReport", "LintFinding", "LintReport", "SyncConflict", "SyncReport", "SyncedSide", "VerifyReport"]


@dataclass(frozen=True)
class FileProblem:
    """A file that was not transferred, and the reason, for you."""

    path: str
    reason: str


@dataclass(frozen=True)
class _WriteReport:
    is_complete: bool
    """Whether every file is in the destination."""
    dry_run: bool
    """Whether the changes were only simulated."""
    copied: int
    """The number of new files."""
    overwritten: int
    """The number of replaced files."""
    bytes: int
    """The total size of the new and replaced files."""
    unchanged: int
    """The number of files that already had the same contents."""
    redacted: Sequence[str]
    """The files that screening redacted."""
    more_redacted: int
    conflicts: Sequence[FileProblem]
    """The files that were not written because the path has other contents."""
    more_conflicts: int
    refused: Sequence[FileProblem]
    """The files that the destination refused."""
    more_refused: int
    unverified: Sequence[FileProblem]
    """The files whose contents differed or could not be read after the write."""
    more_unverified: int
    only_in_destination: int
    """The number of files that only the destination has."""


@dataclass(frozen=True)
class CopyReport(_WriteReport):
    """The result of `Memory.copy_to`."""

    entries: int
    """The number of entries of the history that were copied."""
    unreadable: Sequence[FileProblem]
    """The files of the source that cannot be read."""
    more_unreadable: int
    removed: Sequence[str]
    """The files that were removed from the source after they were copied."""
    more_removed: int
    source_still_changing: bool
    """Whether the source still changed during the last attempt."""


@dataclass(frozen=True)
class SyncedSide:
    """The changes of one of two memories."""

    name: str
    written: int
    """The number of files that were written."""
    bytes: int
    """Their total size."""
    removed: int
    renamed: int
    redacted: Sequence[str]
    """The files that screening redacted."""
    more_redacted: int
    refused: Sequence[FileProblem]
    """The files that were not changed, because the memory refused it or they kept changing."""
    more_refused: int
    unreadable: Sequence[FileProblem]
    """The files that cannot be read."""
    more_unreadable: int
    is_partial: bool
    """Whether directories cannot be read, so that deleted files of this memory were kept in the other one."""


@dataclass(frozen=True)
class SyncConflict:
    """A file of which both memories had different texts."""

    path: str
    """The file, which has the newer text."""
    copy: str
    """The file with the older text."""


@dataclass(frozen=True)
class SyncReport:
    """The result of `Memory.sync`."""

    is_complete: bool
    """Whether both memories have the same files, and no older texts of conflicts."""
    status: str
    """`in_sync`, `in_sync_with_conflicts` or `partly`."""
    dry_run: bool
    """Whether the changes were only simulated."""
    first: SyncedSide
    second: SyncedSide
    merged: Sequence[str]
    """The files whose changes of both sides were merged."""
    more_merged: int
    conflicts: Sequence[SyncConflict]
    """The files of which both texts were kept."""
    more_conflicts: int
    conflict_copies: Sequence[str]
    """The older texts of conflicts that are still there."""
    more_conflict_copies: int


@dataclass(frozen=True)
class ImportReport(_WriteReport):
    """The result of `Memory.import_`."""

    skipped: Sequence[FileProblem]
    """Links, special files, invalid names and files over the size limit."""
    more_skipped: int
    archive_error: Optional[str]
    """The reason why the archive could not be read completely."""


@dataclass(frozen=True)
class ExportReport:
    """The result of `Memory.export`."""

    is_complete: bool
    """Whether every file was exported."""
    exported: int
    """The number of exported files."""
    bytes: int
    """Their total size."""
    refused: Sequence[FileProblem]
    """The files that the target does not support."""
    more_refused: int
    unreadable: Sequence[FileProblem]
    """The files and directories that cannot be read."""
    more_unreadable: int
    removed: Sequence[str]
    """The files that were removed from the memory during the export."""
    more_removed: int
    kept: Optional[str]
    """The reason why the existing archive was kept and nothing was exported."""


@dataclass(frozen=True)
class VerifyReport:
    """The result of `Memory.verify`."""

    files: int
    """The number of intact files."""
    bytes: int
    """Their total size."""
    problems: Sequence[str]
    """The damage, one line each. It is empty if the memory is intact."""


@dataclass(frozen=True)
class LintFinding:
    """A place in a memory that breaks a rule of `Memory.lint`."""

    rule: str
    """The name of the rule, such as `broken-link`."""
    path: str
    """The file, or a directory."""
    line: int | None
    """The 1-based number of the line, if it is about a line."""
    message: str
    """The reason, which can contain a part of the text. It never contains a secret."""


@dataclass(frozen=True)
class LintReport:
    """The result of `Memory.lint`."""

    files: int
    """The number of files whose text was checked."""
    skipped: int
    """The number of items whose text was not checked, because they cannot be read or are not text."""
    findings: Sequence[LintFinding]
    """The findings, sorted by path, line and rule: at most 1,000 of a rule, and 20 of them in a file."""
    more: int
    """The number of findings that are not in `findings`."""


_Report = TypeVar("_Report")


def to_report(kind: type[_Report], value: dict[str, Any]) -> _Report:
    """The report from its JSON value."""

    def item(given: object) -> object:
        if not isinstance(given, dict):
            return given
        if "rule" in given:
            return LintFinding(**given)
        return FileProblem(**given) if "reason" in given else SyncConflict(**given)

    def of(part: object) -> object:
        if isinstance(part, dict):
            return to_report(SyncedSide, part)
        return list(map(item, part)) if isinstance(part, list) else part

    return kind(**{name: of(part) for name, part in value.items()})
