//! Notifications of changes, including changes of another server.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::thread::scope;

use memory_tool_test_fixtures::session::{Place, Session, program};
use serde_json::{Value, json};

use super::stdio::Client;
use super::{create, initialized};

const LIST: &str = "list";

fn server(store: &OsString) -> Command {
    let mut command = program();
    command.arg("mcp").arg("--store").arg(store);
    command
}

/// The URI of a notification, or `list`.
fn notified(message: &Value) -> Option<String> {
    match message["method"].as_str()? {
        "notifications/resources/list_changed" => Some(LIST.to_owned()),
        "notifications/resources/updated" => Some(message["params"]["uri"].as_str().unwrap().to_owned()),
        other => panic!("unexpected: {other}"),
    }
}

/// Receives messages until these notifications have arrived, and no others. A notification may be repeated.
fn wait_for(session: &mut Session, expected: &[&str], may_follow: &[&str]) {
    let mut missing: BTreeSet<_> = expected.iter().copied().collect();
    while !missing.is_empty() {
        if let Some(uri) = notified(&session.receive()) {
            missing.remove(uri.as_str());
            assert!(expected.contains(&&*uri) || may_follow.contains(&&*uri), "{uri}");
        }
    }
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
}

/// Changes, and the notifications of a client that subscribes to d/a, d and other.
fn changes() -> [(Value, &'static [&'static str]); 5] {
    let of_a = &["memory:///d", "memory:///d/a"];
    let of_a_and_list = &["memory:///d", "memory:///d/a", LIST];
    [
        // The size stays the same.
        (edit("/memories/d/a", "x", "y"), of_a),
        (json!({"command": "insert", "path": "/memories/d/a", "insert_line": 0, "insert_text": "z"}), of_a),
        (create("/memories/b", ""), &[LIST]),
        (json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"}), of_a_and_list),
        (json!({"command": "delete", "path": "/memories/b"}), &[LIST]),
    ]
}

fn subscribed(command: &mut Command) -> Client {
    let mut client = Client::start_as(command);
    for uri in ["memory:///d/a", "memory:///d", "memory:///other"] {
        client.request("resources/subscribe", json!({"uri": uri}));
    }
    client
}

#[test]
fn changes_of_the_client_are_notified() {
    let place = Place::new();
    place.session().succeed(&create("/memories/d/a", "x"));
    let mut client = subscribed(&mut server(&place.store().into()));
    let mut before: &[&str] = &[];
    for (change, expected) in changes() {
        client.send(change);
        wait_for(&mut client.session, expected, before);
        before = expected;
    }
    client.request("resources/unsubscribe", json!({"uri": "memory:///d"}));
    client.send(create("/memories/d/a", ""));
    wait_for(&mut client.session, &["memory:///d/a", LIST], before);
    // A command that changes nothing has no notification.
    client.succeed(json!({"command": "view", "path": "/memories/d/a"}));
    client.call(json!({"command": "delete", "path": "/memories/missing"}));
    client.end();
}

#[test]
fn changes_of_another_server_are_notified() {
    let place = Place::new();
    let is_notified = |store| {
        let mut writer = Client::start_as(&mut server(&store));
        writer.succeed(create("/memories/d/a", "x"));
        let mut client = subscribed(&mut server(&store));
        for (change, expected) in changes() {
            writer.succeed(change);
            wait_for(&mut client.session, expected, &[]);
        }
        writer.end();
        client.end();
    };
    // Each waits for the interval of its server.
    scope(|scope| {
        for store in [place.store().into(), OsString::from(place.sqlite("default"))] {
            scope.spawn(move || is_notified(store));
        }
    });
}

#[test]
fn a_client_that_only_lists_the_files_is_notified_of_changes_of_the_list() {
    let place = Place::new();
    let mut writer = Client::start(&place, &[]);
    writer.succeed(create("/memories/a", "x"));
    // Each notification is handled beside later requests, so that `initialized` may come after them.
    let mut client = Client::start_uninitialized(&mut server(&place.store().into()));
    client.request("resources/list", json!({}));
    client.session.send(initialized().to_string());
    writer.succeed(create("/memories/b", "x"));
    wait_for(&mut client.session, &[LIST], &[]);
    // People edit the files, too.
    fs::remove_file(place.file("b")).unwrap();
    wait_for(&mut client.session, &[LIST], &[]);
    writer.end();
    client.end();
}
