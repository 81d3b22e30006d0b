//! The program as the README runs it: each run goes on from what the runs before it left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// An example is shorter than this.
const MAX_LINES: usize = 100;

/// The program, ready to run in a directory without anything of the environment that changes its colors.
fn program(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_customer-service"));
    command.current_dir(directory).env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
    command
}

/// What a run prints.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_run_writes_the_memory_and_the_later_ones_answer_from_it() {
    let place = TempDir::new().unwrap();
    let first = printed(&mut program(place.path()));
    for part in [
        "The day before:",
        "A ticket:",
        "create /memories/refund_policies.xml",
        "    insert_line: 1\n",
        "    → File created successfully at: /memories/ticket_log.txt\n",
        "customer-service-memory/memories/refund_policies.xml (",
        "Try next",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let log = place.path().join("customer-service-memory/memories/ticket_log.txt");
    let noted = fs::read_to_string(&log).unwrap();
    assert_eq!(noted.matches("4711").count(), 1, "{noted}");

    let second = printed(&mut program(place.path()));
    assert!(!second.contains("The day before:") && second.contains("Claude remembers"), "{second}");
    assert!(second.contains("2\t4711: broken in transit"), "it reads what the first run noted: {second}");
    assert_eq!(printed(&mut program(place.path())), second, "a third run is like the second");
    assert_eq!(fs::read_to_string(&log).unwrap(), noted, "and notes nothing twice");
    assert!(![first, second].concat().contains("Error"), "no command fails");
}

#[test]
fn an_edit_of_a_plain_file_is_what_claude_reads() {
    let place = TempDir::new().unwrap();
    printed(&mut program(place.path()));
    fs::write(place.path().join("customer-service-memory/memories/ticket_log.txt"), "4711: refunded\n").unwrap();
    let printed = printed(&mut program(place.path()));
    assert!(printed.contains("1\t4711: refunded\n"), "{printed}");
}

#[test]
fn colors_are_for_terminals_and_what_is_printed_is_for_people() {
    let place = TempDir::new().unwrap();
    let plain = printed(&mut program(place.path()));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    for escaped in [r"\n", r#"\""#, "tool_use"] {
        assert!(!plain.contains(escaped), "{escaped}: {plain}");
    }
    assert!(printed(program(place.path()).env("CLICOLOR_FORCE", "1")).contains('\u{1b}'));
    assert!(!printed(program(place.path()).env("NO_COLOR", "1")).contains('\u{1b}'));
}

#[test]
fn the_program_is_short_and_says_how_to_run_it() {
    let source = include_str!("../src/main.rs");
    assert!(source.lines().count() < MAX_LINES, "{}", source.lines().count());
    let command = "`cargo run -p customer-service`";
    assert!(source.contains(&format!("//! Run it: {command}\n")));
    for page in [include_str!("../../README.md"), include_str!("../../../README.md")] {
        assert!(page.contains(command.trim_matches('`')), "{page}");
    }
}
