"""Results of checks, the known differences in known.toml, and the tables of the documentation."""

import re
import tomllib
import traceback
import typing

from programs import ROOT

WORKS = "works"


class Result(typing.NamedTuple):
    subject: str
    version: str
    check: str
    outcome: str


def attempt(function, *arguments):
    """The outcome of a check: the text that it returns, `works`, or its error."""
    try:
        return function(*arguments) or WORKS
    except Exception as error:  # noqa: BLE001, a check fails in any way
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"failed: {type(error).__name__} at {place.name}: {str(error)[:2000]}"


def unless(found, wanted):
    """Nothing if a check found what it wanted, or else what it found."""
    return None if found == wanted else str(found)


def known_differences():
    """`{part: {subject: {check: {outcome, since, why}}}}`"""
    return tomllib.loads((ROOT / ".ci/world/known.toml").read_text("utf-8"))


def problem(result, known):
    """Why a result is not known."""
    entry = known.get(result.subject, {}).get(result.check)
    if entry and result.outcome == WORKS:
        return f"works, but known.toml has `{entry['outcome']}`: remove the entry"
    if result.outcome not in (WORKS, entry and entry["outcome"]):
        return f"{result.outcome}\nneither works nor is in known.toml"
    return None


def unused(part, known, results):
    """Entries of known.toml for subjects that ran, without a result; and for unknown subjects."""
    found = {(result.subject, result.check) for result in results}
    ran = {result.subject for result in results} | (known.keys() - part.SUBJECTS.keys())
    entries = [(subject, check) for subject in ran & known.keys() for check in known[subject]]
    return [f"{subject}: {check}: in known.toml, but there is no such check" for subject, check in entries if (subject, check) not in found]


def row(results, known):
    """A subject, its version, and what differs."""
    subject, version = results[0][:2]
    notes = []
    for result in results:
        entry = known.get(subject, {}).get(result.check)
        if entry:
            note = f"{entry['outcome']} ({entry['why']})"
            notes.append(note if len(results) == 1 else f"{result.check}: {note}")
    return f"| {subject} | {version} | {'; '.join(notes) or WORKS} |"


def table(part, known, results, update):
    """Lines of the table of a part that differ. A row stays if its subject did not run, or failed."""
    path, mark = ROOT / part.PAGE, f"<!-- .ci/world {part.__name__} -->\n"
    before, _, rest = path.read_text("utf-8").partition(mark)
    old, end, after = rest.partition("<!-- end -->")
    assert end, f"{part.PAGE} has no table between {mark.strip()} and <!-- end -->"
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines()[2:]}
    of_subject = {subject: [result for result in results if result.subject == subject] for subject in part.SUBJECTS}
    new = [row(of_subject[subject], known) if of_subject[subject] else kept.get(subject) for subject in part.SUBJECTS]
    new = [f"| {part.COLUMNS} |", re.sub(r"[^|]+", "---", f"|{part.COLUMNS}|"), *filter(None, new)]
    changed = [f"-{line}" for line in old.splitlines() if line not in new]
    changed += [f"+{line}" for line in new if line not in old.splitlines()]
    if update:
        path.write_text(f"{before}{mark}" + "\n".join(new) + f"\n{end}{after}", "utf-8")
    return changed
