//! The commands for the history, on local disk, SQLite and an encrypted store.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use memory_tool_test_fixtures::session::{Place, Session, on_a_terminal, outcome, program};
use serde_json::{Value, json};

/// A store with its options for encryption.
pub(crate) struct Store {
    pub(crate) place: Place,
    pub(crate) options: Vec<String>,
}

impl Store {
    pub(crate) fn all() -> Vec<Self> {
        let (local, sqlite, encrypted) = (Place::new(), Place::new(), Place::new());
        let key = encrypted.outside("key").display().to_string();
        fs::write(&key, "01".repeat(32)).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let options_of = |store: String, rest: &[&str]| {
            [vec!["--store".to_owned(), store], rest.iter().map(|word| (*word).to_owned()).collect()].concat()
        };
        [
            (options_of(local.store().display().to_string(), &[]), local),
            (options_of(sqlite.sqlite("default"), &[]), sqlite),
            (options_of(encrypted.store().display().to_string(), &["--key-file", &key]), encrypted),
        ]
        .map(|(options, place)| Self { place, options })
        .into()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments).args(&self.options);
        command
    }

    /// Another store with the same options.
    pub(crate) fn elsewhere(&self, store: &str) -> Self {
        let mut options = self.options.clone();
        store.clone_into(&mut options[1]);
        Self { place: Place::new(), options }
    }

    /// The output of a command that succeeds.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let (status, output, errors) = outcome(&mut self.command(arguments));
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{arguments:?}");
        output
    }

    /// The error of a command that fails.
    fn fail(&self, arguments: &[&str]) -> String {
        let (status, output, errors) = outcome(&mut self.command(arguments));
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}");
        errors
    }

    /// A memory whose first session started a history.
    fn with_history(self) -> Self {
        let mut session = Session::start_as(&mut self.command(&["run", "--history", "--actor", "claude"]));
        session.succeed(&json!({"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n"}));
        session.close();
        self.run(&["str_replace", "/memories/a.md", "--old-str", "two", "--new-str", "2"]);
        self.run(&["rename", "/memories/a.md", "/memories/b.md"]);
        self
    }
}

pub(crate) fn entries(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_change_is_listed_shown_taken_back_and_made_again() {
    for store in Store::all() {
        let store = store.with_history();
        let log = entries(&store.run(&["log", "--json"]));
        assert!(log.iter().all(|entry| entry["time"].as_str().unwrap().ends_with('Z')), "{log:?}");
        let numbers: Vec<_> = log.iter().map(|entry| entry["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [3, 2, 1]);
        assert_eq!((&log[2]["actor"], &log[2]["command"]), (&json!("claude"), &json!("create")));
        assert_eq!(log[0]["changes"], json!([{"change": "rename", "from": "/memories/a.md", "to": "/memories/b.md"}]));

        let shown = store.run(&["show", "2"]);
        for part in ["entry 2\n", "Command: str_replace\n", "M /memories/a.md (6 bytes)\n", "\n-two\n+2\n"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(store.run(&["show", "1", "a.md"]), "one\ntwo\n");
        let difference = outcome(&mut store.command(&["diff", "0", "1"])).1;
        assert!(difference.starts_with("--- /dev/null\n+++ b/memories/a.md\n"), "{difference}");

        assert!(store.run(&["undo", "-n", "2", "--actor", "person"]).contains("Command: undo of entries 3, 2\n"));
        assert_eq!(store.run(&["show", "4", "a.md"]), "one\ntwo\n");
        assert!(store.run(&["redo"]).contains("redo of entry 4"));
        assert!(store.run(&["restore", "/memories", "--to", "1"]).contains("restore of the state after entry 1"));
        assert!(store.run(&["view", "/memories/a.md"]).contains("     2\ttwo\n"));
        assert_eq!(entries(&store.run(&["log", "b.md", "-n", "1", "--json"]))[0]["number"], 6);

        store.run(&["delete", "/memories/a.md"]);
        assert!(store.run(&["restore", "a.md"]).contains("restore of the state after entry 6"));
        assert_eq!(store.run(&["cat", "a.md"]), "one\ntwo\n");
    }
}

/// The actors of all changes, newest first.
fn actors(store: &Store) -> Vec<Value> {
    entries(&store.run(&["log", "--json"])).into_iter().map(|mut entry| entry["actor"].take()).collect()
}

#[test]
fn a_change_has_the_actor_of_the_environment_or_at_a_terminal_the_user() {
    let store = Store::all().remove(0);
    let change = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = store.command(arguments);
        command.envs([("USER", "ada")]).envs(variables.iter().copied());
        command
    };
    let of_agent = [("MEMORY_TOOL_ACTOR", "agent/7")];
    let create = |path: &'static str| ["create", path, "--text", "text", "--history"];
    for mut command in [
        change(&create("/memories/a"), &[]),
        change(&create("/memories/b"), &[("MEMORY_TOOL_ACTOR", "")]),
        change(&create("/memories/c"), &of_agent),
        change(&["undo", "--actor", "bob"], &of_agent),
        change(&["redo"], &of_agent),
        on_a_terminal(&change(&create("/memories/d"), &[])),
        on_a_terminal(&change(&["undo"], &[])),
        on_a_terminal(&change(&["redo"], &of_agent)),
    ] {
        let (status, output, _) = outcome(&mut command);
        assert_eq!(status, Some(0), "{output}");
    }
    let expected = json!(["agent/7", "ada", "ada", "agent/7", "bob", "agent/7", null, null]);
    assert_eq!(Value::from(actors(&store)), expected);

    let reason = ["--reason", "wrong file"];
    let mut edit = change(&[&["edit", "c"], &reason[..]].concat(), &[("VISUAL", "sh -c 'echo y >> $1' x")]);
    for command in [&mut edit, &mut change(&[&["undo"], &reason[..]].concat(), &of_agent)] {
        assert_eq!(outcome(command).0, Some(0));
    }
    let log = entries(&store.run(&["log", "-n", "2", "--json"]));
    let made: Vec<_> = log.iter().map(|entry| json!([entry["actor"], entry["reason"]])).collect();
    assert_eq!(json!(made), json!([["agent/7", "wrong file"], ["ada", "wrong file"]]));

    let (status, _, errors) = outcome(&mut change(&["undo"], &[("MEMORY_TOOL_ACTOR", "a\nb")]));
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("for '--actor <NAME>'"), "{errors}");
}

#[test]
fn entries_are_listed_between_two_moments() {
    let store = Store::all().remove(0).with_history();
    let numbers = |options: &[&str]| {
        let listed = entries(&store.run(&[&["log", "--json"], options].concat()));
        listed.iter().map(|entry| entry["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&["--since", "yesterday"]), [3, 2, 1]);
    assert_eq!(numbers(&["--since", "1h", "-n", "1"]), [3]);
    assert_eq!(numbers(&["--until", "1h"]), [0; 0]);
    let (status, _, errors) = outcome(&mut store.command(&["log", "--since", "soon"]));
    assert!(status == Some(2) && errors.contains("expected a time such as"), "{errors}");
}

#[test]
fn mistakes_are_named() {
    let store = Store::all().remove(0);
    store.run(&["create", "/memories/a.md", "--text", "text"]);
    for command in [&["undo"][..], &["restore", "a.md"], &["show", "1"], &["diff", "0"], &["redact", "1"]] {
        let expected = "memory-tool: the memory has no history: `memory-tool mcp` starts one, and other commands do \
                        with --history\n";
        assert_eq!(store.fail(command), expected, "{command:?}");
    }
    let store = Store::all().remove(0).with_history();
    assert!(store.fail(&["show", "4"]).contains("there is no entry 4; the newest is 3"));
    assert!(store.fail(&["show", "1", "b.md"]).contains("/memories/b.md was not a file after entry 1"));
    assert_eq!(store.fail(&["redo"]), "memory-tool: there is nothing to redo\n");
    assert_eq!(outcome(&mut store.command(&["log", "--by", "no"])).2, "memory-tool: no entry is by no\n");
    assert_eq!(store.fail(&["restore", "b.md", "--to", "3"]), "memory-tool: nothing differs\n");
    assert_eq!(
        store.fail(&["restore", "b.md"]),
        "memory-tool: /memories/b.md exists; choose the state to restore with --to, such as --to 24h\n"
    );
    assert_eq!(store.fail(&["restore", "no.md"]), "memory-tool: the history has no change of /memories/no.md\n");
    fs::write(store.place.file("b.md"), "by a person").unwrap();
    let refused = store.fail(&["undo", "--entry", "2"]);
    assert_eq!(
        refused,
        "memory-tool: a file has changed since: /memories/a.md; `memory-tool edit` changes single lines, and --force \
         replaces files and keeps their contents\n"
    );
    store.run(&["undo", "--entry", "2", "--force"]);
    assert_eq!(fs::read_to_string(store.place.file("a.md")).unwrap(), "one\ntwo\n");
    store.run(&["rm", "a.md"]);
    let removed = "memory-tool: entry 5 removed /memories/a.md; it is in the state after entry 4\n";
    assert_eq!(store.fail(&["show", "5", "a.md"]), removed);
}

#[test]
fn a_text_is_erased_from_files_and_history() {
    for store in Store::all() {
        let store = store.with_history();
        store.run(&["str_replace", "/memories/b.md", "--old-str", "one", "--new-str", "s3cr3t"]);
        store.run(&["create", "c.md", "--text", "s3cr3t, s3cr3t"]);
        store.run(&["str_replace", "/memories/b.md", "--old-str", "s3cr3t", "--new-str", "1"]);
        let log = store.run(&["log", "-S", "s3cr3t"]);
        assert!(log.contains("entry ") && store.run(&["log", "-S", "none of them"]).is_empty(), "{log}");
        let dry = store.run(&["redact", "--text", "s3cr3t", "--dry-run"]);
        let (file, entries) = ("/memories/c.md (2 places)", "entries 4, 5, 6");
        assert_eq!(dry, format!("would replace it in {file}\nwould erase it from {entries}\n"));
        let (status, output, errors) = outcome(&mut store.command(&["redact", "--text", "s3cr3t"]));
        assert_eq!((status, output), (Some(0), format!("replaced it in {file}\nerased it from {entries}\n")));
        assert!(errors.contains("backups"), "{errors}");
        assert_eq!(store.run(&["cat", "c.md"]), "[redacted], [redacted]");
        assert_eq!(store.run(&["show", "3", "b.md"]), "one\n2\n");

        let again = outcome(&mut store.command(&["redact", "--text", "s3cr3t"]));
        let not_found = "memory-tool: the text was not found; upper and lower case differ\n";
        assert_eq!(again, (Some(1), String::new(), not_found.to_owned()));
        store.run(&["mv", "b.md", "s3cr3t.md"]);
        let (status, output, errors) = outcome(&mut store.command(&["redact", "--text", "s3cr3t", "--json"]));
        let found: Value = serde_json::from_str(&output).unwrap();
        let expected = (Some(1), &json!(["/memories/s3cr3t.md"]), &json!([8]));
        assert_eq!((status, &found["names"], &found["entries"]), expected);
        assert!(errors.contains("the name /memories/s3cr3t.md contains the text: rename it"), "{errors}");
    }
}

#[test]
fn redacted_contents_are_gone_from_the_disk() {
    let store = Store::all().remove(0).with_history();
    store.run(&["str_replace", "/memories/b.md", "--old-str", "one", "--new-str", "s3cr3t"]);
    store.run(&["str_replace", "/memories/b.md", "--old-str", "s3cr3t", "--new-str", "1"]);
    let everything = || {
        let mut grep = Command::new("grep");
        grep.args(["-r", "s3cr3t"]).arg(store.place.store());
        outcome(&mut grep).1
    };
    assert!(everything().contains("/history/log/"));
    let redacted = outcome(&mut store.command(&["redact", "4", "5"]));
    assert!(redacted.1.contains("Command: redaction of entries 5, 4\n"), "{redacted:?}");
    assert!(redacted.2.contains("free blocks of the disk") && redacted.2.contains("backups"), "{redacted:?}");
    assert_eq!(everything(), "");
    assert!(store.run(&["log"]).contains("redacted"));
    let shown = outcome(&mut store.command(&["show", "2"]));
    assert_eq!((shown.0, shown.1.starts_with("entry 2\n")), (Some(0), true));
    assert_eq!(
        shown.2,
        "memory-tool: the contents of /memories/a.md are not known: they were not kept, or were redacted\n"
    );
    let differs = outcome(&mut store.command(&["diff", "3"]));
    let unknown = "memory-tool: /memories/b.md may differ: its contents on one side are not kept\n";
    assert_eq!(differs, (Some(1), String::new(), unknown.to_owned()));
    store.run(&["create", "other.md", "--text", "one"]);
    assert!(store.run(&["cat", "--at", "7", "other.md"]).contains("one"), "other files keep their past");
    assert!(store.run(&["verify"]).contains("no problems found"));
    let head = store.place.store().join(".memory-tool/records/history/head");
    fs::write(head, "damaged").unwrap();
    let verified = outcome(&mut store.command(&["verify"]));
    assert!(verified.0 == Some(1) && verified.1.contains("reading the history failed"), "{verified:?}");
    let repaired = outcome(&mut store.command(&["verify", "--repair"]));
    assert!(repaired.0 == Some(0) && repaired.2.contains("wrote the head again"), "{repaired:?}");
    store.run(&["create", "more.md", "--text", "one"]);
    assert_eq!(outcome(&mut store.command(&["redact", "--all"])).1, "");
    let (status, output, errors) = outcome(&mut store.command(&["log"]));
    assert_eq!((status, output.as_str()), (Some(0), ""));
    assert!(errors.starts_with("memory-tool: the memory has no history: "), "{errors}");
}

#[test]
fn the_past_of_one_file_is_erased() {
    let store = Store::all().remove(0).with_history();
    store.run(&["create", "d/ada.md", "--text", "a number"]);
    store.run(&["create", "d/bob.md", "--text", "another"]);
    store.run(&["delete", "d"]);
    store.run(&["undo"]);
    let (status, output, errors) = outcome(&mut store.command(&["redact", "--path", "d/ada.md"]));
    assert_eq!((status, output.contains("Command: redaction of entries ")), (Some(0), true), "{output}");
    assert!(errors.contains("backups"), "{errors}");
    assert!(!store.run(&["log"]).contains("ada"));
    let shown = store.run(&["log", "d/bob.md"]);
    assert_eq!(shown.matches("bob.md").count(), 3, "{shown}");
    let (status, _, errors) = outcome(&mut store.command(&["redact", "--path", "d/ada.md"]));
    assert_eq!(status, Some(2));
    assert_eq!(errors, "memory-tool: the history has no change of /memories/d/ada.md\n");
}

/// Neither free pages nor the write-ahead log have them, also of entries that were put into a block since.
#[test]
fn erased_contents_are_gone_from_a_database() {
    for is_forgotten in [false, true] {
        let store = Store::all().remove(1);
        let mut session = Session::start_as(&mut store.command(&["run", "--history"]));
        let text = format!("s3cr3t {}", "x".repeat(20_000));
        session.succeed(&json!({"command": "create", "path": "/memories/s3cr3t.md", "file_text": text}));
        session.succeed(&json!({"command": "delete", "path": "/memories/s3cr3t.md"}));
        for number in 0..70 {
            let path = format!("/memories/{number}.md");
            session.succeed(&json!({"command": "create", "path": path, "file_text": "text"}));
        }
        let found = || outcome(Command::new("grep").args(["-rl", "s3cr3t"]).arg(store.place.outside("."))).1;
        assert!(found().contains("memory"), "{}", found());
        if is_forgotten {
            outcome(&mut store.command(&["forget", "default", "--yes"]));
        } else {
            outcome(&mut store.command(&["redact", "1", "2"]));
        }
        assert_eq!(found(), "", "while another session is open");
        session.close();
        assert_eq!(found(), "");
    }
}

#[test]
fn an_actor_cannot_forge_the_log() {
    let store = Store::all().remove(0).with_history();
    store.run(&["create", "/memories/c.md", "--text", "text", "--actor", "x\u{202e}y"]);
    let log = store.run(&["log", "-n", "1"]);
    assert!(log.contains("Actor:   x\\u{202e}y\n"), "{log}");
    assert_eq!(entries(&store.run(&["log", "--by", "x\u{202e}y", "--json"])).len(), 1);
}

#[test]
fn a_printed_time_leads_to_its_entry() {
    let store = Store::all().remove(0);
    for text in ["one", "two", "three"] {
        // The times of the log are whole seconds.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        match text {
            "one" => store.run(&["create", "a.md", "--text", text, "--history"]),
            _ => store.run(&["create", "a.md", "--text", text, "--create-overwrites"]),
        };
    }
    let log = store.run(&["log"]);
    let dates: Vec<_> = log.lines().filter_map(|line| line.strip_prefix("Date:    ")).collect();
    assert_eq!(dates.len(), 3, "{log}");
    let exact: Vec<_> = entries(&store.run(&["log", "--json"])).iter().map(|entry| entry["time"].clone()).collect();
    for (date, text) in dates.iter().rev().zip(["one", "two", "three"]) {
        for date in [date.to_string(), date.trim_end_matches('Z').replace('T', " ")] {
            assert_eq!(store.run(&["cat", "a.md", "--at", &date]), text, "{date}");
        }
        // A fraction is exact. An entry can be of the first millisecond of a second.
        let start = date.replace('Z', ".000Z");
        let is_at_start = exact.contains(&json!(start));
        assert!(is_at_start || outcome(&mut store.command(&["cat", "a.md", "--at", &start])).1 != text, "{start}");
    }
    store.run(&["restore", "a.md", "--to", dates[1]]);
    assert_eq!(store.run(&["cat", "a.md"]), "two");
}

#[test]
fn transfers_and_other_commands_are_in_the_history_with_their_actor() {
    for store in Store::all() {
        let (from, target) = (store.place.outside("from"), store.place.outside("target"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("imported.md"), "text").unwrap();
        let import = ["import", from.to_str().unwrap(), "--history", "--actor", "person"];
        assert!(store.run(&import).starts_with("imported 1 file"), "{:?}", store.options);
        store.run(&["append", "added.md", "text", "--actor", "person"]);
        let log = entries(&store.run(&["log", "--json"]));
        let made: Vec<_> = log.iter().map(|entry| [&entry["actor"], &entry["command"]]).collect();
        assert_eq!(made, [[&json!("person"), &json!("append")], [&json!("person"), &json!("import")]]);
        let copy = [&["copy".to_owned()], &store.options[1..2], &[target.display().to_string()]].concat();
        let keys: Vec<_> = store.options[2..].iter().map(|option| option.replace("--key", "--source-key")).collect();
        let options = ["--history", "--actor", "person"];
        let (status, _, errors) = outcome(program().args(copy).args(keys).args(options));
        assert_eq!(status, Some(0), "{errors}");
        let log = outcome(program().args(["log", "--json", "--store"]).arg(&target)).1;
        // New files on a disk are written in one batch.
        let [copied] = &entries(&log)[..] else { panic!("{log}") };
        assert_eq!((&copied["actor"], &copied["command"]), (&json!("person"), &json!("copy")));
        assert_eq!(copied["changes"].as_array().unwrap().len(), 2);
    }
}
