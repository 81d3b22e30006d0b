//! The table in `docs/languages.md` has the public names of the handle in Rust.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../docs/languages.md");
const PUBLIC_API: &str = include_str!("../../crates/memory-tool/public-api.txt");

/// The names in the column for Rust.
fn names_in_table() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| row.split('|').nth(2).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The methods of a type, without those of traits that it implements.
fn methods(of: &str) -> BTreeSet<&'static str> {
    let prefix = format!("fn memory_tool::{of}::");
    let name = |line: &'static str| line.split_once(&prefix)?.1.split(['(', '<']).next();
    PUBLIC_API.lines().filter_map(name).filter(|name| !["clone", "fmt"].contains(name)).collect()
}

#[test]
fn the_table_has_every_method_of_the_handle_and_no_other_name() {
    let (others, named): (BTreeSet<_>, BTreeSet<_>) =
        names_in_table().into_iter().partition(|name| name.contains("::"));
    let methods_of_handle = methods("Memory");
    let (missing, unknown) = (&methods_of_handle - &named, &named - &methods_of_handle);
    assert!(missing.is_empty() && unknown.is_empty(), "the table needs {missing:?}, and has other names: {unknown:?}");
    assert!(!others.is_empty());
    for name in others {
        let (of, method) = name.split_once("::").unwrap();
        assert!(methods(of).contains(method), "{name}");
    }
}
