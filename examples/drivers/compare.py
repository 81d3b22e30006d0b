"""Prints the tables of docs/sdk-comparison.md from two reports of `memory-tool conformance --format json`.

    python3 examples/drivers/compare.py python.json typescript.json >tables.md
"""

import json
import re
import sys

BASES = {
    "documentation": "Stated by the documentation",
    "sdks": "The documentation is silent, the SDKs agree",
    "project": "The documentation is silent: a choice of this project's contract",
}
MAX_REPLY = 160


def cell(text):
    """Formats text for a table cell: on one line, as code, and truncated."""
    text = without_directory(text)
    shown = text if len(text) <= MAX_REPLY else text[:MAX_REPLY] + "…"
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return "`` " + escaped.replace("|", "\\|") + " ``"


def without_directory(text):
    """Replaces the directory of a case, which differs between runs."""
    return re.sub(r"/[\w/.-]*memory-tool-test-\w+", "{dir}", text)


def verdict(result):
    if result["outcome"] == "passed":
        return "passes"
    if result["outcome"] == "ignored":
        return "not tested"
    failure = result["failures"][0]
    if failure.get("reply") is not None:
        return cell(failure["reply"])
    return without_directory(failure["message"].splitlines()[0]).replace("|", "\\|")


def variant(*results):
    for result in results:
        for failure in result.get("failures", []):
            if failure.get("variant"):
                return " with " + cell(failure["variant"])
    return ""


def by_clause(report):
    totals = {}
    for result in report["results"]:
        outcomes = totals.setdefault(result["clauses"][0], {"passed": 0, "failed": 0, "ignored": 0})
        outcomes[result["outcome"]] += 1
    return totals


def counted(totals):
    text = f"{totals['passed']} of {totals['passed'] + totals['failed']}"
    return text + (f", {totals['ignored']} not tested" if totals["ignored"] else "")


def main():
    reports = [json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3]]
    left, right = ({result["id"]: result for result in report["results"]} for report in reports)
    print("| clause | Python SDK passes | TypeScript SDK passes |\n|---|---|---|")
    columns = [by_clause(report) for report in reports]
    for clause in columns[0]:
        print(f"| {clause} | {counted(columns[0][clause])} | {counted(columns[1][clause])} |")
    print(f"| all | {counted(reports[0]['totals'])} | {counted(reports[1]['totals'])} |")
    for basis, title in BASES.items():
        cases = [id for id in left if left[id]["basis"] == basis]
        failed = [id for id in cases if "failed" in (left[id]["outcome"], right[id]["outcome"])]
        print(f"\n## {title}\n\n{len(cases)} cases. Both SDKs pass {len(cases) - len(failed)} of them.")
        if not failed:
            continue
        print("\n| case | what is tested | Python SDK | TypeScript SDK |\n|---|---|---|---|")
        for id in failed:
            case = left[id]
            about = case["reason"].replace("|", "\\|") + variant(left[id], right[id])
            print(f"| `{id}` {' '.join(case['clauses'])} | {about} | {verdict(left[id])} | {verdict(right[id])} |")


if __name__ == "__main__":
    main()
