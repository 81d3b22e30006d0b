//! The commands `ls`, `cat`, `append`, `mv` and `rm`, on local disk, SQLite and an encrypted store.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use memory_tool_test_fixtures::session::{Outcome, Place, outcome, outcome_with, program};
use serde_json::json;

use crate::history::{Store, entries};
use crate::terminal::typed_into;

const ESCAPES: &str = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}x\n";

impl Store {
    /// A store with the files `a.md`, `d/b.md`, `d/e/c.md` and `d/.hidden`.
    fn with_files(self) -> Self {
        for (path, text) in [("a.md", "one\n"), ("d/b.md", "two"), ("d/e/c.md", "three"), ("d/.hidden", "four")] {
            self.run(&["create", path, "--text", text]);
        }
        self
    }

    /// The exit status and the error of a command without output.
    fn refuse(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let (status, output, errors) = outcome(&mut self.command(arguments));
        assert_eq!(output, "", "{arguments:?}");
        (status, errors)
    }
}

fn refused(error: &str) -> (Option<i32>, String) {
    (Some(1), format!("memory-tool: {error}\n"))
}

#[test]
fn ls_lists_names_levels_and_sizes() {
    for store in Store::all() {
        let store = store.with_files();
        assert_eq!(store.run(&["ls"]), "a.md\nd/\n");
        assert_eq!(store.run(&["ls", "/memories/d/", "a.md"]), "/memories/a.md\n\n/memories/d:\nb.md\ne/\n");
        assert_eq!(store.run(&["ls", "-a", "d"]), ".hidden\nb.md\ne/\n");
        let all = "/memories:\na.md\nd/\n\n/memories/d:\nb.md\ne/\n\n/memories/d/e:\nc.md\n";
        assert_eq!(store.run(&["ls", "-R"]), all);
        let printed = entries(&store.run(&["ls", "--json"]));
        let fields = printed.iter().map(|item| json!([item["path"], item["type"], item["size"]]));
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [json!(["/memories/a.md", "file", 4]), json!(["/memories/d", "directory", 8])]
        );
        let missing = store.command(&["ls", "none", "a.md"]).output().unwrap();
        assert_eq!((missing.status.code(), missing.stdout.as_slice()), (Some(2), &b"/memories/a.md\n"[..]));
        assert_eq!(missing.stderr, b"memory-tool: /memories/none does not exist\n");
    }
}

#[test]
fn ls_prints_times_and_sorts_by_them() {
    let store = Store::all().remove(0).with_files();
    for (name, seconds) in [("a.md", 2), ("d/b.md", 3), ("d/e/c.md", 1)] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(store.place.file(name)).unwrap().set_modified(time).unwrap();
    }
    let long = "4  1970-01-01T00:00:02Z  a.md\n8  1970-01-01T00:00:03Z  d/\n";
    assert_eq!(store.run(&["ls", "-l"]), long);
    assert_eq!(store.run(&["ls", "-t"]), "d/\na.md\n");
    assert_eq!(store.run(&["ls", "-S", "d"]), "e/\nb.md\n");
    assert_eq!(store.run(&["ls", "-lt", "d"]), "3  1970-01-01T00:00:03Z  b.md\n5  1970-01-01T00:00:01Z  e/\n");
    // Other programs can set any time.
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(10);
    File::options().write(true).open(store.place.file("a.md")).unwrap().set_modified(before_1970).unwrap();
    assert_eq!(store.run(&["ls", "-l", "a.md"]), format!("4  {:<20}  /memories/a.md\n", "-"));
}

#[test]
fn ls_reports_items_that_cannot_be_listed() {
    let store = Store::all().remove(0).with_files();
    fs::write(store.place.file("d/\u{1b}[2J"), "").unwrap();
    let (status, output, errors) = outcome(&mut store.command(&["ls", "d"]));
    assert_eq!((status, output.as_str()), (Some(1), "b.md\ne/\n"));
    let reason = "cannot be listed: its name is not legal in a path of the memory";
    assert_eq!(errors, format!("memory-tool: /memories/d/\\u{{1b}}[2J {reason}\n"));
}

#[test]
fn cat_prints_bytes_and_goes_on_after_an_error() {
    for store in Store::all() {
        let store = store.with_files();
        store.run(&["create", "e", "--text", ESCAPES]);
        let (status, output, errors) = outcome(&mut store.command(&["cat", "a.md", "none", "d", "e"]));
        assert_eq!((status, output), (Some(1), format!("one\n{ESCAPES}")));
        assert_eq!(
            errors,
            "memory-tool: /memories/none does not exist\nmemory-tool: /memories/d is a directory, not a file\n"
        );
        let (status, shown) = typed_into(&store.command(&["cat", "e"]), "");
        assert_eq!((status, shown.as_str()), (Some(0), "\\u{1b}]0;title\\u{7}\\u{9b}2J\\u{202e}x\n"));
    }
    let store = Store::all().remove(0).with_files();
    fs::write(store.place.file("bytes"), b"\0\xff").unwrap();
    assert_eq!(store.command(&["cat", "bytes"]).output().unwrap().stdout, b"\0\xff");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let store = Store::all().remove(0);
    fs::create_dir_all(store.place.file("")).unwrap();
    fs::write(store.place.file("large"), "x".repeat(1 << 20)).unwrap();
    let mut process = store.command(&["cat", "large", "large"]);
    let mut process = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let mut errors = String::new();
    process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((process.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn cat_prints_a_file_of_the_past() {
    for store in Store::all() {
        store.run(&["create", "a", "--text", "old", "--history"]);
        store.run(&["append", "a", "new"]);
        assert_eq!(store.run(&["cat", "a", "--at", "1"]), "old");
        assert_eq!(store.run(&["cat", "a"]), "old\nnew\n");
        assert_eq!(store.refuse(&["cat", "b", "--at", "1"]), refused("/memories/b was not a file after entry 1"));
    }
}

#[test]
fn append_adds_whole_lines() {
    for store in Store::all() {
        let store = store.with_files();
        store.run(&["append", "d/b.md", "and", "more"]);
        let mut append = program();
        append.arg("append").args(&store.options).args(["d/b.md", "--", "- a bullet"]);
        assert_eq!(outcome(&mut append), (Some(0), String::new(), String::new()));
        assert_eq!(store.run(&["cat", "d/b.md"]), "two\nand more\n- a bullet\n");
        for (input, text) in [("x\ny", "x\ny\n"), ("", "x\ny\n"), ("\n", "x\ny\n\n")] {
            let done = outcome_with(&mut store.command(&["append", "new/file"]), input.as_bytes());
            assert_eq!(done, (Some(0), String::new(), String::new()));
            assert_eq!(store.run(&["cat", "new/file"]), text);
        }
        assert_eq!(store.refuse(&["append", "d", "x"]), refused("/memories/d is a directory, not a file"));
        let nul = outcome_with(&mut store.command(&["append", "a.md"]), b"x\0");
        assert_eq!((nul.0, nul.2.as_str()), (Some(1), "memory-tool: the text contains U+0000\n"));
    }
    let store = Store::all().remove(0).with_files();
    fs::write(store.place.file("bytes"), b"\xff").unwrap();
    assert_eq!(store.refuse(&["append", "bytes", "x"]), refused("/memories/bytes is not UTF-8 text"));
}

#[test]
fn no_appended_line_is_lost() {
    const LINES: usize = 24;
    for store in Store::all() {
        store.run(&["create", "other", "--text", ""]);
        let writers: Vec<_> = (0..LINES)
            .map(|number| store.command(&["append", "log", &format!("line {number}")]).spawn().unwrap())
            .collect();
        assert!(writers.into_iter().all(|mut writer| writer.wait().unwrap().success()));
        let text = store.run(&["cat", "log"]);
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<_> = (0..LINES).map(|number| format!("line {number}")).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }
}

#[test]
fn mv_moves_into_a_mounted_memory_and_back() {
    for store in Store::all() {
        let store = store.with_files();
        let team = tempfile::tempdir().unwrap();
        let team = team.path().join("team").display().to_string();
        let _team = store.elsewhere(&team).with_files();
        let mount = format!("/memories/team={team}");
        let run = |arguments: &[&str]| store.run(&[arguments, &["--mount", &mount]].concat());
        run(&["mv", "a.md", "d/b.md", "team/new/"]);
        run(&["mv", "d/e", "team/new/e"]);
        assert_eq!(store.run(&["ls", "-R"]), "/memories:\n");
        assert_eq!(
            run(&["ls", "-R", "team/new"]),
            "/memories/team/new:\na.md\nb.md\ne/\n\n/memories/team/new/e:\nc.md\n"
        );
        run(&["mv", "team/new/e", "own"]);
        assert_eq!(store.run(&["ls", "own"]), "c.md\n");
        // No option replaces a file of another memory.
        let existing = "/memories/team/new/b.md already exists";
        let refuse = |arguments: &[&str]| store.refuse(&[arguments, &["--mount", &mount]].concat());
        assert_eq!(refuse(&["mv", "own/c.md", "team/new/b.md"]), refused(existing));
        assert!(refuse(&["mv", "-f", "own/c.md", "team/new/b.md"]).1.contains("are in different stores"));
    }
}

#[test]
fn mv_renames_and_keeps_names_in_directories() {
    for store in Store::all() {
        let store = store.with_files();
        store.run(&["mv", "a.md", "c.md"]);
        store.run(&["mv", "c.md", "d"]);
        assert_eq!(store.run(&["ls", "d"]), "b.md\nc.md\ne/\n");
        store.run(&["mv", "d/b.md", "d/e", "new/"]);
        assert_eq!(store.run(&["ls", "-R", "new"]), "/memories/new:\nb.md\ne/\n\n/memories/new/e:\nc.md\n");
        let exists = "/memories/new/b.md already exists; -f replaces a file";
        assert_eq!(store.refuse(&["mv", "d/c.md", "new/b.md"]), refused(exists));
        store.run(&["mv", "-f", "d/c.md", "new/b.md"]);
        assert_eq!(store.run(&["cat", "new/b.md"]), "one\n");
        store.run(&["append", "other/b.md/x", "x"]);
        for (arguments, error) in [
            (
                &["new/b.md", "none/x", "absent"][..],
                "/memories/absent is not a directory; /memories/absent/ creates it",
            ),
            (&["none", "x"], "/memories/none does not exist"),
            (&["-f", "none", "new/b.md"], "/memories/none does not exist"),
            (&["-f", "new/b.md", "other"], "/memories/other/b.md is a directory, not a file"),
            (&["-f", "new/e", "new/b.md"], "cannot replace the file /memories/new/b.md by a directory"),
            (&["new/e", "new/b.md/"], "/memories/new/b.md is a file, not a directory"),
            (&["new", "new/e"], "cannot move /memories/new to /memories/new/e/new, which is the same or in it"),
            (&["new/b.md", "new"], "cannot move /memories/new/b.md to /memories/new/b.md, which is the same or in it"),
            (&["new/b.md", "other/b.md", "d"], "cannot move two files to /memories/d/b.md"),
            (&[".", "x"], "cannot move /memories itself"),
        ] {
            assert_eq!(store.refuse(&[&["mv"], arguments].concat()), refused(error), "{arguments:?}");
        }
        // Nothing was moved by the refused commands.
        assert_eq!(store.run(&["ls", "-R", "new"]), "/memories/new:\nb.md\ne/\n\n/memories/new/e:\nc.md\n");
    }
}

#[test]
fn rm_removes_all_paths_or_nothing() {
    for store in Store::all() {
        let store = store.with_files();
        let directory = "/memories/d is a directory; -r removes it with everything in it";
        assert_eq!(store.refuse(&["rm", "a.md", "d"]), refused(directory));
        assert_eq!(store.refuse(&["rm", "a.md", "none"]), refused("/memories/none does not exist"));
        assert_eq!(store.refuse(&["rm", "-rf", "."]), refused("cannot remove /memories itself"));
        assert_eq!(store.run(&["ls"]), "a.md\nd/\n");
        store.run(&["rm", "-rf", "d", "none", "d/e/c.md", "d"]);
        assert_eq!(store.run(&["ls", "-a"]), "a.md\n");
        store.run(&["rm", "a.md"]);
        assert_eq!((store.run(&["ls"]), store.run(&["rm", "-f", "a.md"])), (String::new(), String::new()));
    }
}

#[test]
fn rm_asks_on_a_terminal() {
    let store = Store::all().remove(0).with_files();
    for keys in ["n\n", "\n", "\u{4}"] {
        let (status, shown) = typed_into(&store.command(&["rm", "-r", "d", "a.md"]), keys);
        assert_eq!(status, Some(1), "{shown}");
        assert!(shown.contains("remove /memories/a.md, /memories/d/ with 3 files? [y/N] "), "{shown}");
        assert!(shown.ends_with("memory-tool: nothing was removed\n"), "{shown}");
    }
    assert_eq!(store.run(&["ls"]), "a.md\nd/\n");
    assert_eq!(typed_into(&store.command(&["rm", "a.md"]), "y\n").0, Some(0));
    assert_eq!(typed_into(&store.command(&["rm", "-rf", "d"]), ""), (Some(0), String::new()));
    assert_eq!(store.run(&["ls", "-a"]), "");
}

#[test]
fn the_history_has_the_command_and_the_actor() {
    for store in Store::all() {
        store.run(&["create", "a", "--text", "", "--history"]);
        store.run(&["append", "a", "x", "--actor", "ann"]);
        store.run(&["mv", "a", "b", "--actor", "bob"]);
        store.command(&["edit", "b", "--actor", "eve"]).env("VISUAL", "sh -c 'echo y >> $1' x").output().unwrap();
        store.run(&["rm", "b"]);
        let log = entries(&store.run(&["log", "--json"]));
        let made: Vec<_> = log.iter().map(|entry| json!([entry["command"], entry["actor"]])).collect();
        assert_eq!(json!(made[..4]), json!([["rm", null], ["edit", "eve"], ["mv", "bob"], ["append", "ann"]]));
        store.run(&["undo", "-n", "2"]);
        assert_eq!(store.run(&["cat", "b"]), "x\n");
    }
}

#[test]
fn policies_apply() {
    let store = Store::all().remove(0).with_files();
    let log = store.place.outside("audit");
    let log = log.to_str().unwrap();
    store.run(&["append", "a.md", "x", "--audit-log", log, "--actor", "ann"]);
    store.run(&["rm", "a.md", "--audit-log", log, "--actor", "ann"]);
    let records = entries(&fs::read_to_string(log).unwrap());
    let commands: Vec<_> = records.iter().map(|record| (&record["actor"], &record["command"])).collect();
    let (ann, append, rm) = (&json!("ann"), &json!("append"), &json!("rm"));
    assert_eq!(commands, [(ann, append), (ann, append), (ann, rm), (ann, rm)]);
    for (arguments, part) in [
        (&["append", "d/b.md", "too long", "--max-file-bytes", "5"][..], "the limit is 5"),
        (&["append", "d/b.md", "x", "--read-only"], "read-only"),
        (&["rm", "d/b.md", "--read-only"], "read-only"),
        (&["append", "d/b.md", "key AKIAQ3EGRIJUDWPXVKFZ", "--screen", "refuse"], "d/b.md"),
    ] {
        let (status, errors) = store.refuse(arguments);
        assert!(status == Some(1) && errors.contains(part), "{arguments:?}: {errors}");
    }
    assert_eq!(store.run(&["cat", "d/b.md"]), "two");
}

#[test]
fn a_path_may_lack_its_root() {
    let store = Store::all().remove(0).with_files();
    for path in ["/memories/d/b.md", "d/b.md", "./d/b.md", "memories/d/b.md"] {
        assert_eq!(store.run(&["cat", path]), "two");
        assert!(store.run(&["view", path]).contains("two"));
    }
    let host: Outcome = outcome(&mut store.command(&["cat", "/etc/passwd"]));
    let meant = "Path must start with /memories, got: /etc/passwd; did you mean /memories/etc/passwd?";
    assert!(host.0 == Some(2) && host.2.contains(meant), "{}", host.2);
    let absent = Place::new();
    let (status, _, errors) = outcome(program().args(["append", "a", "x", "--store"]).arg(absent.store()));
    assert!(status == Some(2) && errors.contains("there is no memory store") && !absent.store().exists(), "{errors}");
}
