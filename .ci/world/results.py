"""Results of checks, the known differences in known.toml, and the tables of the documentation."""

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


def text_of(results, known):
    """The result of a subject."""
    entries = [(result, known.get(result.subject, {}).get(result.check)) for result in results]
    notes = [(result.check, f"{entry['outcome']} ({entry['why']})") for result, entry in entries if entry]
    return "; ".join(note if len(results) == 1 else f"{check}: {note}" for check, note in notes) or WORKS


def table(part, known, results, update):
    """The lines of the table of a part that differ. A subject stays in it if it did not run, or failed."""
    path, mark = ROOT / part.PAGE, f"<!-- .ci/world {part.__name__} -->\n"
    before, _, rest = path.read_text("utf-8").partition(mark)
    rows, end, after = rest.partition("<!-- end -->")
    assert end, f"{part.PAGE} has no table between {mark.strip()} and <!-- end -->"
    rows = [row.removeprefix("| ").removesuffix(" |").split(" | ") for row in rows.splitlines()[2:]]
    old = {name.rpartition(" (")[0]: (text, name) for text, names in rows for name in names.split("; ")}
    new = {subject: old[subject] for subject in part.SUBJECTS if subject in old}
    for subject in part.SUBJECTS:
        if of_subject := [result for result in results if result.subject == subject]:
            new[subject] = text_of(of_subject, known), f"{subject} ({of_subject[0].version})"
    if update:
        groups = {WORKS: []}
        for subject in filter(new.__contains__, part.SUBJECTS):
            groups.setdefault(new[subject][0], []).append(new[subject][1])
        lines = [f"| {text} | {'; '.join(names)} |" for text, names in groups.items() if names]
        path.write_text("\n".join([f"{before}{mark}| result | {part.NOUN} |", "|---|---|", *lines, f"{end}{after}"]), "utf-8")
    return [f"{sign}{' | '.join(row)}" for sign, one, two in [("-", old, new), ("+", new, old)] for row in one.values() if row not in two.values()]
