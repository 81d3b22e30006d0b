//! Commands that a client sends without waiting for replies (`[X5]`).

use std::process::Command;

use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{Place, Session, program};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{call, create, initialize, initialized, request, text};

/// A server of a directory and one of a database.
fn commands(place: &Place) -> [Command; 2] {
    [place.store().into_os_string(), place.sqlite("default").into()].map(|store| {
        let mut command = program();
        command.arg("mcp").arg("--store").arg(store);
        command
    })
}

#[test]
fn commands_of_one_write_take_effect_in_the_order_of_their_lines() {
    let place = Place::new();
    for mut command in commands(&place) {
        let mut session = Session::start_as(&mut command);
        session.call(initialize(0, "2025-11-25").to_string());
        session.send(initialized().to_string());
        for number in (0..by_tier(40, 400)).map(|number| 2 * number) {
            let path = format!("/memories/a{number}");
            let insert = json!({"command": "insert", "path": path, "insert_line": 1, "insert_text": "second"});
            let lines = format!("{}\n{}\n", call(number + 1, create(&path, "first")), call(number + 2, insert));
            session.send_raw(lines);
            for _ in 0..2 {
                let response = next_response(&mut session);
                assert_eq!(response["result"]["isError"], false, "{response}");
            }
        }
        assert!(session.finish().1.success());
    }
}

/// The next message that is no notification.
fn next_response(session: &mut Session) -> Value {
    std::iter::repeat_with(|| session.receive()).find(|message| message.get("id").is_some()).unwrap()
}

/// Keeps commands that change the memory waiting until the result is dropped.
fn busy_database(place: &Place) -> Connection {
    let connection = Connection::open(place.database()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_slow_command_stops_no_ping_and_a_cancelled_one_gives_up_its_place() {
    let place = Place::new();
    let [_, mut command] = commands(&place);
    let mut session = Session::start_as(&mut command);
    session.call(initialize(0, "2025-11-25").to_string());
    session.send(initialized().to_string());
    session.call(call(1, create("/memories/first", "")).to_string());
    let busy = busy_database(&place);
    session.send(call(2, create("/memories/slow", "")).to_string());
    session.send(call(3, create("/memories/cancelled", "")).to_string());
    session.send(call(4, create("/memories/last", "")).to_string());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    session.send(cancel.to_string());
    session.send(request(5, "ping", json!({})).to_string());
    assert_eq!(next_response(&mut session)["id"], 5);
    drop(busy);
    assert_eq!([next_response(&mut session)["id"].clone(), next_response(&mut session)["id"].clone()], [2, 4]);
    session.send(call(6, json!({"command": "view", "path": "/memories"})).to_string());
    let response = next_response(&mut session);
    let listed = text(&response);
    for (name, is_there) in [("first", true), ("slow", true), ("cancelled", false), ("last", true)] {
        assert_eq!(listed.contains(name), is_there, "{listed}");
    }
    assert!(session.finish().1.success());
}
