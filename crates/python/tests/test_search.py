"""Search of a memory. `test_scenarios.py` has more tests of it."""

from datetime import datetime, timedelta

import pytest

from memory_tool import FoundLine, Memory, SearchReport


def test_the_report_is_typed(disk_url: str) -> None:
    memory = Memory(disk_url)
    memory.write_text("/memories/a.md", "one\nGreen tea\nthree\n")
    report = memory.search("tea")
    assert isinstance(report, SearchReport)
    assert report.results[0].lines == [FoundLine(2, True, "Green tea", 0, 0)]
    assert memory.search("tea", before=datetime.now() - timedelta(days=1)).matches == 0  # in local time
    with pytest.raises(TypeError, match="unexpected keyword argument 'regexp'"):
        memory.search("a", regexp=True)  # type: ignore[call-arg]
