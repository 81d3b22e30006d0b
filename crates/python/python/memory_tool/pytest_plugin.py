"""A pytest plugin: a test that takes `conformance_case` runs once for each case of the suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import pytest

FIXTURE = "conformance_case"


@dataclass(frozen=True)
class ConformanceCase:
    """A case of the conformance suite."""

    id: str

    def run(self, create: Callable[[], Any], **options: Any) -> None:
        """Runs the case on the stores that `create` returns. The options are those of `conformance.run`."""
        from .conformance import run

        report = run(create, filters=[self.id], **options)
        for result in report.results:
            if result["outcome"] == "ignored":
                pytest.skip(result["lack"])
        if not report.is_success:
            pytest.fail(str(report), pytrace=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if FIXTURE in metafunc.fixturenames:
        from .conformance import cases

        found = [ConformanceCase(case["id"]) for case in cases()]
        metafunc.parametrize(FIXTURE, found, ids=[case.id for case in found])
