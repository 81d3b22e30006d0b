//! The program on a terminal: questions, explanations and escapes.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use memory_tool_test_fixtures::session::{Place, on_a_terminal, program};
use serde_json::Value;

const CTRL_D: &str = "\u{4}";

/// Each of these hides text from a person: invisible and separating characters, and tags, which spell ASCII.
const HIDDEN: &str = "\u{200b}\u{2028}\u{2029}\u{feff}\u{ad}\u{202e}\u{e0041}\u{e007f}\u{e0100}\u{9b}2J";

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(arguments).arg("--store").arg(place.store());
    command
}

/// Runs the command on a terminal where a person types this. Returns the exit status and the text on the terminal.
fn typed(place: &Place, arguments: &[&str], keys: &str) -> (Option<i32>, String) {
    typed_into(&command(place, arguments), keys)
}

/// The same for any command.
pub(crate) fn typed_into(command: &Command, keys: &str) -> (Option<i32>, String) {
    let mut process = on_a_terminal(command).spawn().unwrap();
    process.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = process.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stderr), "");
    (status.code(), String::from_utf8(stdout).unwrap().replace("\r\n", "\n"))
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
fn a_terminal_shows_escapes_for_hidden_characters_and_a_pipe_gets_them() {
    let place = place_with(&[("a", &format!("tea{HIDDEN} 👩\u{200d}🚀\n"))]);
    let (status, shown) = typed(&place, &["view", "/memories/a"], "");
    assert_eq!(status, Some(0));
    assert!(!shown.contains(|character: char| HIDDEN.contains(character) && !character.is_ascii()), "{shown:?}");
    let escapes = "tea\\u{200b}\\u{2028}\\u{2029}\\u{feff}\\u{ad}\\u{202e}\\u{e0041}\\u{e007f}\\u{e0100}\\u{9b}2J";
    assert!(shown.contains(&format!("{escapes} 👩\u{200d}🚀\n")), "{shown:?}");
    let (_, json) = typed(&place, &["view", "/memories/a", "--json"], "");
    assert!(!json.contains(|character: char| HIDDEN.contains(character) && !character.is_ascii()), "{json:?}");
    let value: Value = serde_json::from_str(&json).unwrap();
    assert!(value["content"].as_str().unwrap().contains(&format!("tea{HIDDEN} ")), "{value}");

    let piped = command(&place, &["view", "/memories/a"]).output().unwrap().stdout;
    assert!(String::from_utf8(piped).unwrap().contains(&format!("tea{HIDDEN} ")));
}

#[test]
fn a_command_without_a_text_explains_what_it_waits_for() {
    let place = place_with(&[("b", "")]);
    for arguments in [&["create", "/memories/a"][..], &["insert", "/memories/b", "--insert-line", "0"]] {
        let (status, shown) = typed(&place, arguments, &format!("tea\n{CTRL_D}"));
        assert_eq!(status, Some(0), "{shown}");
        let explained = "memory-tool: reading the text from standard input; Ctrl-D ends it\n";
        assert!(shown.contains(explained), "{shown}");
        let piped = command(&place, &["create", "/memories/c", "--create-overwrites"]).stdin(Stdio::null()).output();
        assert_eq!(String::from_utf8(piped.unwrap().stderr).unwrap(), "");
    }
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "tea\n");
    let (status, shown) = typed(&place, &["run"], CTRL_D);
    assert_eq!(status, Some(0));
    assert!(shown.contains("reading one JSON value per line from standard input"), "{shown}");
    let (status, shown) = typed(&place, &["import", "-"], "");
    assert_eq!(status, Some(2));
    assert!(shown.contains("cannot read an archive from a terminal"), "{shown}");
}

#[test]
fn a_person_confirms_the_deletion_of_a_directory() {
    let place = place_with(&[("a/b", "1"), ("a/c/d", "2"), ("e", "3")]);
    let delete = ["delete", "/memories/a"];
    for keys in ["n\n", "\n", "nay\n", CTRL_D] {
        let (status, shown) = typed(&place, &delete, keys);
        assert_eq!(status, Some(1), "{shown}");
        assert!(shown.contains("delete /memories/a/ with 2 files? [y/N] "), "{shown}");
        assert!(shown.ends_with("memory-tool: nothing was deleted\n"), "{shown}");
    }
    assert!(place.file("a/c/d").exists());
    // There is no question for a file, for an error, with --yes, and without a terminal.
    let (status, shown) = typed(&place, &["delete", "/memories/e"], "");
    assert_eq!((status, shown.as_str()), (Some(0), "Successfully deleted /memories/e\n"));
    let (status, shown) = typed(&place, &["delete", "/memories"], "");
    assert_eq!((status, shown.as_str()), (Some(1), "Error: Cannot delete the /memories directory itself\n"));
    let (status, shown) = typed(&place, &delete, "Yes\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.ends_with("Successfully deleted /memories/a\n") && !place.file("a").exists(), "{shown}");
    for on_terminal in [true, false] {
        fs::create_dir(place.file("a")).unwrap();
        fs::write(place.file("a/b"), "").unwrap();
        if on_terminal {
            let (status, shown) = typed(&place, &["delete", "/memories/a", "--yes"], "");
            assert_eq!((status, shown.as_str()), (Some(0), "Successfully deleted /memories/a\n"));
        } else {
            let output = command(&place, &delete).stdin(Stdio::null()).output().unwrap();
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
        }
    }
}

#[test]
fn a_person_confirms_that_most_files_expire() {
    for (answer, status, kept) in [("n\n", Some(1), true), ("y\n", Some(0), false)] {
        let place = Place::new();
        for name in ["a", "b"] {
            let create = ["create", name, "--text", "text", "--expire-after", "60s"];
            assert!(command(&place, &create).status().unwrap().success());
        }
        std::thread::sleep(std::time::Duration::from_secs(3));
        let (found, text) = typed(&place, &["expire", "--expire-after", "1s"], answer);
        assert!(text.contains("remove 2 of 2 files of "), "{text}");
        assert!(text.contains("which were not used for 1 second? [y/N] "), "{text}");
        assert_eq!((found, place.file("a").exists()), (status, kept), "{text}");
    }
}
