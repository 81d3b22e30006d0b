//! `memory-tool lint`.

use std::fs;

use memory_tool::lint::LintRule;
use memory_tool_test_fixtures::session::{Outcome, Place, outcome, program};
use serde_json::{Value, json};

fn lint(place: &Place, words: &[&str]) -> Outcome {
    outcome(program().arg("lint").args(words).arg("--store").arg(place.store()))
}

fn place_with(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (name, text) in files {
        let file = place.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    place
}

#[test]
fn findings_are_printed_as_of_compilers_and_the_status_is_one() {
    let place = place_with(&[
        ("MEMORY.md", "- [a](a.md)\n- [b](b\u{200b}.md) [[\u{1b}c]]\n"),
        ("a.md", "<<<<<<< \n"),
        ("d", ""),
    ]);
    let invisible = "/memories/MEMORY.md:2: invisible: the line has an invisible character, U+200B\n";
    let broken = "/memories/MEMORY.md:2: broken-link: the link leads to no file: \\u{1b}c\n";
    let others = "/memories/d: orphan: no other file names this one\n/memories/d: empty: the file is empty\n";
    let printed = |text: String| (Some(1), text, String::new());
    assert_eq!(lint(&place, &[]), printed(format!("{broken}{invisible}{others}3 files: 4 findings\n")));
    let off = ["--off", "orphan", "--off", "empty", "--off", "invisible"];
    assert_eq!(lint(&place, &off), printed(format!("{broken}3 files: 1 finding\n")));
    let empty = "/memories/d: empty: the file is empty\n3 files: 1 finding\n".to_owned();
    assert_eq!(lint(&place, &["--only", "empty", "--only", "secret"]), printed(empty.clone()));
    assert_eq!(lint(&place, &["d", "--off", "orphan"]), printed(empty));
}

#[test]
fn without_findings_the_status_is_zero() {
    let place = place_with(&[("MEMORY.md", "- [a](a.md)\n"), ("a.md", "Likes tea.\n")]);
    assert_eq!(lint(&place, &[]), (Some(0), "2 files: 0 findings\n".to_owned(), String::new()));
    let (status, output, errors) = lint(&place, &["--json"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let expected = json!({"files": 2, "skipped": 0, "findings": [], "more": 0});
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), expected);
}

#[test]
fn json_has_each_finding_and_items_that_were_not_checked_are_counted() {
    let place = place_with(&[("a.md", "[b](b.md)"), ("c", "x\0")]);
    let (status, output, errors) = lint(&place, &["--json"]);
    let expected = json!({
        "files": 1,
        "skipped": 1,
        "findings": [
            {"rule": "broken-link", "path": "/memories/a.md", "line": 1, "message": "the link leads to no file: b.md"},
        ],
        "more": 0,
    });
    assert_eq!((status, serde_json::from_str::<Value>(&output).unwrap()), (Some(1), expected));
    assert_eq!(errors, "memory-tool: 1 item not checked: not readable, or not text\n");
}

#[test]
fn a_wrong_rule_and_a_missing_path_are_errors() {
    let place = place_with(&[("a.md", "x")]);
    let (status, output, errors) = lint(&place, &["--off", "orphans"]);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains("long-index, cut-view, cut-listing, orphan, broken-link"), "{errors}");
    let (status, output, errors) = lint(&place, &["b.md"]);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains("/memories/b.md"), "{errors}");
}

#[test]
fn the_help_has_each_rule() {
    let (_, help, _) = outcome(program().args(["lint", "--help"]));
    let rules = help.split_once("\nRules:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names: Vec<_> = rules.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")).collect();
    let names = names.into_iter().map(|(name, _)| name).filter(|name| !name.is_empty());
    assert!(names.eq(LintRule::ALL.iter().map(|rule| rule.name())), "{rules}");
}
