//! `memory-tool search` on local disk, SQLite and an encrypted store.

use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use memory_tool_test_fixtures::session::{Outcome, Place, on_a_terminal, outcome, outcome_with, program};
use serde_json::{Value, json};

fn search(place: &Place, words: &[&str]) -> Command {
    let mut command = program();
    command.arg("search").args(words).arg("--store").arg(place.store());
    command
}

fn found(place: &Place, words: &[&str]) -> Outcome {
    outcome(&mut search(place, words))
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

fn printed(text: &str) -> Outcome {
    (Some(0), text.to_owned(), String::new())
}

#[test]
fn every_store_is_searched_and_the_status_tells_whether_something_was_found() {
    let (local, sqlite, encrypted) = (Place::new(), Place::new(), Place::new());
    let key = encrypted.outside("key").display().to_string();
    fs::write(&key, "01".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let path = |place: &Place| place.store().display().to_string();
    for store in [
        vec!["--store".to_owned(), path(&local)],
        vec!["--store".to_owned(), sqlite.sqlite("default")],
        vec!["--store".to_owned(), path(&encrypted), "--key-file".to_owned(), key],
    ] {
        let run = |words: &[&str], input: &str| outcome_with(program().args(words).args(&store), input.as_bytes());
        let missing = run(&["search", "tea"], "");
        assert_eq!((missing.0, missing.1.as_str()), (Some(2), ""));
        let text = "one\nGreen tea, black tea\nthree\r\n";
        let created = run(&["create", "/memories/drinks/tea.md", "--history"], text);
        assert_eq!(created.0, Some(0), "{created:?}");
        let replace = ["str_replace", "/memories/drinks/tea.md", "--old-str", "Green", "--new-str", "Red"];
        assert_eq!(run(&replace, "").0, Some(0));
        assert_eq!(run(&["search", "--case", "red TEA"], "").0, Some(1));
        assert_eq!(run(&["search", "red TEA"], ""), printed("/memories/drinks/tea.md:2:Red tea, black tea\n"));
        assert_eq!(run(&["search", "--at", "1", "green"], "").1, "/memories/drinks/tea.md:2:Green tea, black tea\n");
        assert_eq!(run(&["search", "green"], ""), (Some(1), String::new(), String::new()));
    }
}

#[test]
fn a_pipe_gets_paths_and_lines_as_of_ripgrep() {
    let place = place_with(&[("a/tea.md", "1\ntea 2\n3\n4\n5\nTea 6"), ("b", "tea"), (".c", "tea")]);
    let hidden = "memory-tool: 1 hidden item not searched.\n".to_owned();
    let shown = |words: &[&str], text: &str| {
        let (status, output, errors) = found(&place, words);
        assert_eq!((status, output.as_str(), &errors), (Some(0), text, &hidden), "{words:?}");
    };
    shown(&["--text", "tea"], "/memories/a/tea.md:2:tea 2\n/memories/a/tea.md:6:Tea 6\n/memories/b:1:tea\n");
    shown(&["--case", "Tea"], "/memories/a/tea.md:6:Tea 6\n");
    shown(&["-i", "Tea", "-l"], "/memories/a/tea.md\n/memories/b\n");
    shown(&["-s", "--names", "tea"], "/memories/a/tea.md\n");
    shown(
        &["-e", r"^\w+ \d$", "-B1"],
        "/memories/a/tea.md-1-1\n/memories/a/tea.md:2:tea 2\n--\n/memories/a/tea.md-5-5\n/memories/a/tea.md:6:Tea 6\n",
    );
    assert_eq!(found(&place, &["tea", "b"]), printed("/memories/b:1:tea\n"));
    assert_eq!(found(&place, &["tea", ".c", "/memories/b", "-C1"]).1, "/memories/.c:1:tea\n--\n/memories/b:1:tea\n");
    assert_eq!(found(&place, &["tea", "--hidden", "-l"]).1, "/memories/a/tea.md\n/memories/.c\n/memories/b\n");
    let (_, output, errors) = found(&place, &["tea", "--limit", "2"]);
    assert_eq!(output, "/memories/a/tea.md\n/memories/a/tea.md:2:tea 2\n");
    assert!(errors.contains("memory-tool: 2 more matches not shown, including 1 path with no match shown.\n"));
    let (status, output, _) = found(&place, &["--json", "tea 2", "a"]);
    let report: Value = serde_json::from_str(&output).unwrap();
    let line = json!({"number": 2, "is_match": true, "text": "tea 2", "cut_before": 0, "cut_after": 0});
    assert_eq!((status, &report["results"][0]["lines"]), (Some(0), &json!([line])));
    let pair = place_with(&[("acme/contact", "Renée\n0170-5551234"), ("other", "acme\n0170 555")]);
    assert_eq!(found(&pair, &["acme 01705551234"]), printed("/memories/acme/contact:2:0170-5551234\n"));
    assert_eq!(found(&pair, &["renee ACME"]), printed("/memories/acme/contact:1:Renée\n"));
    assert_eq!(found(&pair, &["acme 555", "--lines"]).0, Some(1));
    assert_eq!(found(&pair, &["\"acme 0170\""]).0, Some(1));
    let long = place_with(&[("a", &format!("{}tea", "é".repeat(400)))]);
    assert_eq!(found(&long, &["tea", "-M", "5"]).1, "/memories/a:1:[... 398 more]éétea\n");
    assert_eq!(found(&long, &["tea", "-M0"]).1, format!("/memories/a:1:{}tea\n", "é".repeat(400)));
}

#[test]
fn a_terminal_gets_headings_colors_and_escapes() {
    let place = place_with(&[("tea.md", "a \u{1b}[2J\u{202e}tea\n")]);
    let shown = |color: Option<&str>| {
        let mut command = search(&place, &["tea"]);
        command.env_remove("NO_COLOR").envs(color.map(|value| ("NO_COLOR", value)));
        let output = on_a_terminal(&command).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
    };
    let heading = "\u{1b}[35m/memories/\u{1b}[m\u{1b}[1;31mtea\u{1b}[m\u{1b}[35m.md\u{1b}[m\n";
    let line = "\u{1b}[32m1\u{1b}[m:a \\u{1b}[2J\\u{202e}\u{1b}[1;31mtea\u{1b}[m\n";
    assert_eq!(shown(None), format!("{heading}{line}"));
    assert_eq!(shown(Some("1")), "/memories/tea.md\n1:a \\u{1b}[2J\\u{202e}tea\n");
}

#[test]
fn dates_select_files() {
    let place = place_with(&[("new", "tea"), ("old", "tea")]);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000); // 2001-09-09T01:46:40Z
    File::open(place.file("old")).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    for (words, name) in [
        (["--since", "24h"], "new"),
        (["--before", "24h"], "old"),
        (["--since", "2001-09-09T01:46:41Z"], "new"),
        (["--before", "2001-09-09 01:46:41"], "old"),
    ] {
        assert_eq!(found(&place, &["tea", words[0], words[1]]), printed(&format!("/memories/{name}:1:tea\n")));
    }
    let (status, _, errors) = found(&place, &["tea", "--since", "soon"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("expected a time such as 2026-11-26T10:00:00Z, or an age such as 24h"), "{errors}");
}

#[test]
fn files_that_are_not_searched_are_reported() {
    let place = place_with(&[("binary", "tea\0"), ("tab\there", "tea"), ("text", "tea")]);
    fs::write(place.file("").join(std::ffi::OsStr::from_bytes(b"\xff")), "tea").unwrap();
    let (status, output, errors) = found(&place, &["tea"]);
    assert_eq!((status, output.as_str()), (Some(0), "/memories/text:1:tea\n"));
    let notes = "memory-tool: 1 item not searched, not text: /memories/binary.\n\
                 memory-tool: 2 items not searched, with an illegal name: /memories/tab\\there, /memories/\u{fffd}.\n";
    assert_eq!(errors, notes);
}

const TOO_LARGE: &str = "memory-tool: the regular expression is too large: use shorter repetitions, or [a-z] instead \
                         of a class such as \\w\n";

#[test]
fn mistakes_are_named() {
    let place = place_with(&[("a", "tea")]);
    for (words, error) in [
        (&["-e", "(a"][..], "memory-tool: the regular expression is invalid: unclosed group (at character 1)\n"),
        (&["-e", r"(\w{500}){500}"], TOO_LARGE),
        (&[""], "memory-tool: the pattern is empty\n"),
        (&["tea", "b.md"], "memory-tool: /memories/b.md does not exist\n"),
    ] {
        assert_eq!(found(&place, words), (Some(2), String::new(), error.to_owned()));
    }
    let (status, _, errors) = found(&place, &["tea", "/memories/../a"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("would escape /memories directory"), "{errors}");
}
