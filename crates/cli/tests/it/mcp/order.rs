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

/// The commands of one turn, and the last lines of a view of the file that they leave.
struct Turn {
    before: Vec<Value>,
    together: Vec<Value>,
    path: String,
    lines: &'static str,
}

fn insert(path: &str, line: u64, text: &str) -> Value {
    json!({"command": "insert", "path": path, "insert_line": line, "insert_text": text})
}

fn turns(number: usize) -> [Turn; 3] {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("/memories/{name}{number}"));
    [
        Turn {
            before: vec![create(&a, "old")],
            together: vec![json!({"command": "delete", "path": a}), create(&a, "new")],
            path: a,
            lines: "     1\tnew",
        },
        Turn {
            before: vec![create(&b, "0")],
            together: vec![insert(&b, 1, "1"), insert(&b, 2, "2")],
            path: b,
            lines: "     1\t0\n     2\t1\n     3\t2",
        },
        Turn {
            before: vec![],
            together: vec![
                create(&c, "1\n"),
                json!({"command": "str_replace", "path": c, "old_str": "1", "new_str": "one"}),
                insert(&c, 1, "two"),
                json!({"command": "rename", "old_path": c, "new_path": d}),
                json!({"command": "view", "path": d}),
            ],
            path: d,
            lines: "     1\tone\n     2\ttwo\n     3\t",
        },
    ]
}

/// Runs turns with a function that sends commands together and returns the responses in their order.
fn check(mut send: impl FnMut(&[Value]) -> Vec<Value>) {
    for number in 0..by_tier(20, 200) {
        for Turn { before, together, path, lines } in turns(number) {
            for command in before {
                send(&[command]);
            }
            for (command, response) in together.iter().zip(send(&together)) {
                assert_eq!(response["result"]["isError"], false, "turn {number}: {command}: {response}");
            }
            let view = send(&[json!({"command": "view", "path": path})]);
            assert!(text(&view[0]).ends_with(lines), "turn {number}: {together:?}: {view:?}");
        }
    }
}

#[test]
fn commands_over_stdio_take_effect_in_the_order_in_which_they_were_sent() {
    let place = Place::new();
    for mut command in commands(&place) {
        let mut session = Session::start_as(&mut command);
        session.call(initialize(0, "2025-11-25").to_string());
        session.send(initialized().to_string());
        let mut last_id = 0;
        check(|inputs| {
            let first = last_id + 1;
            last_id += inputs.len() as u64;
            let lines = (first..).zip(inputs).map(|(id, input)| format!("{}\n", call(id, input.clone())));
            session.send_raw(lines.collect::<String>());
            let mut responses = Vec::new();
            responses.resize_with(inputs.len(), || next_response(&mut session));
            responses.sort_by_key(|response| response["id"].as_u64());
            responses
        });
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
