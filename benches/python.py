"""Compares the Python package with the local tool of Anthropic's SDK. benches/README.md describes it."""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEXT = "A line of 63 characters, which is about as long as most are.\n" * 66
ROUNDS, CALLS = 41, 20


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as place:
        compare(Path(place))
        start(Path(place))


def compare(place):
    """Times commands of both tools in this process, in turns."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    from memory_tool import MemoryTool

    tools = {
        "local": MemoryTool(place / "ours"),
        "SQLite": MemoryTool(f"sqlite:{place}/ours.db"),
        "SDK": BetaLocalFilesystemMemoryTool(place / "sdk"),
    }
    for tool in tools.values():
        tool.call({"command": "create", "path": "/memories/a.txt", "file_text": TEXT + "marker 0\n"})
    marker = dict.fromkeys(tools, 0)

    def view(name):
        tools[name].call({"command": "view", "path": "/memories/a.txt"})

    def str_replace(name):
        old = marker[name]
        marker[name] += 1
        words = {"old_str": f"marker {old}\n", "new_str": f"marker {old + 1}\n"}
        tools[name].call({"command": "str_replace", "path": "/memories/a.txt", **words})

    print("| 4 KB | local | SQLite | SDK | SDK / local | quartiles | SDK / SQLite | quartiles |")
    print("|---|---|---|---|---|---|---|---|")
    for command in (view, str_replace):
        times = {name: [] for name in tools}
        for turn in range(ROUNDS):
            for name in sorted(tools, reverse=turn % 2 == 1):
                started = time.perf_counter()
                for _ in range(CALLS):
                    command(name)
                times[name].append((time.perf_counter() - started) / CALLS * 1e6)
        cells = [f"{statistics.median(times[name]):.0f}µs" for name in tools]
        for ours in ("local", "SQLite"):
            ratios = [sdk / own for own, sdk in zip(times[ours], times["SDK"])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells += [f"{middle:.2f}", f"{low:.2f}–{high:.2f}"]
        print(f"| `{command.__name__}` | {' | '.join(cells)} |", flush=True)


def start(place):
    """Times new interpreters, in turns."""
    location = str(place / "ours")
    sdk = "from anthropic.lib.tools import BetaAbstractMemoryTool"
    view = f"MemoryTool({location!r}).call({{'command': 'view', 'path': '/memories/a.txt'}})"
    programs = {
        "the interpreter": "pass",
        "import, and a read with `Memory`": (
            f"from memory_tool import Memory; Memory({location!r}).read_text('/memories/a.txt')"
        ),
        "import of the SDK's class": sdk,
        "import of the SDK's class, import, and a `view` with `MemoryTool`": (
            f"{sdk}; from memory_tool import MemoryTool; {view}"
        ),
    }
    times = {name: [] for name in programs}
    for _ in range(11):
        for name, code in programs.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times[name].append((time.perf_counter() - started) * 1e3)
    print("\n| start | median |\n|---|---|")
    for name, rounds in times.items():
        print(f"| {name} | {statistics.median(rounds):.0f}ms |")


if __name__ == "__main__":
    main()
