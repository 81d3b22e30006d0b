"""The tests that the packages for Python and TypeScript have in common. `testing/scenarios.json` describes them."""

import asyncio
import base64
import builtins
import inspect
import json
import keyword
import re
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from conftest import BUCKETS, BUCKETS_OF_LONG_TIER, DISKS, POSTGRES, location_of
from dict_store import DictStore

import memory_tool
from memory_tool import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool, StoreError, StoreFailure, ToolError

TABLE = json.loads((Path(__file__).parents[3] / "testing" / "scenarios.json").read_text(encoding="utf-8"))
STORES = {
    "memory in the process": ["in-process"],
    "disks": DISKS,
    "stores without a server": [*DISKS, "in-process", "custom"],
    "stores": DISKS + POSTGRES + BUCKETS_OF_LONG_TIER,
    "all stores": DISKS + POSTGRES + BUCKETS,
}
VALUES = ["bytes", "repeat", "memory", "ago"]
RESULTS = ["like", "unlike", "text", "near"]


def form_of(given, forms):
    """The name of the form of an object, if it is one of these."""
    return next((name for name in given if name in forms), None) if isinstance(given, dict) and len(given) == 1 else None


def class_of(name):
    return getattr(memory_tool, name, None) or getattr(builtins, name)


class Runner:
    """Runs the steps of a scenario, with the plain classes or the coroutines."""

    def __init__(self, scenario, location, place, event_loop):
        self.scenario, self.location, self.place, self.event_loop = scenario, location, place, event_loop
        self.memories = {}

    def run(self):
        for step in self.scenario["steps"]:
            if "fails" not in step:
                found = self.take(step)
                while step.get("soon") and not found:
                    time.sleep(0.05)
                    found = self.take(step)
                expect(self.value(step.get("gives", ...)), found)
                continue
            name, text, fields = step["fails"] + ["", {}][len(step["fails"]) - 1 :]
            with pytest.raises(class_of(name)) as raised:
                self.take(step)
            assert self.value(text) in str(raised.value)
            expect({name: item for name, item in fields.items() if name != "cause"}, raised.value)
            expect(fields.get("cause", ...), str(raised.value.__cause__))

    def take(self, step):
        if "do" in step:
            return self.call(step["do"][0].split("."), step["do"][1:])
        if "open" in step:
            return self.open(step["open"], step.get("with", {}), step.get("at", self.location))
        file = Path(self.value(step["file"]))
        if "text" in step:
            file.touch(mode=0o600)
            file.write_text(step["text"])
        return file.read_text() if file.exists() else None

    def open(self, name, options, location):
        options, location = self.value(options), self.value(location)
        opened = self.wait(AsyncMemory.open(location, **options)) if self.event_loop else Memory(location, **options)
        self.memories[name] = opened

    def call(self, names, arguments):
        owner = names.pop(0) if names[0] in self.memories else "memory"
        if owner not in self.memories:
            self.open(owner, self.scenario.get("with", {}), self.location)
        target = self.memories[owner]
        *part, method = names
        if part in (["history"], ["proposals"]):
            target = getattr(target, part[0])()
        elif part == ["tool"]:
            target = AsyncMemoryTool(target) if self.event_loop else MemoryTool(target)
        named = arguments.pop() if arguments and isinstance(arguments[-1], dict) and not form_of(arguments[-1], VALUES) else {}
        method += "_" if keyword.iskeyword(method) else ""
        return self.wait(getattr(target, method)(*self.value(arguments), **self.value(named)))

    def wait(self, outcome):
        return self.event_loop.run_until_complete(outcome) if inspect.isawaitable(outcome) else outcome

    def value(self, given):
        if isinstance(given, str):
            return given.replace("{place}", str(self.place))
        if isinstance(given, list):
            return list(map(self.value, given))
        match form_of(given, VALUES):
            case "bytes":
                return base64.b64decode(given["bytes"])
            case "repeat":
                return given["repeat"][0] * given["repeat"][1]
            case "memory":
                if given["memory"] not in self.memories:
                    self.open("memory", self.scenario.get("with", {}), self.location)
                return self.memories[given["memory"]]
            case "ago":
                return datetime.now(timezone.utc) - timedelta(seconds=given["ago"])
        return {name: self.value(item) for name, item in given.items()} if isinstance(given, dict) else given


def expect(expected, found):
    if expected is ...:
        return
    if isinstance(expected, list):
        assert len(found) == len(expected), found
        for one, other in zip(expected, found):
            expect(one, other)
        return
    match form_of(expected, RESULTS):
        case "like":
            assert re.search(expected["like"], found), found
        case "unlike":
            assert not re.search(expected["unlike"], found), found
        case "text":
            assert str(found) == expected["text"]
        case "near":
            assert abs(datetime.now(timezone.utc) - found) < timedelta(seconds=expected["near"])
        case None if isinstance(expected, dict):
            for name, item in expected.items():
                expect(item, found[name] if isinstance(found, dict) else getattr(found, name))
        case None:
            assert found == expected


CASES = [
    pytest.param(scenario, *getattr(kind, "values", [kind]), marks=getattr(kind, "marks", []), id=f"{scenario['name']}-{kind}")
    for scenario in TABLE["scenarios"]
    for kind in STORES[scenario["on"]]
]


@pytest.mark.parametrize("style", ["plain", "coroutines"])
@pytest.mark.parametrize("scenario, kind", CASES)
def test_scenario(scenario, kind, style, tmp_path):
    event_loop = asyncio.new_event_loop() if style == "coroutines" else None
    try:
        place = tmp_path / "place"
        place.mkdir()
        Runner(scenario, location_of(kind, tmp_path), place, event_loop).run()
    finally:
        if event_loop:
            event_loop.close()


@pytest.mark.parametrize("options, error, text", TABLE["wrong_options"], ids=str)
def test_a_wrong_option_is_refused(options, error, text):
    options = Runner({}, None, "", None).value(options)
    for open_memory in (Memory, AsyncMemory, MemoryTool, AsyncMemoryTool):
        with pytest.raises(class_of(error), match=re.escape(text)):
            open_memory("in-process:", **options)


@pytest.mark.parametrize("case", TABLE["errors_of_a_store"], ids=lambda case: case["throws"][1])
def test_errors_of_a_store(case):
    name, *arguments = case["throws"]
    store, error = DictStore(), class_of(name)(*arguments)

    def fail(batch):
        raise error

    store.apply = fail
    with pytest.raises(ToolError) as refused:
        MemoryTool(store).call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    assert str(refused.value) == case["reply"]
    with pytest.raises(StoreError) as raised:
        Memory(store).write_text("/memories/a", "tea")
    assert raised.value.retryable is case["retryable"]
    if isinstance(error, StoreFailure):
        assert isinstance(raised.value, StoreFailure) and raised.value.__cause__ is error
    else:
        assert (type(raised.value), str(raised.value)) == (type(error), str(error))
