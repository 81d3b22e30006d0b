//! Policies on the command line: scopes, mounts, read-only memories, screening, logs.

use std::ffi::OsString;
use std::fs;

use memory_tool::Memory;
use memory_tool::policies::Scope;
use memory_tool::store::{Batch, StorePath};
use memory_tool_test_fixtures::session::{Outcome, Place, outcome, program};
use serde_json::{Value, json};

/// Runs the program on a store with these options: status, standard output, standard error.
fn run(store: &OsString, arguments: &[&str], options: &[&str]) -> Outcome {
    outcome(program().args(arguments).arg("--store").arg(store).args(options))
}

fn create<'a>(path: &'a str, text: &'a str) -> [&'a str; 4] {
    ["create", path, "--text", text]
}

fn assert_done(outcome: &Outcome) {
    assert_eq!((outcome.0, outcome.2.as_str()), (Some(0), ""), "{}", outcome.1);
}

fn assert_refused(outcome: &Outcome, words: &str) {
    assert_eq!((outcome.0, outcome.1.as_str()), (Some(1), ""), "{}", outcome.2);
    assert!(outcome.2.contains(words), "want {words}\n got {}", outcome.2);
}

#[test]
fn a_scope_is_a_separate_memory() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    assert_done(&run(&store, &create("/memories/a", "hers"), &["--scope", "alice"]));
    assert_done(&run(&store, &create("/memories/a", "theirs"), &["--scope", "alice2"]));
    let view = ["view", "/memories/a"];
    assert!(run(&store, &view, &["--scope", "alice"]).1.ends_with("\thers\n"));
    assert!(run(&store, &view, &["--scope", "alice2"]).1.ends_with("\ttheirs\n"));
    assert!(run(&store, &view, &["--scope", "Alice"]).2.contains("there is no memory store for the scope Alice at "));
    assert_refused(&run(&store, &view, &[]), "does not exist");
}

#[test]
fn a_read_only_memory_can_be_read() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    assert_done(&run(&store, &create("/memories/a", "text"), &[]));
    assert_done(&run(&store, &["view", "/memories/a"], &["--read-only"]));
    for command in [&create("/memories/b", "text")[..], &["delete", "/memories/a"]] {
        assert_refused(&run(&store, command, &["--read-only"]), "read-only");
    }
}

#[test]
fn other_stores_are_mounted() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let team = place.outside("team");
    let notes = format!("sqlite:{}?memory=notes", place.outside("notes.db").display());
    assert_done(&run(&team.clone().into_os_string(), &create("/memories/style.md", "Be brief."), &[]));
    let mounts =
        [format!("--mount-read-only=/memories/team={}", team.display()), format!("--mount=/memories/notes={notes}")];
    let mounts: Vec<_> = mounts.iter().map(String::as_str).chain(["--scope", "alice"]).collect();
    assert_done(&run(&store, &create("/memories/notes/a", "noted"), &mounts));
    assert_done(&run(&store, &create("/memories/b", "private"), &mounts));
    assert_refused(&run(&store, &create("/memories/team/a", "x"), &mounts), "/memories/team is read-only");
    let listing = run(&store, &["view", "/memories"], &mounts).1;
    for path in ["/memories/b", "/memories/notes/a", "/memories/team/style.md"] {
        assert!(listing.contains(&format!("\t{path}\n")), "{listing}");
    }
    assert!(run(&notes.into(), &["view", "/memories/a"], &[]).1.ends_with("\tnoted\n"));

    let twice = [mounts[0], mounts[0]];
    let (status, output, errors) = run(&store, &["view", "/memories"], &twice);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains("more than one store is mounted at /memories/team"), "{errors}");
}

#[test]
fn limits_are_enforced() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let long = "x".repeat(102_401);
    assert_refused(&run(&store, &create("/memories/a", &long), &["--limits"]), "the limit is 102,400");
    assert_done(&run(&store, &create("/memories/a", &long), &["--max-files", "2"]));
    assert_done(&run(&store, &create("/memories/b", "text"), &["--limits", "--max-files=2"]));
    let third = run(&store, &create("/memories/c", "text"), &["--limits", "--max-files=2"]);
    assert_refused(&third, "would make 3 files; the limit is 2");
    assert_refused(&run(&store, &create("/memories/c/d", "text"), &["--max-depth=1"]), "1");
    assert_refused(&run(&store, &create("/memories/c", "text"), &["--max-bytes=102408"]), "3 are left");
    assert_done(&run(&store, &["delete", "/memories/a"], &["--limits", "--max-files=1"]));
    assert_refused(&run(&store, &create("/memories/c", "hello"), &["--max-file-bytes=4"]), "the limit is 4");
}

#[test]
fn unused_files_expire() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let rules = ["--expire-after=1s", "--pin=/memories/pinned", "--scope=alice"];
    assert_done(&run(&store, &create("/memories/pinned/a", "text"), &[&rules[..], &["--history"]].concat()));
    assert_done(&run(&store, &create("/memories/b", "text"), &rules));
    let fresh = run(&store, &["expire", "--json"], &["--expire-after=1h", "--scope=alice"]);
    assert_eq!(fresh.1, "{\"removed\":[],\"kept\":2,\"held\":0}\n", "{}", fresh.2);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_refused(&run(&store, &["view", "/memories/b"], &rules), "does not exist");
    assert_done(&run(&store, &["view", "/memories/pinned/a"], &rules));

    let found = run(&store, &["expire", "--dry-run", "--json"], &rules);
    let found: Value = serde_json::from_str(&found.1).unwrap();
    assert_eq!((&found["expired"][0]["path"], &found["expired"][0]["size"]), (&json!("/memories/b"), &json!(4)));
    assert!(
        run(&store, &["expire", "--dry-run"], &rules).1.ends_with("Z\nfound 1 expired file, not used for 1 second\n")
    );
    assert_done(&run(&store, &["view", "/memories/b"], &["--scope=alice"])); // it is still stored
    let removed = "/memories/b\nremoved 1 expired file, not used for 1 second; kept 1 file\n";
    assert_eq!(run(&store, &["expire"], &rules).1, removed);
    assert_refused(&run(&store, &["view", "/memories/b"], &["--scope=alice"]), "does not exist");
    let past = run(&store, &["show", "2", "/memories/b"], &["--scope=alice"]);
    assert!(past.2.contains("had expired"), "{past:?}");

    let never = run(&store, &["view", "/memories"], &["--expire-after=0s"]);
    assert_eq!((never.0, never.1.as_str()), (Some(2), ""));
    let nowhere = place.outside("nowhere").into_os_string();
    let missing = run(&nowhere, &["expire"], &["--expire-after=1h"]);
    assert_eq!(missing.0, Some(2));
    assert!(missing.2.contains("there is no memory store"), "{}", missing.2);
}

#[test]
fn most_files_expire_only_if_somebody_confirms_it_or_after_a_while() {
    for confirm in ["--yes", "later"] {
        let place = Place::in_memory();
        let store = place.store().into_os_string();
        let rules = ["--expire-after=1s"];
        // At the same time: on a slow machine, the first of two commands would be long ago.
        let files = place.outside("files");
        fs::create_dir(&files).unwrap();
        for name in ["a", "b"] {
            fs::write(files.join(name), "text").unwrap();
        }
        assert_done(&run(&store, &["import", files.to_str().unwrap()], &rules));
        std::thread::sleep(std::time::Duration::from_secs(3));
        let held = run(&store, &["expire", "--json"], &rules);
        assert_eq!((held.0, held.1.as_str()), (Some(1), "{\"removed\":[],\"kept\":2,\"held\":2}\n"), "{}", held.2);
        assert_done(&run(&store, &["view", "/memories/a"], &[])); // it is still stored
        let removed = match confirm {
            "--yes" => run(&store, &["expire", "--yes"], &rules),
            _ => {
                std::thread::sleep(std::time::Duration::from_secs(2));
                run(&store, &["expire"], &rules)
            }
        };
        let text = "/memories/a\n/memories/b\nremoved 2 expired files, not used for 1 second; kept 0 files\n";
        assert_eq!((removed.0, removed.1.as_str()), (Some(0), text), "{}", removed.2);
    }
}

#[test]
fn damaged_access_times_are_reported_and_reset() {
    let place = Place::in_memory();
    let (store, scope) = (place.store().into_os_string(), ["--scope=alice"]);
    assert_done(&run(&store, &create("/memories/a", "text"), &scope));
    damage_access_times(&store);
    let expire = ["expire", "--expire-after=1h"];
    for last in [&["--dry-run"][..], &[]] {
        let (status, output, errors) = run(&store, &[&expire[..], last].concat(), &scope);
        assert_eq!((status, output.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
        assert!(errors.contains("cannot read the access times: ") && errors.contains("with --reset"), "{errors}");
    }
    let reset = run(&store, &[&expire[..], &["--reset"]].concat(), &scope);
    assert_eq!((reset.0, reset.1.as_str()), (Some(0), "reset the access times\n"), "{}", reset.2);
    let removed = "removed 0 expired files, not used for 1 hour; kept 1 file\n";
    assert_eq!(run(&store, &expire, &scope).1, removed);
}

/// Replaces the record of the access times of alice, like a damaged disk.
fn damage_access_times(store: &OsString) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let memory = Memory::builder(store).scope(Scope::from_trusted_name("alice").unwrap()).build().await.unwrap();
        let record: StorePath = "/records/expiry/access-times".parse().unwrap();
        memory.store().apply(Batch::new().write(record, "{")).await.unwrap();
    });
}

#[test]
fn secrets_are_refused_or_redacted() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let secret = "postgres://app:t7Kq-9vLz2@db.internal/app";
    let refused = run(&store, &create("/memories/a", secret), &["--screen", "refuse"]);
    assert_refused(&refused, "password in a URL (line 1)");
    assert!(!refused.2.contains("t7Kq"));
    let mail = "Ask maria@correio.pt";
    assert_done(&run(&store, &create("/memories/mail", mail), &["--screen", "refuse"]));
    let also = ["--screen=redact", "--screen-also=e-mail-address"];
    assert_done(&run(&store, &create("/memories/a", &format!("{secret}\n{mail}")), &also));
    let shown = run(&store, &["view", "/memories/a"], &[]).1;
    assert!(shown.contains("[redacted: password in a URL]") && shown.contains("[redacted: e-mail address]"), "{shown}");
    let personal = ["--screen=refuse", "--screen-also=personal"];
    assert_refused(&run(&store, &create("/memories/b", mail), &personal), "e-mail address");
}

#[test]
fn changes_are_recorded_with_their_actor() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let log = place.outside("audit.jsonl");
    let audited = format!("--audit-log={}", log.display());
    let by = |actor| [audited.as_str(), "--actor", actor, "--screen=redact"];
    let secret = "postgres://app:t7Kq-9vLz2@db.internal/app";
    assert_done(&run(&store, &create("/memories/a", secret), &by("alice")));
    assert_refused(&run(&store, &create("/memories/a", "again"), &by("bob")), "already exists");
    assert_done(&run(&store, &["view", "/memories/a"], &[&by("carol")[..], &["--audit-views"]].concat()));

    let recorded = std::fs::read_to_string(&log).unwrap();
    assert!(!recorded.contains("t7Kq"));
    let records: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |record: &Value| ["actor", "command", "event"].map(|field| record[field].as_str().unwrap().to_owned());
    let recorded: Vec<_> = records.iter().map(fields).collect();
    assert_eq!(recorded[..2], [["alice", "create", "intent"], ["alice", "create", "outcome"]]);
    assert!(recorded[2..].iter().any(|record| *record == ["bob", "create", "command"]), "{recorded:?}");
    assert_eq!(recorded.last().unwrap(), &["carol", "view", "command"]);
    // The record describes the stored text, not the secret.
    let kept = secret.replace("t7Kq-9vLz2", "[redacted: password in a URL]").len();
    assert_eq!(records[0]["changes"][0]["after"]["size"], kept, "{}", records[0]);

    let nowhere = format!("--audit-log={}", place.outside("missing/audit.jsonl").display());
    let unrecorded = run(&store, &["delete", "/memories/a"], &[&nowhere, "--actor", "alice"]);
    assert_eq!(unrecorded.0, Some(2));
    assert!(unrecorded.2.contains("cannot open the audit log"), "{}", unrecorded.2);
    assert_done(&run(&store, &["view", "/memories/a"], &[]));
}

#[test]
fn commands_and_operations_are_logged_without_contents() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let events = |options: &[&str]| -> Vec<Value> {
        let (status, _, errors) =
            run(&store, &["create", "/memories/a", "--text", "secret", "--create-overwrites"], options);
        assert_eq!(status, Some(0));
        assert!(!errors.contains("secret"), "{errors}");
        errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let [command] = &events(&["--log", "commands"])[..] else { panic!("one command is one event") };
    assert_eq!((&command["span"]["command"], &command["fields"]["outcome"]), (&json!("create"), &json!("done")));
    assert_eq!(command["span"].get("path"), None);
    let operations = events(&["--log", "operations", "--log-paths"]);
    assert!(operations.iter().any(|event| event["span"]["operation"] == "apply"), "{operations:?}");
    let last = operations.last().unwrap();
    assert_eq!((&last["span"]["command"], &last["span"]["path"]), (&json!("create"), &json!("/memories/a")));
}
