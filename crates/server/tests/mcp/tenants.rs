//! Tokens and their memories.

use std::fs;
use std::io::Read as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};

use crate::client::{Place, call, create, initialize, named, request, start, started, text, view};

#[test]
fn each_token_has_its_own_memory_and_sessions() {
    let (place, alice) = started();
    let (bob_place, reader) = (place.agent("bob").1, place.token(&[named("alice")], &[Right::Read], |_| ()).1);
    let (bob, reader) = (alice.server.client(&bob_place), alice.server.client(&reader));
    crate::until_admitted(|| reader.post(&[], &initialize()));
    let (of_alice, of_bob) = (alice.session(), bob.session());
    alice.ask(&of_alice, &call(1, create("/memories/a", "of alice")));
    bob.ask(&of_bob, &call(1, create("/memories/b", "of bob")));
    assert!(text(&alice.ask(&of_alice, &view(2))).contains("/memories/a"));
    assert!(!text(&bob.ask(&of_bob, &view(2))).contains("/memories/a"));
    assert_eq!(fs::read_to_string(place.path("bob/memories/b")).unwrap(), "of bob");
    for method in ["POST", "GET", "DELETE"] {
        let body = request(3, "ping", json!({})).to_string();
        let response = bob.send(method, &[("mcp-session-id", &of_alice)], body.as_bytes());
        assert_eq!(response.status, 404, "{method} {response:?}");
        assert!(response.body.contains("there is no such session"), "{response:?}");
    }
    assert_eq!(alice.ask(&of_alice, &request(3, "ping", json!({})))["result"], json!({}));
    // The history names the actor.
    let versions = reader.send_to("/v1/memory_stores/alice/memory_versions", "GET", &[], b"").message();
    assert_eq!(versions["data"].as_array().unwrap().len(), 1);
    assert!(versions["data"][0]["created_by"].to_string().contains("agent"), "{versions}");
}

/// The history has texts that other sessions deleted.
#[test]
fn a_client_needs_the_right_to_read_for_the_history() {
    let (place, agent) = started();
    let reader = place.token(&[named("alice")], &[Right::Tool, Right::Read], |_| ()).1;
    let reader = agent.server.client(&reader);
    crate::until_admitted(|| reader.post(&[], &initialize()));
    let sessions = [(&agent, agent.session()), (&reader, reader.session())];
    agent.ask(&sessions[0].1, &call(1, create("/memories/a", "tea")));
    let [of_agent, of_reader] = sessions.map(|(client, id)| {
        ["tools/list", "prompts/list", "tools/call"].map(|method| {
            let params = json!({"name": "memory_history", "arguments": {}});
            client.ask(&id, &request(2, method, params))
        })
    });
    let counts = |replies: &[Value; 3]| {
        let [tools, prompts] = [&replies[0]["result"]["tools"], &replies[1]["result"]["prompts"]];
        (tools.as_array().unwrap().len(), prompts.as_array().unwrap().len())
    };
    assert_eq!((counts(&of_agent), counts(&of_reader)), ((2, 1), (3, 2)));
    assert_eq!(of_agent[2]["error"]["message"], "Unknown tool: memory_history. The tools are: memory, memory_search");
    assert!(text(&of_reader[2]).ends_with("create by agent: created /memories/a"), "{}", of_reader[2]);
}

#[test]
fn a_client_that_proposes_sees_its_changes_alone() {
    let (place, agent) = started();
    let proposing = place.token(&[named("alice")], &[Right::Propose], |_| ()).1;
    let proposing = agent.server.client(&proposing);
    crate::until_admitted(|| proposing.post(&[], &initialize()));
    let (of_agent, of_proposing) = (agent.session(), proposing.session());
    agent.ask(&of_agent, &call(1, create("/memories/a", "counts")));
    proposing.ask(&of_proposing, &call(1, create("/memories/b", "waits")));
    for (client, id, expected) in [(&agent, &of_agent, [true, false]), (&proposing, &of_proposing, [true, true])] {
        let reply = client.ask(id, &view(2));
        let listed = text(&reply);
        assert_eq!(["/memories/a", "/memories/b"].map(|path| listed.contains(path)), expected, "{listed}");
    }
    let search = json!({"name": "memory_search", "arguments": {"pattern": "waits"}});
    let [hidden, found] = [(&agent, &of_agent), (&proposing, &of_proposing)]
        .map(|(client, id)| text(&client.ask(id, &request(3, "tools/call", search.clone()))).contains("/memories/b"));
    assert_eq!((hidden, found), (false, true));
    assert!(!place.path("alice/memories/b").exists());
}

#[test]
fn a_token_for_mcp_names_one_memory_and_has_the_right_of_the_tool() {
    let place = Place::new();
    let prefix = Grant::Prefix("a".to_owned());
    let several = "create it with `memory-tool token new --memory NAME --right tool`";
    let cases = [
        (vec![Grant::All], Right::ALL.to_vec(), 403, several),
        (vec![prefix], vec![Right::Tool], 403, several),
        (vec![named("alice"), named("bob")], vec![Right::Tool], 403, several),
        (vec![named("alice"), Grant::All], vec![Right::Tool], 403, several),
        (vec![named("alice")], vec![Right::Read, Right::Write], 403, "the token does not allow this"),
        (vec![named("alice")], vec![Right::Tool], 404, "there is no memory store \"alice\""),
    ];
    let tokens = cases.each_ref().map(|(grants, rights, ..)| place.token(grants, rights, |_| ()).1);
    let (repeated, creator) =
        (place.token(&[named("alice"), named("alice")], &[Right::Tool], |_| ()).1, place.agent("alice").1);
    let server = start(&place, place.path("").to_str().unwrap());
    for ((grants, rights, status, message), token) in cases.iter().zip(&tokens) {
        for method in ["POST", "GET", "DELETE"] {
            let response = server.client(token).send(method, &[], initialize().to_string().as_bytes());
            if *status == 404 && method != "POST" {
                continue; // the request lacks a session
            }
            assert_eq!(response.status, *status, "{method} {grants:?} {rights:?}: {response:?}");
            let error = &response.message()["error"]["message"];
            assert!(error.as_str().unwrap().contains(message), "{response:?}");
        }
    }
    assert!(!place.path("alice").exists());
    // The first use creates the memory. Then the others may use it.
    let creator = server.client(&creator);
    creator.ask(&creator.session(), &call(1, create("/memories/first", "")));
    let client = server.client(&repeated);
    let id = client.session();
    assert_eq!(
        text(&client.ask(&id, &call(1, create("/memories/a", "")))),
        "File created successfully at: /memories/a"
    );
}

#[test]
fn a_revoked_or_expired_token_ends_its_streams_and_sessions() {
    let place = Place::new();
    let (id, revoked) = place.agent("alice");
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(20);
    let (_, expiring) = place.token(&[named("alice")], &[Right::Tool], |entry| {
        (entry.create, entry.expires) = (true, Some(end.as_secs()));
    });
    let (_, valid) = place.agent("alice");
    let server = start(&place, place.path("").to_str().unwrap());
    let clients = [revoked, expiring, valid].map(|token| server.client(&token));
    let sessions = clients.each_ref().map(crate::client::Client::session);
    let mut streams = [0, 1, 2].map(|index| clients[index].stream(&sessions[index]));
    assert!(place.tokens.revoke(&id).unwrap());
    for index in [0, 1] {
        // The server ends the stream, and does not cut it.
        let mut rest = String::new();
        streams[index].read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
        let response = clients[index].post(&[("mcp-session-id", &sessions[index])], &view(1));
        assert_eq!(response.status, 401, "{response:?}");
    }
    streams[2].set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    while streams[2].read(&mut [0; 1024]).is_ok_and(|length| {
        assert_ne!(length, 0, "the stream of the valid token ended");
        true
    }) {}
    assert_eq!(clients[2].post(&[("mcp-session-id", &sessions[2])], &view(1)).status, 200);
}

#[test]
fn an_archived_memory_is_read_only() {
    let (place, client) = started();
    let admin = client.server.client(&place.token(&[Grant::All], &Right::ALL, |_| ()).1);
    let id = client.session();
    client.ask(&id, &call(1, create("/memories/a", "tea")));
    let archived = crate::until_admitted(|| admin.send_to("/v1/memory_stores/alice/archive", "POST", &[], b"{}"));
    assert_eq!(archived.status, 200, "{archived:?}");
    let refused = client.ask(&id, &call(2, create("/memories/b", "")));
    assert_eq!(refused["result"]["isError"], true);
    assert_eq!(text(&refused), "Error: the memory store is archived, so it is read-only");
    assert_eq!(refused["result"]["structuredContent"]["code"], "refused");
    assert!(text(&client.ask(&id, &view(3))).contains("/memories/a"));
    let read = client.ask(&id, &request(4, "resources/read", json!({"uri": "memory:///a"})));
    assert_eq!(read["result"]["contents"][0]["text"], "tea");
    // The endpoint of the tool does the same.
    let tool = |input: Value| {
        let body = input.to_string();
        client.send_to("/v1/memory_stores/alice/tool", "POST", &[], body.as_bytes()).status
    };
    assert_eq!((tool(create("/memories/b", "")), tool(json!({"command": "view", "path": "/memories"}))), (400, 200));
}

/// An operator takes a memory or the right of the tool from a token.
#[test]
fn a_token_that_loses_its_memory_loses_its_streams_and_sessions() {
    for (taken, given) in [("\"tool\"", "\"read\""), ("\"alice\"", "\"bob\"")] {
        let place = Place::new();
        let tokens =
            [place.agent("alice").1, place.token(&[named("bob")], &[Right::Tool], |entry| entry.create = true).1];
        let server = start(&place, place.path("").to_str().unwrap());
        let [alice, bob] = tokens.map(|token| server.client(&token));
        bob.ask(&bob.session(), &call(1, create("/memories/a", "")));
        let session = alice.session();
        alice.ask(&session, &request(1, "resources/subscribe", json!({"uri": "memory:///a"})));
        let mut stream = alice.stream(&session);
        let file = fs::read_to_string(place.path("tokens.json")).unwrap();
        fs::write(place.path("tokens.json"), file.replacen(taken, given, 1)).unwrap();
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut rest).unwrap(); // the server ends it
        let refused = alice.post(&[("mcp-session-id", &session)], &view(2));
        assert_eq!(refused.status, if given == "\"read\"" { 403 } else { 404 }, "{refused:?}");
    }
}

/// Another process can forget a memory while a session is open.
#[test]
fn a_session_does_not_create_a_forgotten_memory_again() {
    for is_local in [true, false] {
        let place = Place::new();
        let (creator, agent) = (place.agent("alice").1, place.token(&[named("alice")], &[Right::Tool], |_| ()).1);
        let (store, memory) = match is_local {
            true => (place.path("").display().to_string(), place.path("alice").display().to_string()),
            false => (place.database(), format!("{}?memory=alice", place.database())),
        };
        let server = start(&place, &store);
        let (creator, agent) = (server.client(&creator), server.client(&agent));
        let creating = creator.session();
        creator.ask(&creating, &call(1, create("/memories/first", "")));
        let session = agent.session();
        assert!(text(&agent.ask(&session, &view(1))).contains("/memories/first"));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            memory_tool::Memory::open(&memory).await.unwrap().forget().await.unwrap();
        });
        for (id, path) in [(2, "/memories/a"), (3, "/memories/b")] {
            let refused = agent.ask(&session, &call(id, create(path, "text"))).to_string();
            assert!(refused.contains("there is no memory store"), "{is_local}: {refused}");
        }
        // The session continues in a new memory of this name.
        creator.ask(&creating, &call(2, create("/memories/new", "")));
        let reply = agent.ask(&session, &view(4));
        let listing = text(&reply);
        assert!(listing.contains("/memories/new") && !listing.contains("/memories/first"), "{is_local}: {listing}");
    }
}
