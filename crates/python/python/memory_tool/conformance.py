"""The conformance suite for your own `Store`.

```python
report = memory_tool.conformance.run(MyStore)
assert report.is_success, report
```

With pytest, each case is a test:

```python
def test_conformance(conformance_case):
    conformance_case.run(MyStore)
```
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Sequence

from . import _native
from .store import Store

__all__ = ["Report", "cases", "run"]


@dataclass(frozen=True)
class Report:
    """The results of a run. `str(report)` is a table."""

    is_success: bool
    """Whether no case failed, and at least one passed."""
    text: str
    results: list[dict[str, Any]]
    """The cases: `id`, `outcome` (`"passed"`, `"failed"` or `"ignored"`), `failures`, `lack` and others."""

    def __str__(self) -> str:
        return self.text


def run(
    create: Callable[[], Store],
    *,
    reopen: Callable[[Any], Store] | None = None,
    filters: Sequence[str] = (),
    jobs: int | None = None,
    races: int | None = None,
    case_timeout: timedelta | None = None,
) -> Report:
    """Runs the cases that match one of `filters`, or all.

    `create` returns a new and empty store; it is called for each case, from several threads. `reopen` opens the storage
    of a store again, as another session does; without it, cases with several sessions are ignored.
    """
    is_success, text, report = _native.run_conformance(create, reopen, list(filters), jobs, races, case_timeout)
    return Report(is_success, text, report["results"])


def cases() -> list[dict[str, Any]]:
    """The cases for stores: `id`, `clauses`, `reason` and others."""
    return _native.cases()
