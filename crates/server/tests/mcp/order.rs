//! Commands that clients send without waiting for replies (`[X5]`).

use std::io::Write as _;
use std::net::TcpStream;
use std::thread::scope;

use memory_tool_test_fixtures::by_tier;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::client::{Place, Response, call, create, initialize, modern, request, start, started, text};

fn insert(path: &str, line: u64, text: &str) -> Value {
    json!({"command": "insert", "path": path, "insert_line": line, "insert_text": text})
}

/// Parallel requests use several connections, on which a later one may arrive first.
#[test]
fn commands_of_a_session_take_effect_in_the_order_in_which_they_were_sent() {
    let place = Place::new();
    let (_, token) = place.agent("alice");
    for store in [place.path("").display().to_string(), place.database()] {
        let client = start(&place, &store).client(&token);
        let id = client.session();
        let mut last_id = 0;
        let mut send = |inputs: &[Value]| -> Vec<Value> {
            let first = last_id + 1;
            last_id += inputs.len() as u64;
            let bodies: Vec<_> = (first..).zip(inputs).map(|(id, input)| call(id, input.clone()).to_string()).collect();
            let connect = |body: &String| client.connect("/mcp", "POST", &[("mcp-session-id", &id)], body.len());
            let mut streams: Vec<TcpStream> = bodies.iter().map(connect).collect();
            for (stream, body) in streams.iter_mut().zip(&bodies).rev() {
                stream.write_all(body.as_bytes()).unwrap();
            }
            streams.into_iter().map(|stream| Response::read(stream).message()).collect()
        };
        for number in 0..by_tier(20, 200) {
            let [old, new] = ["old", "new"].map(|name| format!("/memories/{name}{number}"));
            let turn = [
                create(&old, "1\n"),
                json!({"command": "str_replace", "path": old, "old_str": "1", "new_str": "one"}),
                insert(&old, 1, "two"),
                json!({"command": "rename", "old_path": old, "new_path": new}),
                json!({"command": "view", "path": new}),
            ];
            let responses = send(&turn);
            for (command, response) in turn.iter().zip(&responses) {
                assert_eq!(response["result"]["isError"], false, "turn {number}: {command}: {response}");
            }
            assert!(text(&responses[4]).ends_with("     1\tone\n     2\ttwo\n     3\t"), "{responses:?}");
        }
    }
}

#[test]
fn a_slow_command_stops_no_ping_and_no_other_memory() {
    let place = Place::new();
    let tokens = [place.agent("alice").1, place.agent("bob").1];
    let server = start(&place, &place.database());
    let [alice, bob] = tokens.map(|token| server.client(&token));
    let (slow, other) = (alice.session(), bob.session());
    alice.ask(&slow, &call(1, create("/memories/first", "")));
    bob.ask(&other, &call(1, create("/memories/first", "")));
    // Commands that change the database wait.
    let busy = Connection::open(place.path("memory.db")).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let send = |message: Value| {
        let body = message.to_string();
        let mut stream = alice.connect("/mcp", "POST", &[("mcp-session-id", &slow)], body.len());
        stream.write_all(body.as_bytes()).unwrap();
        stream
    };
    let create = send(call(2, create("/memories/slow", "")));
    let view = send(call(3, json!({"command": "view", "path": "/memories/slow"})));
    assert_eq!(alice.ask(&slow, &request(4, "ping", json!({})))["result"], json!({}));
    let listed = bob.ask(&other, &call(2, json!({"command": "view", "path": "/memories"})));
    assert!(text(&listed).contains("/memories/first"));
    drop(busy);
    assert_eq!(text(&Response::read(create).message()), "File created successfully at: /memories/slow");
    assert!(text(&Response::read(view).message()).starts_with("Here's the content of /memories/slow"));
}

/// Without a common order, clients would fail each other's preconditions until some give up.
#[test]
fn concurrent_inserts_of_sessions_and_of_the_endpoint_of_the_tool_are_all_kept() {
    const CLIENTS: usize = 32;
    const INSERTS: u64 = 20;
    let place = Place::new();
    let (_, token) = place.agent("alice");
    let client = &start(&place, &place.database()).client(&token);
    client.ask(&client.session(), &call(1, create("/memories/a", "")));
    let input = insert("/memories/a", 0, "x\n");
    scope(|scope| {
        for number in 0..CLIENTS {
            let input = &input;
            scope.spawn(move || {
                let session = client.session();
                for id in 1..=INSERTS {
                    let is_kept = if number % 2 == 0 {
                        client.ask(&session, &call(id, input.clone()))["result"]["isError"] == false
                    } else {
                        let body = input.to_string();
                        let reply = client.send_to("/v1/memory_stores/alice/tool", "POST", &[], body.as_bytes());
                        reply.message()["content"][0].get("is_error").is_none()
                    };
                    assert!(is_kept);
                }
            });
        }
    });
    let read = request(1, "resources/read", json!({"uri": "memory:///a"}));
    let content = client.ask(&client.session(), &read);
    let content = content["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(content.lines().filter(|line| *line == "x").count() as u64, CLIENTS as u64 * INSERTS);
}

/// Some clients send the calls of a turn in the order of the replies to their pings.
#[test]
fn pings_are_answered_in_the_order_in_which_they_came() {
    const PINGS: u64 = 20_000;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let pings = (1..=PINGS).map(|id| request(id, "ping", json!({})));
    let requests: String =
        [initialize(), initialized].into_iter().chain(pings).map(|message| message.to_string() + "\n").collect();
    let mut output = Vec::new();
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(async {
        let memory = memory_tool::Memory::open("in-process:").await.unwrap();
        let mcp = memory_tool_server::Mcp::new(&memory_tool::MemoryOptions::new());
        mcp.serve(&memory, requests.as_bytes(), &mut output, std::future::pending()).await.unwrap();
    });
    let replies = String::from_utf8(output).unwrap();
    let ids = replies.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap());
    assert!(ids.filter(|id| *id > 0).eq(1..=PINGS)); // 0 is the first request
}

/// Clients without sessions count their requests, and parallel ones use several connections.
#[test]
fn clients_that_share_a_token_keep_their_orders() {
    let (_place, client) = started();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "memory")];
    let body =
        |id: u64, input: Value| modern(id, "tools/call", json!({"name": "memory", "arguments": input})).to_string();
    let alone = |id: u64| {
        let input = json!({"command": "view", "path": "/memories"});
        assert_eq!(client.send("POST", &headers, body(id, input).as_bytes()).status, 200);
    };
    (1..=10).for_each(alone); // another client, which stops here
    for round in 0..by_tier(3, 20) {
        (1..=8).for_each(alone);
        let [old, new] = ["old", "new"].map(|name| format!("/memories/{name}{round}"));
        let turn = [
            (11, json!({"command": "view", "path": new})),
            (9, create(&old, "x")),
            (10, json!({"command": "rename", "old_path": old, "new_path": new})),
        ];
        let streams = turn.map(|(id, input)| {
            let body = body(id, input);
            let mut stream = client.connect("/mcp", "POST", &headers, body.len());
            stream.write_all(body.as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50)); // they arrive in this order
            stream
        });
        for stream in streams {
            let response = Response::read(stream).message();
            assert_eq!(response["result"]["isError"], false, "round {round}: {response}");
        }
    }
}
