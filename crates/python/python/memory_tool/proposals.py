"""`Proposals` and `AsyncProposals`: changes that wait for a person's consent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["AsyncProposals", "Proposal", "ProposalSummary", "Proposals", "ProposedChange"]


@dataclass(frozen=True)
class ProposalSummary:
    """A proposal in a list."""

    name: str
    files: int
    """The number of files that it changes."""
    bytes: int
    """The size of their texts before and after the changes."""
    created: datetime
    """The time of its first change."""
    changed: datetime
    """The time of its last change."""
    is_damaged: bool
    """Whether it cannot be read, so that it can only be dropped."""


@dataclass(frozen=True)
class ProposedChange:
    """The change of a file that waits."""

    path: str
    before: Optional[str]
    """The text that the proposal changed. `None` if there was no file, or if it is not text."""
    after: Optional[str]
    """The proposed text. `None` if the file is removed, or if it is not text."""
    present: Optional[str]
    """The text in the memory now."""
    renamed_from: Optional[str]
    """The file from which this one was renamed without a change."""
    authors: Sequence[str]
    """The actors of its changes."""
    reason: Optional[str]
    """The reasons that they gave."""
    modified: datetime
    outcome: str
    """The effect of taking it: `"clean"`, `"merged"` with later changes of the memory, or `"conflict"`."""
    diff: str
    """The change in the unified format."""
    parts: Sequence[str]
    """The parts that can be taken singly, counted from 0."""


@dataclass(frozen=True)
class Proposal:
    """A proposal with its changes."""

    name: str
    revision: str
    """Another one follows each change. Pass it on, so that only the changes that a person read are taken."""
    created: datetime
    changes: Sequence[ProposedChange]


class Proposals:
    """The proposals of a memory, from `Memory.proposals`. For people, and not for a session of the tool."""

    def __init__(self, perform: Callable[[object], Any]) -> None:
        self._perform = perform

    def list(self) -> list[ProposalSummary]:
        """Lists the proposals, sorted by name."""
        return [_summary(summary) for summary in self._perform(_request("list"))]

    def get(self, name: str) -> Proposal:
        """Reads a proposal. Raises `ProposalError` if there is none."""
        return _proposal(self._perform(_request("get", name=name)))

    def take(
        self,
        name: str,
        paths: Optional[Sequence[str]] = None,
        *,
        parts: Optional[Mapping[str, Sequence[int]]] = None,
        revision: Optional[str] = None,
    ) -> None:
        """Takes the changes at these paths into the memory, and these parts of others. By default, it takes all. The
        proposal keeps the rest. Raises `ProposalError` if the memory changed the same lines, and takes nothing then."""
        parts = parts and {path: [*numbers] for path, numbers in parts.items()}
        self._perform(_request("take", name=name, paths=_listed(paths), parts=parts, revision=revision))

    def edit(self, name: str, path: str, text: str, *, revision: Optional[str] = None) -> None:
        """Replaces the proposed text of a file."""
        self._perform(_request("edit", name=name, path=path, text=text, revision=revision))

    def drop(self, name: str, paths: Optional[Sequence[str]] = None, *, revision: Optional[str] = None) -> None:
        """Drops the changes at these paths. By default, it drops all."""
        self._perform(_request("drop", name=name, paths=_listed(paths), revision=revision))


class AsyncProposals:
    """The same as `Proposals`, with coroutines."""

    def __init__(self, perform: Callable[[object], Awaitable[Any]]) -> None:
        self._perform = perform

    async def list(self) -> list[ProposalSummary]:
        """Lists the proposals, sorted by name."""
        return [_summary(summary) for summary in await self._perform(_request("list"))]

    async def get(self, name: str) -> Proposal:
        """Reads a proposal. Raises `ProposalError` if there is none."""
        return _proposal(await self._perform(_request("get", name=name)))

    async def take(
        self,
        name: str,
        paths: Optional[Sequence[str]] = None,
        *,
        parts: Optional[Mapping[str, Sequence[int]]] = None,
        revision: Optional[str] = None,
    ) -> None:
        """Takes the changes at these paths into the memory, and these parts of others. By default, it takes all. The
        proposal keeps the rest. Raises `ProposalError` if the memory changed the same lines, and takes nothing then."""
        parts = parts and {path: [*numbers] for path, numbers in parts.items()}
        await self._perform(_request("take", name=name, paths=_listed(paths), parts=parts, revision=revision))

    async def edit(self, name: str, path: str, text: str, *, revision: Optional[str] = None) -> None:
        """Replaces the proposed text of a file."""
        await self._perform(_request("edit", name=name, path=path, text=text, revision=revision))

    async def drop(self, name: str, paths: Optional[Sequence[str]] = None, *, revision: Optional[str] = None) -> None:
        """Drops the changes at these paths. By default, it drops all."""
        await self._perform(_request("drop", name=name, paths=_listed(paths), revision=revision))


def _request(method: str, /, **arguments: object) -> object:
    return {method: arguments}


def _listed(paths: Optional[Sequence[str]]) -> Optional[Sequence[str]]:
    return None if paths is None else [*paths]


def _time(millis: int) -> datetime:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(millis / 1000, timezone.utc)


def _summary(value: dict[str, Any]) -> ProposalSummary:
    return ProposalSummary(**{**value, "created": _time(value["created"]), "changed": _time(value["changed"])})


def _proposal(value: dict[str, Any]) -> Proposal:
    changes = [ProposedChange(**{**change, "modified": _time(change["modified"])}) for change in value["changes"]]
    return Proposal(**{**value, "created": _time(value["created"]), "changes": changes})
