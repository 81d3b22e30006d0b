//! `MemoryOptions` as data.

use std::collections::BTreeSet;
use std::time::Duration;

use memory_tool::encrypted::Padding;
use memory_tool::policies::Detector;
use memory_tool::{InMemoryStore, Memory, MemoryOptions, OptionsError, Screening, StoreError, StoreUrl};
use serde_json::{Value, json};

fn parse(data: Value) -> Result<MemoryOptions, String> {
    serde_json::from_value(data).map_err(|error| error.to_string())
}

#[test]
fn values_have_readable_forms_in_data() {
    let options = parse(json!({
        "timeout": 2.5, "max_view_characters": null, "scope": "alice", "mounts": [["/memories/team", "in-process:"]],
        "pins": ["/memories/a"], "expire_after": 60, "screen": "redact", "screen_also": ["iban", "e-mail-address"],
        "padding": 64, "key_file": "~/key",
    }));
    let options = options.unwrap();
    assert_eq!(options.timeout, Some(Duration::from_millis(2_500)));
    assert_eq!(options.max_view_characters, Some(None));
    assert_eq!(options.scope.unwrap().name(), "alice");
    assert_eq!(options.mounts, [("/memories/team".parse().unwrap(), StoreUrl::InProcess)]);
    assert_eq!(options.screen, Some(Screening::Redact));
    assert_eq!(options.screen_also, [Detector::Iban, Detector::EmailAddress]);
    assert_eq!(options.padding, Some(Padding::Multiple(64.try_into().unwrap())));
    assert_eq!(options.key_file, Some(std::env::home_dir().unwrap().join("key")));
    assert_eq!(parse(json!({"padding": "padme"})).unwrap().padding, Some(Padding::Padme));
    assert_eq!(parse(json!({})).unwrap().max_view_characters, None);
}

#[test]
fn a_wrong_value_is_an_error_that_names_the_expected_one() {
    for (data, reason) in [
        (json!({"read-only": true}), "unknown field `read-only`"),
        (json!({"key": "00"}), "unknown field `key`"),
        (json!({"timeout": -1}), "expected a number of seconds, not negative"),
        (json!({"scope": ""}), "scope"),
        (json!({"screen": "hide"}), "expected `refuse` or `redact`"),
        (json!({"screen_also": ["mood"]}), "expected one of personal, "),
        (json!({"padding": true}), "expected padme, or a number of bytes from 1 up"),
        (json!({"padding": 0}), "expected padme, or a number of bytes from 1 up"),
        (json!({"pins": ["/a"]}), "Path must start with /memories"),
        (json!({"mounts": [["/memories/a", "s3://AKIA:Se/cret@bucket"]]}), "[redacted]"),
        (json!({"audit_log": "$HOME/log"}), "$HOME"),
        (json!({"actor": "a\nb"}), "control character"),
    ] {
        let error = parse(data.clone()).unwrap_err();
        assert!(error.contains(reason) && !error.contains("cret@"), "{data}: {error}");
    }
}

#[tokio::test]
async fn an_option_without_one_that_it_needs_is_an_error_that_names_both() {
    for (data, message) in [
        (json!({"pins": ["/memories/a"]}), "pins requires expire_after"),
        (json!({"screen_also": ["iban"]}), "screen_also requires screen"),
        (json!({"audit_log": "log"}), "audit_log requires actor"),
        (json!({"log_paths": true}), "log_paths requires log"),
        (json!({"padding": 64}), "padding requires a key"),
        (json!({"label": "alice"}), "label requires a key"),
        (json!({"key_env": "A", "was_unlabeled": true}), "was_unlabeled requires label"),
        (json!({"key_env": "A", "key_file": "b"}), "set only one of key, key_file, key_env and passphrase_file"),
    ] {
        let options = parse(data).unwrap();
        assert_eq!(options.check().unwrap_err().to_string(), message);
        assert_eq!(options.build(StoreUrl::InProcess).await.unwrap_err().to_string(), message);
    }
}

#[tokio::test]
async fn every_policy_of_the_data_is_applied() {
    let directory = tempfile::tempdir().unwrap();
    let (key, log) = (directory.path().join("key"), directory.path().join("log"));
    std::fs::write(&key, [7; 32]).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let options = parse(json!({
        "scope": "alice", "mounts": [["/memories/team", directory.path().join("team")]], "max_files": 1,
        "screen": "refuse", "audit_log": log, "actor": "alice", "key_file": key, "label": "users",
    }));
    let store = std::sync::Arc::new(InMemoryStore::new());
    let memory = options.unwrap().build(Memory::over(std::sync::Arc::clone(&store))).await.unwrap();
    memory.write("/memories/a", "tea").await.unwrap();
    memory.write("/memories/team/a", "tea").await.unwrap(); // no limit applies to it
    let refusals =
        [("/memories/b", "tea", "limits"), ("/memories/a", "ghp_q7RbX2mTnV8cLz4KwP0sYd3JfH6gA1eU9iOv", "screening")];
    for (path, text, expected) in refusals {
        let refused = memory.write(path, text).await;
        assert!(matches!(refused, Err(StoreError::Refused { policy, .. }) if policy == expected), "{refused:?}");
    }
    assert!(memory.encrypted().is_some());
    let records = std::fs::read_to_string(log).unwrap();
    assert!(records.lines().all(|record| record.contains(r#""actor":"alice""#)), "{records}");
    // An intent and an outcome of two writes and of the refusal by the limits. Screening is above the log.
    assert_eq!(records.lines().count(), 6, "{records}");
    let unlabeled = parse(json!({"key_file": key})).unwrap().build(Memory::over(store)).await;
    assert!(matches!(unlabeled, Err(OptionsError::Open(_))), "{unlabeled:?}");
}

#[tokio::test]
async fn the_options_of_the_storage_reach_it() {
    let options = parse(json!({"timeout": 2.5, "gc_every": 3600, "read_only": true})).unwrap();
    let builder = format!("{:?}", options.configure(StoreUrl::InProcess).await.unwrap());
    for expected in ["mode: ReadOnly", "timeout: 2.5s", "gc_interval: Some(3600s)"] {
        assert!(builder.contains(expected), "{builder}");
    }
}

/// A mounted memory records the actor of each command, and its own actor for changes by a program.
#[tokio::test]
async fn the_actor_of_a_command_reaches_a_mounted_memory() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |name: &str| {
        let log = directory.path().join(name);
        let options = parse(json!({"audit_log": log, "actor": name})).unwrap();
        (options.configure(StoreUrl::InProcess).await.unwrap(), log)
    };
    let ((team, team_log), (alice, _)) = (open("team").await, open("alice").await);
    let team = team.build().await.unwrap();
    let alice = alice.mount("/memories/team".parse().unwrap(), team.store()).build().await.unwrap();
    let create = json!({"command": "create", "path": "/memories/team/a", "file_text": "tea"});
    alice.tool().call(create).await.unwrap();
    team.write("/memories/b", "tea").await.unwrap();
    let records = std::fs::read_to_string(team_log).unwrap();
    let records = records.lines().map(|record| serde_json::from_str::<Value>(record).unwrap());
    let named: Vec<_> = records.map(|record| format!("{} {}", record["actor"], record["command"])).collect();
    let expected = [r#""alice" "create""#, r#""team" "apply""#].map(|name| [name, name]).concat();
    assert_eq!(named, expected);
}

/// The declarations for editors in other languages have the same options.
#[test]
fn the_packages_declare_each_option() {
    let error = parse(json!({"?": 0})).unwrap_err();
    let (_, listed) = error.split_once("expected one of ").unwrap();
    let mut expected: BTreeSet<_> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    expected.extend(["key", "old_keys", "on_change"].map(str::to_owned)); // bytes and functions are not data

    let python = include_str!("../../crates/python/python/memory_tool/options.py");
    let class = python.split_once("class Options").unwrap().1.split_once("\nclass ").unwrap().0;
    let names = class.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
    let names = names.map(|(name, _)| name.to_owned()).filter(|name| !name.contains(['"', ' ']));
    let of_python = difference("crates/python/python/memory_tool/options.py", &names.collect(), &expected);

    let typescript = include_str!("../../crates/node/ts/options.ts");
    let interface = typescript.split_once("export interface Options {").unwrap().1.split_once("\n}").unwrap().0;
    let names = interface.lines().filter_map(|line| line.trim().split_once("?: "));
    let of_node =
        difference("crates/node/ts/options.ts", &names.map(|(name, _)| snake_case(name)).collect(), &expected);
    assert_eq!(of_python + &of_node, "");
}

fn difference(file: &str, names: &BTreeSet<String>, expected: &BTreeSet<String>) -> String {
    let missing: Vec<_> = expected.difference(names).collect();
    let unknown: Vec<_> = names.difference(expected).collect();
    if names == expected {
        String::new()
    } else {
        format!("{file} lacks {missing:?}, and has the unknown {unknown:?}; ")
    }
}

fn snake_case(name: &str) -> String {
    let words = name.chars().map(|letter| match letter {
        'A'..='Z' => format!("_{}", letter.to_ascii_lowercase()),
        other => other.to_string(),
    });
    words.collect()
}
