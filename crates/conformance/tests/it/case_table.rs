//! The table of cases: every clause has a case, and ids are unique. Removing an id is a breaking change: see
//! "Versioning" in `docs/conformance.md`.

use std::collections::BTreeSet;

use memory_tool_conformance::{Case, Clause, Suite};

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
