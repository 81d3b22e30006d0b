//! Runs the program as the README does: each run continues with the memory of the previous one.

#![cfg(test)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anstyle_svg::{Term, WIN10_CONSOLE};
use tempfile::TempDir;

/// The program must have fewer lines.
const MAX_LINES: usize = 100;

/// Returns a command that runs the program in a directory, without variables that change its colors.
fn program(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_customer-service"));
    command.current_dir(directory).env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn first_run_writes_the_memory_and_later_runs_read_it() {
    let directory = TempDir::new().unwrap();
    let first = run(&mut program(directory.path()));
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
    let log = directory.path().join("customer-service-memory/memories/ticket_log.txt");
    let noted = fs::read_to_string(&log).unwrap();
    assert_eq!(noted.matches("4711").count(), 1, "{noted}");

    let second = run(&mut program(directory.path()));
    assert!(!second.contains("The day before:") && second.contains("Claude remembers"), "{second}");
    assert!(second.contains("2\t4711: broken in transit"), "the note of the first run is missing: {second}");
    assert_eq!(run(&mut program(directory.path())), second, "the third run differs from the second");
    assert_eq!(fs::read_to_string(&log).unwrap(), noted, "a later run changed the log");
    assert!(![first, second].concat().contains("Error"), "a command failed");
}

#[test]
fn claude_reads_edits_of_the_plain_files() {
    let directory = TempDir::new().unwrap();
    run(&mut program(directory.path()));
    fs::write(directory.path().join("customer-service-memory/memories/ticket_log.txt"), "4711: refunded\n").unwrap();
    let printed = run(&mut program(directory.path()));
    assert!(printed.contains("1\t4711: refunded\n"), "{printed}");
}

#[test]
fn colors_are_limited_to_terminals_and_output_is_readable() {
    let directory = TempDir::new().unwrap();
    let plain = run(&mut program(directory.path()));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    for escaped in [r"\n", r#"\""#, "tool_use"] {
        assert!(!plain.contains(escaped), "{escaped}: {plain}");
    }
    assert!(run(program(directory.path()).env("CLICOLOR_FORCE", "1")).contains('\u{1b}'));
    assert!(!run(program(directory.path()).env("NO_COLOR", "1")).contains('\u{1b}'));
}

#[test]
fn the_program_is_short_and_documents_its_command() {
    let source = include_str!("../src/main.rs");
    assert!(source.lines().count() < MAX_LINES, "{}", source.lines().count());
    let command = "`cargo run -p customer-service`";
    assert!(source.contains(&format!("//! Run it: {command}\n")));
    for page in [include_str!("../../README.md"), include_str!("../../../README.md")] {
        assert!(page.contains(command.trim_matches('`')), "{page}");
    }
}

/// The output of the second run of the README's first command, and a file that Claude wrote. `UPDATE_PICTURE=1` draws
/// them.
#[test]
fn the_picture_of_the_readme_is_current() {
    const PROMPT: &str = "\u{1b}[1m$\u{1b}[0m";
    let directory = TempDir::new().unwrap();
    let run = || run(program(directory.path()).env("CLICOLOR_FORCE", "1"));
    run(); // fills the memory
    let (second, log) = (run(), "customer-service-memory/memories/ticket_log.txt");
    let text = fs::read_to_string(directory.path().join(log)).unwrap();
    let session = format!("{PROMPT} cargo run -p customer-service\n{second}\n{PROMPT} cat {log}\n{}", text.trim_end());
    let without_tabs = session.replace('\t', "    "); // SVG has no tab stops
    let drawn = Term::new().palette(WIN10_CONSOLE).render_svg(&without_tabs);

    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terminal.svg");
    if env::var_os("UPDATE_PICTURE").is_some() {
        fs::write(&picture, &drawn).unwrap();
    }
    assert!(fs::read_to_string(picture).unwrap() == drawn, "set UPDATE_PICTURE=1 to draw docs/terminal.svg again");
}
