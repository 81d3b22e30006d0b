"""Writes the tables of docs/sdk-comparison.md from two reports of `memory-tool conformance --format json`.

    python3 examples/drivers/compare.py python.json typescript.json docs/sdk-comparison

`clauses.csv` counts the cases of each clause. `cases.csv` has a row for each case that one of the tools fails, with the
first failed variant and each tool's reply.
"""

import csv
import json
import pathlib
import re
import sys

MAX_REPLY = 160
BASES = ("documentation", "recommendation", "sdks", "project")
OUTCOMES = {"passed": "passed", "failed": "failed", "ignored": "not_tested"}


def line(text):
    """The text on one line, truncated, with the directory of the case as `{dir}` because its name changes in each run."""
    text = re.sub(r"/[\w/.-]*memory-tool-test-\w+", "{dir}", text)
    shown = text if len(text) <= MAX_REPLY else text[:MAX_REPLY] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def verdict(result):
    if result["outcome"] == "passed":
        return "passes"
    if result["outcome"] == "ignored":
        return "not tested"
    failure = result["failures"][0]
    if failure.get("reply") is not None:
        return line(failure["reply"])
    return line(failure["message"].splitlines()[0])


def variant(*results):
    for result in results:
        for failure in result.get("failures", []):
            if failure.get("variant"):
                return line(failure["variant"])
    return ""


def strongest(*results):
    """The strongest basis of a failed check."""
    failures = [failure for result in results for failure in result.get("failures", [])]
    bases = [failure["basis"] for failure in failures] if all(f["basis"] for f in failures) else results[0]["bases"]
    return min(bases, key=BASES.index)


def by_clause(report):
    totals = {}
    for result in report["results"]:
        outcomes = totals.setdefault(result["clauses"][0], dict.fromkeys(OUTCOMES, 0))
        outcomes[result["outcome"]] += 1
    return totals


def write(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main():
    reports = [json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3]]
    directory = pathlib.Path(sys.argv[3])
    directory.mkdir(exist_ok=True)

    header = ["clause", *(f"{name}_{outcome}" for name in ("python", "typescript") for outcome in OUTCOMES.values())]
    columns = [by_clause(report) for report in reports]
    rows = [[clause, *(column[clause][outcome] for column in columns for outcome in OUTCOMES)] for clause in columns[0]]
    rows.append(["all", *(report["totals"][outcome] for report in reports for outcome in OUTCOMES)])
    write(directory / "clauses.csv", header, rows)

    left, right = ({result["id"]: result for result in report["results"]} for report in reports)
    rows = [
        [id, " ".join(case["clauses"]), strongest(case, right[id]), variant(case, right[id]), verdict(case), verdict(right[id])]
        for id, case in left.items()
        if "failed" in (case["outcome"], right[id]["outcome"])
    ]
    rows.sort(key=lambda row: BASES.index(row[2]))
    write(directory / "cases.csv", ["case", "clauses", "basis", "variant", "python", "typescript"], rows)


if __name__ == "__main__":
    main()
