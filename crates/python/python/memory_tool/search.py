"""`SearchReport`: the result of `Memory.search`, and its options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Optional, Sequence, TypedDict

__all__ = ["FoundLine", "FoundPath", "SearchOptions", "SearchReport", "SkippedItem"]


class SearchOptions(TypedDict, total=False):
    """The options of a search."""

    regex: bool
    """Whether the pattern is a regular expression. Default: it is words, in any order, and phrases in double quotes."""
    case: Literal["ignored", "sensitive"]
    """Whether upper and lower case differ, and accents. Default: `"ignored"`."""
    same_line: bool
    """Find only lines and names with all words."""
    within: Sequence[str]
    """The files and directories to search. Default: the whole memory."""
    since: datetime
    """Search only files changed at this time or later."""
    before: datetime
    """Search only files last changed before this time."""
    only: Literal["names", "text"]
    """Search only names, or only lines. Default: both."""
    hidden: bool
    """Search hidden items too."""
    context: int
    """The number of lines to show before and after each match. Default: 0."""
    paths_only: bool
    """Show no lines."""
    max_matches: int
    """The limit of shown matches. Default: 100."""
    max_characters: int
    """The limit of shown characters. Default: 16,000."""
    at: int
    """Search the memory after this entry of its history. Default: now."""


@dataclass(frozen=True)
class FoundLine:
    """A line of a file."""

    number: int
    is_match: bool
    """Whether the line matches. Otherwise it is context."""
    text: str
    """The line. A long one is cut around its first match."""
    cut_before: int
    """The number of characters before the text."""
    cut_after: int
    """The number of characters after the text."""


@dataclass(frozen=True)
class FoundPath:
    """A file or directory with matches."""

    path: str
    is_directory: bool
    is_name_match: bool
    matches: int
    """The number of all matching lines."""
    lines: Sequence[FoundLine]


@dataclass(frozen=True)
class SkippedItem:
    """An item that could not be searched."""

    path: str
    reason: str
    """`"not_text"`, `"too_large"`, `"unreadable"`, `"illegal_name"` or `"long_line"`."""


@dataclass(frozen=True)
class SearchReport:
    """The matches, sorted by path and line. `str(report)` is text for a model."""

    results: Sequence[FoundPath]
    matches: int
    """The number of all matching names and lines."""
    more_matches: int
    """The number of matches that are not in `results` because of a limit."""
    more_paths: int
    searched: int
    """The number of files whose text was searched."""
    skipped: Sequence[SkippedItem]
    more_skipped: int
    hidden: int
    """The number of hidden items, which were not searched."""
    undated: int
    """The number of files without a known time, which were not searched."""
    unsearched: int
    """The number of files that were not searched because the search stopped early."""
    stopped: Optional[str]
    """`"bytes"` or `"timeout"`, if the search stopped early."""
    text: str

    def __str__(self) -> str:
        return self.text


def to_request(pattern: str, options: SearchOptions) -> object:
    """The request of a search. Raises `TypeError` for an unknown option."""
    for name in options:
        if name not in SearchOptions.__annotations__:
            raise TypeError(f"search() got an unexpected keyword argument {name!r}")
    given = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in options.items()}
    return {"search": {"pattern": pattern, **given}}


def to_report(value: dict[str, Any]) -> SearchReport:
    """The report from its JSON value."""
    results = [
        FoundPath(**{**found, "lines": [FoundLine(**line) for line in found["lines"]]}) for found in value["results"]
    ]
    return SearchReport(**{**value, "results": results, "skipped": [SkippedItem(**item) for item in value["skipped"]]})
