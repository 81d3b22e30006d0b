//! The table of cases: every clause has one, every id is one of its kind, and `CASES.md` is true.
//!
//! `UPDATE_CASES=1 cargo test -p memory-tool-conformance --test it` writes `CASES.md` anew. An id that is gone from it is a
//! breaking change: see "How cases are versioned" in `docs/conformance.md`.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use memory_tool_conformance::{Case, Clause, Need, Suite};

#[test]
fn every_clause_that_a_backend_can_keep_has_a_case() {
    // What [W4] says is for the program that calls the API: no backend has a part in it.
    let expected: BTreeSet<_> = Clause::all().filter(|clause| clause.id() != "W4").collect();
    let cited: BTreeSet<_> = Suite::all_cases().into_iter().flat_map(|case| case.clauses).collect();
    assert_eq!(expected, cited);
}

#[test]
fn ids_are_unique_and_of_one_form() {
    let cases = Suite::all_cases();
    let ids: BTreeSet<_> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    let is_word = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let is_plain = |id: &str| id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
    for id in ids {
        let (group, name) = id.split_once('.').unwrap();
        assert!(is_word(group) && !name.is_empty() && !name.contains('.') && is_plain(id), "{id}");
    }
}

#[test]
fn every_case_says_in_one_line_why_it_is_there() {
    for Case { id, reason, clauses, .. } in Suite::all_cases() {
        assert!(!clauses.is_empty(), "{id} tests no clause");
        assert!(reason.len() > 20 && !reason.contains('\n') && !reason.ends_with('.'), "{id}: {reason}");
    }
}

#[test]
fn the_list_of_cases_is_true() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("CASES.md");
    let list = list_of_cases();
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&file, &list).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), list, "set UPDATE_CASES=1 to write it anew");
}

fn list_of_cases() -> String {
    let cases = Suite::all_cases();
    let mut list = String::from(
        "# The cases\n\nMade from the table of the suite; `docs/conformance.md` in the repository says what the columns mean.\n",
    );
    writeln!(list, "{} cases.", cases.len()).unwrap();
    let mut group = "";
    for case in &cases {
        let (of_case, _) = case.id.split_once('.').unwrap();
        if of_case != group {
            group = of_case;
            write!(list, "\n## {group}\n\n| id | clauses | basis | needs | reason |\n|---|---|---|---|---|\n").unwrap();
        }
        let clauses = case.clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join(" ");
        let needs = case.needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ");
        let reason = case.reason.replace('|', "\\|");
        writeln!(list, "| `{}` | {clauses} | {} | {needs} | {reason} |", case.id, case.basis).unwrap();
    }
    list
}
