"""The table in `docs/languages.md` has the public names of the handle."""

import inspect
import re
from pathlib import Path

import memory_tool
from memory_tool import AsyncMemory, Memory, MemoryTool, Options

PAGE = Path(__file__).parents[3] / "docs" / "languages.md"
WORDS = {"with", "async with"}


def names_in_table():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")][2:]
    return {name for row in rows for name in re.findall("`(.*?)`", row.split("|")[3])} - WORDS


def public_names(of):
    return {name for name in vars(of) if not name.startswith("_")}


def keywords():
    functions = [*vars(Memory).values(), MemoryTool.__init__]
    named = {name for function in functions if inspect.isfunction(function) for name in inspect.signature(function).parameters}
    return named | set(Options.__annotations__)


def test_the_table_has_every_public_name_and_no_other():
    names = names_in_table()
    options = {name[:-1] for name in names if name.endswith("=")}
    classes = {name for name in names if name[0].isupper() and "." not in name}
    methods = {name.removeprefix("AsyncMemory.") for name in names if not name.endswith("=")} - classes
    assert methods == public_names(AsyncMemory)
    assert public_names(AsyncMemory) - public_names(Memory) == {"open"}
    assert public_names(Memory) <= methods
    assert classes | {"AsyncMemory"} == {name for name in memory_tool.__all__ if re.fullmatch("(Async)?Memory(Tool)?", name)}
    assert {"on_change", "if_text"} <= options <= keywords()
    for name in ("__enter__", "__exit__"):
        assert hasattr(Memory, name) and hasattr(AsyncMemory, name.replace("__", "__a", 1))
