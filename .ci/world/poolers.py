"""Poolers in front of PostgreSQL: tests of `testing/postgres`, whose servers are real."""

import functools
import os
import re
import subprocess

from programs import ROOT
from results import WORKS

PAGE, NOUN = "crates/postgres/README.md", "pooler"
SUBJECTS = {
    **{f"PgBouncer, {mode} mode": ["debian:pgbouncer", "debian:postgresql", "program:cargo"] for mode in ["session", "transaction", "statement"]},
    **{f"pgpool-II with {kind}": ["debian:pgpool2", "debian:postgresql", "program:cargo"]
       for kind in ["a standby", "`read_only_function_list = '.*'`"]},
}
PGBOUNCER, STANDBY, FUNCTIONS = "PgBouncer, transaction mode", *list(SUBJECTS)[-2:]
# The tests, and what they show: the subject, the check, and the outcome of a test that passes.
INSERTS = "inserts_of_8_processes_are_all_kept_in_order::"
TESTS = {
    **{f"{INSERTS}pgbouncer::{mode}": (f"PgBouncer, {mode} mode", "inserts of 8 processes") for mode in ["session", "transaction", "statement"]},
    f"{INSERTS}pgpool": (STANDBY, "inserts of 8 processes"),
    "linearizable::clients_of_a_pooler_are_killed": (PGBOUNCER, "killed clients"),
    "linearizable::pgpool_is_killed": (STANDBY, "killed pooler"),
    "poolers::tenants_on_one_pooled_connection_never_see_each_other": (PGBOUNCER, "tenants on one connection"),
    "poolers::a_command_that_is_dropped_leaves_no_transaction_on_the_pooled_connection": (PGBOUNCER, "dropped commands"),
    "poolers::a_full_pooler_is_busy": (PGBOUNCER, "a full pool is busy"),
    "poolers::the_error_of_a_pooler_after_a_commit_is_not_taken_for_a_refusal": (PGBOUNCER, "an error after a commit"),
    "poolers::a_standby_that_is_behind_does_not_respond": (STANDBY, "reads its writes"),
    "poolers::a_standby_that_gets_changes_refuses_them_and_no_read_is_stale": (FUNCTIONS, "changes", "refused"),
}


def run(target, tier, *words):
    words = ["cargo", "test", "-p", "memory-tool-test-postgres", "--test", target, "--", *words]
    environment = {**os.environ, "MEMORY_TOOL_TESTS": tier}
    return subprocess.run(words, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


@functools.cache
def everything():
    """Subjects, checks and outcomes."""
    printed = "".join(run("processes", "long", name) for name in ["pgbouncer", "pooler", "pgpool"])
    printed += run("operations", "full", "--show-output", "poolers::")
    passed = {name: mark for name, mark in re.findall(r"^test (\S+) +\.\.\. (\w+)", printed, re.MULTILINE)}
    found = [(subject, check, *wanted) if passed.get(test) == "ok" else (subject, check, f"failed: {test} {passed.get(test)}")
             for test, (subject, check, *wanted) in TESTS.items()]
    # The lines of `each_mode_and_isolation_works_or_is_refused`.
    found += re.findall(r"^(PgBouncer, \w+ mode): (default isolation [\w ]+): (\w+)$", printed, re.MULTILINE)
    if any(outcome != "ok" for outcome in passed.values()) or not passed:
        print(printed[-10_000:])
    return found


def checks(name):
    for subject, check, *outcome in everything():
        if subject == name:
            yield check, outcome[0] if outcome else WORKS
