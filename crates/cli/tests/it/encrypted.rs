//! Encrypted stores on the command line: keys, rotation, and errors about wrong keys.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use memory_tool_test_fixtures::session::{Outcome, Place, Session, outcome, program};
use rusqlite::Connection;
use serde_json::{Value, json};

const SECRET: &str = "the customer called about her divorce";
fn keygen(place: &Place, name: &str) -> PathBuf {
    let file = place.outside(name);
    let made = program().arg("keygen").arg("--output").arg(&file).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    file
}

/// Runs the program on a store with these options: status, standard output, standard error.
fn run(store: &OsString, arguments: &[&str], options: &[OsString]) -> Outcome {
    outcome(program().args(arguments).arg("--store").arg(store).args(options))
}

fn option(name: &str, value: impl Into<OsString>) -> [OsString; 2] {
    [name.into(), value.into()]
}

fn reply(text: &str) -> Outcome {
    (Some(0), format!("{text}\n"), String::new())
}

fn create(path: &str) -> [&str; 4] {
    ["create", path, "--text", SECRET]
}

fn assert_fails(outcome: &Outcome, reason: &str) {
    let (status, output, errors) = outcome;
    assert_eq!((*status, output.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
    assert!(errors.contains(reason), "want {reason}\n got {errors}");
    assert!(!errors.contains(SECRET));
}

/// Checks that no name or content under a directory contains the secret or the name of a file.
fn assert_no_plain_text(directory: PathBuf) {
    let mut directories = vec![directory];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            assert!(!entry.file_name().to_string_lossy().contains("divorce"));
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                let content = fs::read(entry.path()).unwrap();
                assert!(!content.windows(7).any(|part| part == b"divorce"), "{}", entry.path().display());
            }
        }
    }
}

#[test]
fn an_encrypted_store_contains_no_plain_text() {
    let place = Place::new();
    let key = option("--key-file", keygen(&place, "key"));
    for store in [place.store().into(), OsString::from(place.sqlite("a"))] {
        let created = "File created successfully at: /memories/divorce/a";
        assert_eq!(run(&store, &create("/memories/divorce/a"), &key), reply(created));
        let shown = format!("Here's the content of /memories/divorce/a with line numbers:\n     1\t{SECRET}");
        assert_eq!(run(&store, &["view", "/memories/divorce/a"], &key), reply(&shown));
        assert_eq!(run(&store, &["verify"], &key), reply("1 file, 37 bytes: no problems found"));
    }
    assert_no_plain_text(place.outside(""));
}

#[test]
fn a_key_comes_from_a_file_the_environment_or_a_passphrase() {
    let place = Place::new();
    let key = keygen(&place, "key");
    let passphrase = place.outside("passphrase");
    fs::write(&passphrase, "correct horse battery staple\n").unwrap();
    fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    let text = fs::read_to_string(&key).unwrap();
    let store = place.store().into_os_string();
    assert_eq!(run(&store, &create("/memories/a"), &option("--key-file", &key)).0, Some(0));
    let from_environment = |value: &str| {
        let mut command = program();
        command.args(["verify", "--key-env", "MEMORY_KEY", "--store"]).arg(&store).env("MEMORY_KEY", value);
        outcome(&mut command)
    };
    assert_eq!(from_environment(text.trim()), reply("1 file, 37 bytes: no problems found"));
    assert_fails(&from_environment("no key"), "cannot use the key");
    assert_fails(&run(&store, &["verify"], &option("--key-env", "NOT_SET")), "NOT_SET");
    let other = OsString::from(place.sqlite("passphrase"));
    assert_eq!(run(&other, &create("/memories/a"), &option("--passphrase-file", &passphrase)).0, Some(0));
    fs::write(&passphrase, "incorrect horse").unwrap();
    let wrong = run(&other, &["view", "/memories"], &option("--passphrase-file", &passphrase));
    assert_fails(&wrong, "cannot decrypt with key passphrase");
}

#[test]
fn a_passphrase_is_replaced() {
    let place = Place::new();
    let store = place.store().into_os_string();
    let passphrase = |name: &str| {
        let file = place.outside(name);
        fs::write(&file, name).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    };
    let (old, new) = (passphrase("old"), passphrase("new"));
    assert_eq!(run(&store, &create("/memories/a"), &option("--passphrase-file", &old)).0, Some(0));
    let both = [option("--passphrase-file", &new), option("--old-passphrase-file", &old)].concat();
    let expected = "re-encrypted 1 file\nthe old key passphrase is no longer needed";
    assert_eq!(run(&store, &["rekey"], &both), reply(expected));
    assert_eq!(run(&store, &["rekey"], &option("--passphrase-file", &new)), reply("re-encrypted 0 files"));
    assert_fails(&run(&store, &["verify"], &option("--passphrase-file", &old)), "cannot decrypt with key");
}

#[test]
fn a_key_is_never_overwritten() {
    let place = Place::new();
    let file = keygen(&place, "key");
    let before = fs::read(&file).unwrap();
    assert_fails(&outcome(program().arg("keygen").arg("--output").arg(&file)), "cannot write the key to");
    assert_eq!(fs::read(&file).unwrap(), before);
}

/// A limit on the size of files simulates a full disk.
#[test]
fn a_key_that_cannot_be_written_leaves_no_file() {
    let place = Place::new();
    let file = place.outside("key");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program().get_program());
    let refused = limited.arg("keygen").arg("--output").arg(&file).output().unwrap();
    assert_eq!((refused.status.code(), file.exists()), (Some(2), false), "{refused:?}");
    keygen(&place, "key");
}

#[test]
fn a_store_is_not_opened_without_its_key() {
    let place = Place::new();
    let store = place.store().into_os_string();
    let key = option("--key-file", keygen(&place, "key"));
    assert_eq!(run(&store, &create("/memories/a"), &key).0, Some(0));
    for arguments in [&create("/memories/b")[..], &["view", "/memories"], &["run"], &["verify"]] {
        assert_fails(&run(&store, arguments, &[]), "the store is encrypted; add --key-file");
    }
    let other = option("--key-file", keygen(&place, "other"));
    assert_fails(&run(&store, &create("/memories/b"), &other), "which is not in the key ring");
    assert_eq!(run(&store, &["verify"], &key), reply("1 file, 37 bytes: no problems found"));
}

/// The storage fails while the program starts, and works again at the first command.
#[test]
fn the_check_for_encryption_is_repeated_after_a_failure() {
    let place = Place::new();
    let store = place.store().into_os_string();
    let key = option("--key-file", keygen(&place, "key"));
    assert_eq!(run(&store, &create("/memories/a"), &key).0, Some(0));
    place.break_storage();
    let mut session = Session::start(&store, &[]);
    let create = json!({"command": "create", "path": "/memories/b", "file_text": SECRET});
    session.fail(&create);
    fs::remove_dir(place.store().join(".memory-tool/lock")).unwrap();
    session.fail(&create);
    drop(session);
    assert_no_plain_text(place.store());
    assert_eq!(run(&store, &["verify"], &key), reply("1 file, 37 bytes: no problems found"));
}

/// Otherwise an attacker could make a program without the key write plain text.
#[test]
fn a_store_with_a_link_as_index_still_counts_as_encrypted() {
    let place = Place::new();
    let store = place.store().into_os_string();
    let key = option("--key-file", keygen(&place, "key"));
    assert_eq!(run(&store, &create("/memories/a"), &key).0, Some(0));
    let elsewhere = place.outside("index");
    fs::rename(place.file("index-1"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.file("index-1")).unwrap();
    assert_fails(&run(&store, &create("/memories/b"), &[]), "the store is encrypted; add --key-file");
    assert_no_plain_text(place.store());
}

/// The database and the encryption both detect it. The report names the file of the memory.
#[test]
fn lost_contents_are_reported_once_and_can_be_written_again() {
    let place = Place::new();
    let store = OsString::from(place.sqlite("a"));
    let key = option("--key-file", keygen(&place, "key"));
    let plain = OsString::from(place.sqlite("plain"));
    for (store, key) in [(&store, &key[..]), (&plain, &[])] {
        for path in ["/memories/lost", "/memories/short", "/memories/whole"] {
            assert_eq!(run(store, &create(path), key).0, Some(0));
        }
    }
    let database = Connection::open(place.database()).unwrap();
    let objects: Vec<String> = database
        .prepare("SELECT path FROM file WHERE memory = 'a' AND path NOT LIKE '%index%' ORDER BY content_id")
        .and_then(|mut statement| statement.query_map((), |row| row.get(0))?.collect())
        .unwrap();
    let (lost, short) = (&objects[0], &objects[1]);
    let content = |path: &str| format!("(SELECT content_id FROM file WHERE memory = 'a' AND path = '{path}')");
    database
        .execute_batch(&format!(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO content VALUES (98, 1, x'00');
             INSERT INTO file VALUES ('a', '/memories/foreign', 1, 98, 0, 0);
             DELETE FROM content WHERE id IN ({}, {}, 98);
             UPDATE content SET revision = revision + 1, bytes = substr(bytes, 1, 120) WHERE id = {};
             DELETE FROM content
             WHERE id = (SELECT content_id FROM file WHERE memory = 'plain' AND path = '/memories/lost');",
            content(lost),
            content("/memories/index-1"),
            content(short),
        ))
        .unwrap();
    let expected = [
        "/memories/foreign in memory a has no content".to_owned(),
        "/memories/lost in memory plain has no content".to_owned(),
        "a copy of the index cannot be read: the inner store cannot read stored object /memories/index-1: \
         reading failed: the content of a file is missing"
            .to_owned(),
        "/memories/foreign is not a part of the encrypted memory".to_owned(),
        format!(
            "/memories/lost cannot be read: reading failed: the inner store cannot read stored object {lost}: \
             reading failed: the content of a file is missing"
        ),
        format!("/memories/short cannot be read: reading failed: stored object {short} is damaged: truncated"),
        "6 problems found\n".to_owned(),
    ];
    let (status, output, errors) = run(&store, &["verify"], &key);
    assert_eq!((status, output), (Some(1), expected.join("\n")));
    assert!(errors.ends_with("memory.db has 1 other memory, not included here\n"), "{errors}");
    for path in ["/memories/lost", "/memories/short", "/memories/whole"] {
        let overwrite = [&create(path)[..], &["--create-overwrites"]].concat();
        assert_eq!(run(&store, &overwrite, &key), reply(&format!("File created successfully at: {path}")));
    }
    assert_eq!(run(&store, &create("/memories/new"), &key).0, Some(0), "it writes the lost copy of the index");
    let (_, output, _) = run(&store, &["verify"], &key);
    let left = [&expected[0], &expected[1], &expected[3], "3 problems found\n"];
    assert_eq!(output, left.join("\n"));
}

#[test]
fn a_store_is_rekeyed() {
    let place = Place::in_memory();
    let store = place.store().into_os_string();
    let (old, new) = (keygen(&place, "old"), keygen(&place, "new"));
    assert_eq!(run(&store, &create("/memories/a"), &option("--key-file", &old)).0, Some(0));
    let both = [option("--key-file", &new), option("--old-key-file", &old)].concat();
    let (status, output, errors) = run(&store, &["rekey", "--json"], &both);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&report["rewritten"], &report["damaged"], &report["still_needed"]),
        (&json!(1), &json!([]), &json!([]))
    );
    assert_eq!(report["no_longer_needed"].as_array().unwrap().len(), 1);
    let whole = reply("1 file, 37 bytes: no problems found");
    assert_eq!(run(&store, &["verify"], &option("--key-file", &new)), whole);
    assert_fails(&run(&store, &["verify"], &option("--key-file", &old)), "which is not in the key ring");
    assert_eq!(run(&store, &["rekey"], &both), reply("re-encrypted 0 files"));
    assert_fails(&run(&store, &["rekey"], &[]), "no key; add --key-file");
}

#[test]
fn all_memories_of_a_database_are_rekeyed() {
    let place = Place::in_memory();
    let database = format!("sqlite:{}", place.outside("many.db").display());
    let (old, new) = (keygen(&place, "old"), keygen(&place, "new"));
    for name in ["alice", "bob"] {
        let memory = OsString::from(format!("{database}?memory={name}"));
        assert_eq!(run(&memory, &create("/memories/a"), &option("--key-file", &old)).0, Some(0));
    }
    let both = [option("--key-file", &new), option("--old-key-file", &old)].concat();
    let (status, output, errors) = run(&OsString::from(&database), &["rekey", "--all", "--json"], &both);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let reports: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (report, name) in reports.iter().zip(["alice", "bob"]) {
        let memory = report["memory"].as_str().unwrap();
        assert!(memory.ends_with(&format!("?memory={name}")) && report["rewritten"] == 1, "{report}");
        let (status, ..) = run(&OsString::from(memory), &["verify"], &option("--key-file", &new));
        assert_eq!(status, Some(0), "{memory}");
    }
    assert_eq!(reports.len(), 2);
}

/// An attacker with write access replaces a memory with another one of the same key.
#[test]
fn another_memory_of_the_same_key_is_refused_by_its_name() {
    let place = Place::in_memory();
    let (store, other) = (place.store().into_os_string(), place.outside("other").into_os_string());
    let key = option("--key-file", keygen(&place, "key"));
    let named = |name: &str| [&key[..], &option("--label", name)].concat();
    assert_eq!(run(&store, &create("/memories/a"), &named("alice")).0, Some(0));
    assert_eq!(run(&other, &create("/memories/b"), &key).0, Some(0));
    assert_eq!(run(&store, &["verify"], &named("alice")).0, Some(0));

    let bobs = [&named("bob")[..], &[OsString::from("--was-unlabeled")]].concat();
    assert_eq!(run(&other, &["rekey"], &bobs), reply("re-encrypted 0 files"));
    let renamed = [&named("robert")[..], &option("--old-label", "bob")].concat();
    assert_eq!(run(&other, &["rekey"], &renamed), reply("re-encrypted 0 files"));
    assert_eq!(run(&other, &["verify"], &named("robert")).0, Some(0));

    fs::remove_dir_all(&store).unwrap();
    fs::rename(&other, &store).unwrap();
    let view = ["view", "/memories"];
    assert_fails(&run(&store, &view, &named("alice")), "this memory does not have the label `alice`");
    assert_fails(&run(&store, &view, &key), "this memory has a label, but was opened without one");
}
