//! The table of cases: every clause has a case, ids are unique, and `CASES.md` is up to date.
//!
//! `UPDATE_CASES=1 cargo test -p memory-tool-conformance --test it` regenerates `CASES.md`. Removing an id is a
//! breaking change: see "Versioning" in `docs/conformance.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use memory_tool_conformance::{Basis, Capability, Case, Clause, Suite};

#[test]
fn every_clause_for_backends_has_a_case() {
    // [W4] concerns the program that calls the API, not the backend.
    let expected: BTreeSet<_> = Clause::all().filter(|clause| clause.id() != "W4").collect();
    let cited: BTreeSet<_> = Suite::all_cases().into_iter().flat_map(|case| case.clauses).collect();
    assert_eq!(expected, cited);
}

#[test]
fn ids_are_unique_and_well_formed() {
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
fn every_case_has_a_reason_of_one_line() {
    for Case { id, reason, clauses, .. } in Suite::all_cases() {
        assert!(!clauses.is_empty(), "{id} tests no clause");
        assert!(reason.len() > 20 && !reason.contains('\n') && !reason.ends_with('.'), "{id}: {reason}");
    }
}

#[test]
fn the_list_of_cases_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("CASES.md");
    let list = list_of_cases();
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&file, &list).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), list, "set UPDATE_CASES=1 to regenerate it");
}

fn list_of_cases() -> String {
    let cases = Suite::all_cases();
    let mut list = String::from(
        "# Cases\n\nGenerated from the suite. `docs/conformance.md` in the repository explains the columns.\n",
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
        let needs = case.needs.iter().map(Capability::to_string).collect::<Vec<_>>().join(", ");
        let bases = case.bases.iter().map(Basis::to_string).collect::<Vec<_>>().join(", ");
        let reason = case.reason.replace('|', "\\|");
        writeln!(list, "| `{}` | {clauses} | {bases} | {needs} | {reason} |", case.id).unwrap();
    }
    list
}
