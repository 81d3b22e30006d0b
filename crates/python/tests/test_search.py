"""Search of a memory."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from memory_tool import AsyncMemory, FoundLine, InvalidPath, Memory, NotFound, SearchError, SearchReport


def filled(url: str) -> Memory:
    memory = Memory(url, history=True)
    memory.write_text("/memories/a.md", "one\nGreen tea\nthree\n")
    memory.write_text("/memories/tea/shop.md", "Kyoto é")
    return memory


def test_names_and_lines_are_found(disk_url: str) -> None:
    memory = filled(disk_url)
    report = memory.search("tea", context=1)
    assert isinstance(report, SearchReport)
    assert str(report) == "/memories/a.md\n1- one\n2: Green tea\n3- three\n\n/memories/tea/ (name)"
    assert report.results[0].lines[1] == FoundLine(2, True, "Green tea", 0, 0)
    assert (report.matches, report.searched, report.stopped) == (2, 2, None)
    assert str(memory.search("é$", regex=True)) == "/memories/tea/shop.md\n1: Kyoto é"
    assert memory.search("Tea").matches == 0
    assert memory.search("Tea", case="ignored", only="text", within=["/memories/a.md"]).matches == 1
    assert memory.search("tea", max_matches=1).more_matches == 1
    day = timedelta(days=1)
    assert memory.search("tea", since=datetime.now(timezone.utc) - day).matches == 2
    assert memory.search("tea", before=datetime.now() - day).matches == 0
    assert memory.search("kyoto", at=1).matches == 0


def test_mistakes_are_named(disk_url: str) -> None:
    memory = filled(disk_url)
    with pytest.raises(SearchError, match=r"^the regular expression is invalid: unclosed group \(at character 1\)$"):
        memory.search("(a", regex=True)
    with pytest.raises(SearchError, match="unknown variant `x`"):
        memory.search("a", case="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'regexp'"):
        memory.search("a", regexp=True)  # type: ignore[call-arg]
    with pytest.raises(NotFound):
        memory.search("a", within=["/memories/b"])
    with pytest.raises(InvalidPath):
        memory.search("a", within=["b"])


def test_coroutines_search(disk_url: str) -> None:
    async def run():
        memory = await AsyncMemory.open(disk_url)
        return await memory.search("kyoto")

    filled(disk_url)
    assert asyncio.run(run()).results[0].path == "/memories/tea/shop.md"
