"""Writes docs/sdk-comparison/*.csv and the tables of docs/sdk-comparison.md: installs the drivers, runs the suite.

    python3 examples/drivers/compare.py [--filter TEXT]... [--program PROGRAM] [--output DIRECTORY]

Without `--program`, cargo builds `memory-tool-conformance`. With `--filter`, only these cases run. Fails if an SDK fails a check that
both SDKs should pass.
"""

import argparse
import csv
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

DRIVERS = pathlib.Path(__file__).resolve().parent
ROOT = DRIVERS.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
MAX_REPLY = 160
BASES = {
    "documentation": "stated by the documentation",
    "recommendation": "considered by the documentation",
    "sdks": "the documentation is silent, and the SDKs agree",
    "project": "chosen by this project",
}

# The same after one difference. Most behaviors are expected only by this project.
SOURCES = {
    "documentation": " (documentation)",
    "recommendation": " (documentation, optional)",
    "sdks": " (both SDKs)",
    "project": "",
}

# Each known difference, with the cases whose reason it is.
FINDINGS = [
    (
        "loses lines if several sessions or processes insert into one file",
        ["races.inserts-of-processes"],
    ),
    (
        "several sessions or processes can replace the same text",
        ["races.replacements-of-processes"],
    ),
    ("a program killed during a write leaves a partial file", ["restarts.killed-while-creating"]),
    ("a full disk leaves a partial file", ["disk.full", "disk.file-size-limit"]),
    ("a directory swapped for a link during a command leads outside", ["plain_files.swapped-parent"]),
    ("a link inside the memory is followed", ["plain_files.links-within"]),
    ("encoded traversal such as `%2e%2e` counts as a name", ["paths.dot-dot-in-any-spelling"]),
    ("`/memoriesX` counts as a path in `/memories`", ["paths.outside-sibling"]),
    ("`/memories/./a.txt` and `/memories//a.txt` are second spellings", ["paths.dot-segment", "paths.empty-segment"]),
    ("`/memories/e/` creates the file `e`", ["paths.trailing-slash"]),
    ("a line feed in a name can forge a line of a listing", ["paths.control-characters-and-line-separators"]),
    ("two Unicode spellings of a name are two files", ["paths.not-nfc"]),
    ("errors of the operating system reach the model", ["wire.no-host-details"]),
    ("a missing field causes a language error", ["wire.missing-or-wrong-fields"]),
    ("a command can be the name of a method", ["wire.command-named-as-a-method"]),
    ("`view` has no cap", ["view.over-the-cap"]),
    ("an invalid `view_range` gives an empty reply", ["view.range-outside-the-file"]),
    ("images are not shown", ["view.image"]),
    ("a view of a binary file has replacement characters, or raises an exception", ["view.not-text"]),
    ("an omitted `new_str` does not delete the text", ["str_replace.without-new_str"]),
    ("`old_str` does not match across lines", ["str_replace.across-lines"]),
    ("of several occurrences that share a line, one is replaced", ["str_replace.several-not-on-lines-of-their-own"]),
    ("an empty `old_str` edits a file", ["str_replace.empty-old_str"]),
    ("text cannot be inserted after a last empty line", ["insert.after-the-last-empty-line"]),
    ("`insert` changes the end of the file", ["insert.final-line-feeds"]),
    ("an empty directory remains", ["paths.directory-without-files", "rename.nothing-there-leaves-no-parent"]),
]

# Cases of documented behavior, for a tool that takes seconds to start.
DOCUMENTED = [
    "create.refuses-to-overwrite", "create.text", "delete.directory", "delete.in-an-empty-store", "delete.twice",
    "insert.line-past-the-end", "insert.nothing-there", "paths.dot-dot-outside", "paths.outside-absolute", "rename.file",
    "rename.file-over-a-file", "rename.over-what-exists", "str_replace.no-occurrence", "str_replace.nothing-there",
    "str_replace.several-occurrences", "view.documented-listing", "view.lines", "view.nothing-there",
    "view.over-the-line-limit", "view.two-levels",
]

# The tables are the part of the page after this line and before its next heading.
PAGE = ROOT / "docs/sdk-comparison.md"
START = "<!-- `examples/drivers/compare.py` writes these tables. -->\n"


class Driver:
    """A program in a directory of this one, which is copied to the target directory and installed there."""

    def __init__(self, name, title, packages, tool, options=(), filters=()):
        self.name, self.title, self.packages, self.tool, self.options = name, title, packages, tool, options
        self.filters = filters
        self.place = TARGET / "drivers" / name

    def install(self):
        """Installs the packages unless they are installed already."""
        source = DRIVERS / self.name
        files = sorted(path for path in source.iterdir() if path.is_file())
        pins = hashlib.sha256(b"\0".join(path.read_bytes() for path in files if not path.name.startswith("driver.")))
        mark = self.place / "installed"
        if not mark.exists() or mark.read_text() != pins.hexdigest():
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
            for path in files:
                shutil.copy(path, self.place)
            self.install_packages()
            mark.write_text(pins.hexdigest())
        for path in source.glob("driver.*"):
            shutil.copy(path, self.place)

    def run(self, program, filters):
        """Runs the suite and returns its report."""
        command = [program, "--format", "json", "--plain-files", "{dir}/memories", *self.options]
        # A slow start is no difference.
        command += ["--timeout", "120"]
        command += ["--command", " ".join(f"'{word}'" for word in [*self.command(), "{dir}"])]
        command += [f"--filter={text}" for text in filters or self.filters]
        report = self.place / "report.json"
        with open(report, "wb") as output:
            status = subprocess.run(command, stdout=output, cwd=self.place).returncode
        if status not in (0, 1):
            raise SystemExit(f"the suite did not run on {self.name}")
        return json.loads(report.read_bytes())


class PythonDriver(Driver):
    def install_packages(self):
        subprocess.run(["python3", "-m", "venv", self.place / ".venv"], check=True)
        pip = self.place / ".venv/bin/pip"
        subprocess.run([pip, "install", "--quiet", "-r", self.place / "requirements.txt"], check=True)

    def command(self):
        return [self.place / ".venv/bin/python", self.place / "driver.py"]

    def versions(self):
        pins = dict(line.split("==") for line in (self.place / "requirements.txt").read_text().split())
        return [f"`{package}` {pins[package]}" for package in self.packages], f"Python {platform.python_version()}"


class NodeDriver(Driver):
    def install_packages(self):
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], check=True, cwd=self.place)

    def command(self):
        return ["node", self.place / "driver.mjs"]

    def versions(self):
        pins = json.loads((self.place / "package.json").read_text())["dependencies"]
        node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
        return [f"`{package}` {pins[package]}" for package in self.packages], f"Node.js {node.removeprefix('v')}"


ALL = [
    PythonDriver("python", "Python", ["anthropic"], "`BetaLocalFilesystemMemoryTool`"),
    NodeDriver(
        "typescript", "TypeScript", ["@anthropic-ai/sdk"], "`BetaLocalFilesystemMemoryTool` in `betaMemoryTool`"
    ),
    PythonDriver(
        "langchain", "LangChain", ["langchain", "langchain-anthropic"], "`FilesystemClaudeMemoryMiddleware`",
        ["--basis", "documentation"], DOCUMENTED,
    ),
]


def line(text):
    """The text on one line, truncated, with the directory of the case as `{dir}`, because its name is random."""
    text = re.sub(r"/[\w/.-]*memory-tool-test-\w+", "{dir}", text)
    shown = text if len(text) <= MAX_REPLY else text[:MAX_REPLY] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def table(header, rows):
    head, *body = ["| " + " | ".join(cells) + " |" for cells in [header, *rows]]
    return "\n".join([head, "|" + "---|" * len(header), *body]).replace("|  |", "| |")


def basis(result, failure):
    """The basis of a failed check. A failure without one concerns all checks of the case."""
    return failure.get("basis") or min(result["bases"], key=list(BASES).index)


def strongest(results):
    bases = [basis(result, failure) for result in results for failure in result.get("failures", [])]
    return min(bases, key=list(BASES).index)


def first_failure(result, of_basis):
    return next((f for f in result.get("failures", []) if basis(result, f) == of_basis), None)


def verdict(result, of_basis):
    if result is None or result["outcome"] == "ignored":
        return "not run"
    failure = first_failure(result, of_basis)
    if failure is None:
        return "passes"
    return line(failure["message"].splitlines()[0] if failure.get("reply") is None else failure["reply"])


def failed_cases(reports):
    """Rows of the cases that a tool fails."""
    rows = []
    for case in reports[0]["results"]:
        results = [by_id(report).get(case["id"]) for report in reports]
        failed = [result for result in results if result and result["outcome"] == "failed"]
        if failed:
            of_basis = strongest(failed)
            first = [failure for failure in (first_failure(result, of_basis) for result in failed) if failure]
            variant = next((line(failure["variant"]) for failure in first if failure.get("variant")), "")
            clauses = {clause_of(case, failure) for failure in first}
            replies = [verdict(result, of_basis) for result in results]
            rows.append([case["id"], " ".join(sorted(clauses)), of_basis, variant, *replies])
    return sorted(rows, key=lambda row: list(BASES).index(row[2]))


def by_id(report):
    return {result["id"]: result for result in report["results"]}


def fails(report, of_basis):
    """The cases with a failed check of this basis."""
    return [case["id"] for case in report["results"] if first_failure(case, of_basis)]


def has(report, cases, of_basis):
    """Whether a tool fails such a check of one of these cases for its reason, rather than by a leak in a reply."""
    results = [by_id(report)[case] for case in cases if case in by_id(report)]
    ran = [result for result in results if result["outcome"] != "ignored"]
    failures = [(result, f) for result in ran for f in result.get("failures", []) if basis(result, f) == of_basis]
    reasons = [f for result, f in failures if f.get("clause") in [None, *result["clauses"]]]
    return bool(reasons)


def passed(count):
    ran = count["passed"] + count["failed"]
    return f"{count['passed']} of {ran}" if ran else "not run"


def versions(reports):
    rows = {"package": [], "tool": [], "ran on": [], "suite": []}
    for driver, report in zip(ALL, reports):
        packages, language = driver.versions()
        rows["package"].append(", ".join(packages))
        rows["tool"].append(driver.tool)
        rows["ran on"].append(f"{platform.system()}, {language}")
        rows["suite"].append(f"{report['suite_version']}, {datetime.date.today()}")
    return table(["", *(driver.title for driver in ALL)], [[name, *cells] for name, cells in rows.items()])


def totals(reports):
    rows = []
    for name, title in BASES.items():
        counts = [report["bases"].get(name, {"passed": 0, "failed": 0}) for report in reports]
        rows.append([title, *(passed(count) for count in counts)])
    return table(["expected behavior", *(driver.title for driver in ALL)], rows)


def findings(reports):
    """A row for each difference, the ones from the documentation first."""
    rows = {basis: [] for basis in SOURCES}
    for text, cases in FINDINGS:
        of_basis = expected_by(reports, cases)
        clauses = dict.fromkeys(by_id(reports[0])[case]["clauses"][0] for case in cases if case in by_id(reports[0]))
        tools = [driver.title for driver, report in zip(ALL, reports) if has(report, cases, of_basis)]
        rows[of_basis].append([text + SOURCES[of_basis], " ".join(clauses), ", ".join(tools)])
    return sum(rows.values(), [])


def is_in_the_page(row):
    """Whether the documentation expects the behavior, or data can get lost or out."""
    return row[0].endswith(")") or row[1] in ("P4", "W5", "X1", "X3")


def clause_of(result, failure):
    return failure.get("clause") or result["clauses"][0]


def expected_by(reports, cases):
    """Who expects what a tool does not do, from the strongest basis of a failed check."""
    results = [by_id(report)[case] for report in reports for case in cases if case in by_id(report)]
    failed = [result for result in results if result["outcome"] == "failed"]
    bases = [strongest(failed)] if failed else [basis for result in results for basis in result["bases"]]
    return min(bases, key=list(BASES).index, default="project")


def write_csv(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def program_of_cargo():
    subprocess.run(["cargo", "build", "--release", "-p", "memory-tool-conformance-cli"], check=True, cwd=ROOT)
    return TARGET / "release/memory-tool-conformance"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--filter", action="append", default=[])
    arguments.add_argument("--program", type=pathlib.Path)
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs")
    options = arguments.parse_args()

    program = options.program.resolve() if options.program else program_of_cargo()
    reports = []
    for driver in ALL:
        driver.install()
        reports.append(driver.run(program, options.filter))

    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest[rest.index("\n## "):]
    differences = findings(reports[:2])
    header = ["difference", "clause", "tool"]
    tables = "\n\n".join([versions(reports), totals(reports), table(header, filter(is_in_the_page, differences))])
    data = options.output / "sdk-comparison"
    data.mkdir(parents=True, exist_ok=True)
    (options.output / PAGE.name).write_text(f"{before}{START}\n{tables}\n{after}", encoding="utf-8")
    write_csv(data / "differences.csv", [header, *differences])
    header = ["case", "failed clauses", "basis", "variant", *(driver.name for driver in ALL)]
    write_csv(data / "cases.csv", [header, *failed_cases(reports)])

    wrong = sorted({case for report in reports[:2] for case in fails(report, "sdks")})
    if wrong:
        raise SystemExit(f"the basis `sdks` is wrong, because an SDK fails these cases: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
