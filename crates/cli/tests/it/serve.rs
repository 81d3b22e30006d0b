//! `memory-tool serve` and `memory-tool token`, as processes over real sockets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::Instant;

use memory_tool_conformance::{CommandLine, Suite};
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{PATIENCE, Place, outcome, program};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::server::{Server, new_token, store, token, with_files};

impl Server {
    fn head(&self, path: &str, headers: &[(&str, &str)], length: usize) -> TcpStream {
        let host = headers.iter().find(|(name, _)| *name == "host").map_or(self.address.as_str(), |(_, host)| host);
        let mut head =
            format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\nconnection: close\r\n");
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream
    }

    /// The status and the body of the response to a call of the tool.
    fn call(&self, memory: &str, token: &str, body: &Value) -> (u16, Value) {
        let authorization = format!("Bearer {token}");
        let path = format!("/v1/memory_stores/{memory}/tool");
        let body = body.to_string();
        let mut stream = self.head(&path, &[("authorization", &authorization)], body.len());
        stream.write_all(body.as_bytes()).unwrap();
        response(stream)
    }

    /// The text at a path.
    fn get(&self, path: &str, token: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let address = &self.address;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {token}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

fn response(mut stream: TcpStream) -> (u16, Value) {
    let mut response = Vec::new();
    // The server closes a connection whose body it has not read.
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8(response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {response:?}"));
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {response}"));
    let id = head.lines().find_map(|line| line.strip_prefix("request-id: ")).unwrap();
    if body["type"] == "error" {
        assert_eq!(body["request_id"], id);
    }
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

fn create(path: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": "one\n"})
}

fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}

#[test]
fn a_turn_runs_in_order_and_its_actor_is_in_the_history() {
    let place = Place::new();
    let (secret, _) = new_token(&place, &["--all-memories", "--right", "tool", "--create"]);
    let server = Server::start(&place);
    let call = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "memory", "input": input});
    let turn = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "I'll note it."},
        call("a", create("/memories/a.txt")),
        call("b", json!({"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "two"})),
    ]});
    let (status, body) = server.call("alice", &secret, &turn);
    assert_eq!(status, 200, "{body}");
    assert_eq!((&body["content"][0]["tool_use_id"], &body["content"][1]["tool_use_id"]), (&json!("a"), &json!("b")));
    let (_, body) = server.call("alice", &secret, &call("c", view("/memories/a.txt")));
    assert!(body["content"][0]["content"].as_str().unwrap().contains("     1\tone\n     2\ttwo\n"), "{body}");
    let (_, body) = server.call("alice", &secret, &view("/memories/none"));
    assert_eq!(body["content"][0]["is_error"], true);
    let log = program().args(["log", "--store", &format!("{}?memory=alice", store(&place))]).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    assert_eq!(log.matches("user/42").count(), 2, "{log}");
}

/// The tests of the server cover every right.
#[test]
fn a_token_has_the_memories_and_the_time_of_its_options() {
    let place = Place::new();
    let (all, _) = new_token(&place, &["--admin"]);
    let (team, _) = new_token(&place, &["--memory-prefix", "team-", "--right", "tool", "--create"]);
    let (reader, _) = new_token(&place, &["--memory", "alice", "--right", "read"]);
    let (expired, _) = new_token(&place, &["--memory", "alice", "--right", "tool", "--expires-in", "0s"]);
    let server = Server::start(&place);
    assert_eq!(server.call("alice", &all, &create("/memories/a")).0, 200);
    for (memory, token, expected) in
        [("team-1", team.as_str(), 200), ("alice", &team, 404), ("alice", &reader, 403), ("alice", &expired, 401)]
    {
        let (status, body) = server.call(memory, token, &view("/memories"));
        assert_eq!(status, expected, "{memory}: {body}");
    }
}

#[test]
fn a_token_and_a_group_share_memories() {
    let place = Place::new();
    let (admin, _) = new_token(&place, &["--admin"]);
    let mounts = ["--mount", "/memories/team=team:write", "--mount", "/memories/more=more:read"];
    let (writer, _) = new_token(&place, &[&["--memory", "alice", "--right", "tool"], &mounts[..]].concat());
    let reader = token(&place, &["new", "--actor", "bob", "--memory", "bob", "--right", "tool"]).remove(1);
    assert!(token(&place, &["list"])[2].contains("alice, /memories/team=team:write, /memories/more=more:read"));
    let listed: Value = serde_json::from_str(&token(&place, &["list", "--json"])[1]).unwrap();
    assert_eq!(listed["mounts"], json!([mounts[1], mounts[3]]));
    let (file, tokens) = (place.outside("server.toml"), place.outside("tokens.json"));
    let settings = |members: &str| {
        let text = "listen = '127.0.0.1:0'\nstore = 'STORE'\ntokens = 'TOKENS'\n[groups.team]\nread = [MEMBERS]\n";
        let text = text.replace("STORE", &store(&place)).replace("TOKENS", &tokens.display().to_string());
        fs::write(&file, text.replace("MEMBERS", members)).unwrap();
    };
    settings("'bob', 'dora'");
    let check = program().args(["serve", "--check", "--config"]).arg(&file).output().unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    assert!(check.contains("does not exist: the first memory creates it"), "{check}");
    let server = Server::spawn(program().args(["serve", "--config"]).arg(&file));
    for memory in ["alice", "bob", "team"] {
        assert_eq!(server.call(memory, &admin, &create("/memories/own")).0, 200);
    }
    let check = program().args(["serve", "--check", "--config"]).arg(&file).output().unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    assert!(check.contains("the group \"team\" has \"dora\", an actor without a token"), "{check}");
    assert!(check.contains(" has /memories/more=more:read, which waits for a memory of this name"), "{check}");
    assert_eq!(check.matches("waits for a memory").count(), 1, "{check}");
    let (_, body) = server.call("alice", &writer, &create("/memories/team/a"));
    assert_eq!(body["content"][0]["is_error"], Value::Null, "{body}");
    let (_, body) = server.call("alice", &writer, &create("/memories/more/a"));
    assert!(body.to_string().contains("/memories/more is read-only"), "{body}");
    let sees = || server.call("bob", &reader, &view("/memories")).1.to_string().contains("/memories/team/a");
    assert!(sees());
    settings("");
    let start = Instant::now();
    while sees() {
        assert!(start.elapsed() < PATIENCE);
    }
    let twice = ["--mount", "/memories/x=a:read", "--mount", "/memories/x=b:read"];
    for (wrong, named) in [
        (&twice[..], "two memories are mounted at /memories/x"),
        (&["--mount", "/memories/x=a"], "expected POINT=MEMORY:read or POINT=MEMORY:write"),
        (&["--mount", "/memories=a:read"], "cannot be mounted at /memories itself"),
    ] {
        let mut command = program();
        command.args(["token", "new", "--actor", "x", "--memory", "x", "--right", "tool", "--tokens"]).arg(&tokens);
        let refused = command.args(wrong).output().unwrap();
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && errors.contains(named), "{errors}");
    }
}

#[test]
fn a_revoked_token_stops_working() {
    let place = Place::new();
    let (secret, id) = new_token(&place, &["--admin"]);
    let server = Server::start(&place);
    assert_eq!(server.call("alice", &secret, &view("/memories")).0, 200);
    assert!(token(&place, &["list"])[1].contains(&id));
    token(&place, &["revoke", &id]);
    let start = Instant::now();
    while server.call("alice", &secret, &view("/memories")).0 != 401 {
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn the_file_has_only_hashes_and_concurrent_changes_are_all_kept() {
    let place = Place::new();
    let secrets: Vec<_> = thread::scope(|scope| {
        let new = || scope.spawn(|| new_token(&place, &["--memory", "alice", "--right", "tool"]).0);
        let running: Vec<_> = (0..16).map(|_| new()).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let file = place.outside("tokens.json");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(secrets.iter().all(|secret| !text.contains(secret) && secret.len() == 71));
    assert_eq!(token(&place, &["list", "--json"]).len(), 16);
}

#[test]
fn tokens_are_listed_for_people_and_for_programs() {
    let place = Place::new();
    let (_, id) = new_token(&place, &["--memory", "notes", "--memory-prefix", "team-", "--right", "tool", "--create"]);
    token(&place, &["new", "--actor", "ops", "--admin", "--expires-in", "90d"]);
    let listed = token(&place, &["list"]);
    let cells = |line: usize| -> Vec<_> {
        listed[line].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells(0), ["ID", "ACTOR", "MEMORIES", "RIGHTS", "EXPIRES", "LAST USE"]);
    assert_eq!(cells(1), [&*id, "user/42", "notes, team-*", "tool, create", "never", "none yet"]);
    let is_aligned = |line: &String| line.find("user/42").or(line.find("ops")) == listed[0].find("ACTOR");
    assert!(listed[1..].iter().all(is_aligned), "{listed:?}");
    let in_json: Vec<Value> =
        token(&place, &["list", "--json"]).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        [&in_json[0]["id"], &in_json[0]["expires"], &in_json[0]["last_use"]],
        [&json!(id), &Value::Null, &Value::Null]
    );
    let end = in_json[1]["expires"].as_str().unwrap();
    assert!(end.ends_with('Z'), "{end}");
    assert_eq!(cells(2)[1..], ["ops", "all", "tool, propose, read, write, admin, create", end, "none yet"]);
}

#[test]
fn causes_of_failures_are_in_the_log_only() {
    let place = Place::new();
    let (secret, _) = new_token(&place, &["--memory", "store", "--right", "tool"]);
    place.session().close();
    place.break_storage();
    let directory = place.outside("");
    let mut server = Server::start_as(program().args(["serve", "--store"]).arg(&directory), &place);
    let (status, body) = server.call("store", &secret, &view("/memories"));
    assert!(status == 500 && body["error"]["message"] == "the storage failed", "{body}");
    server.signal("-TERM");
    let (status, errors) = server.finish();
    assert!(status == Some(143) && errors.contains("lock"), "{errors}");
}

#[cfg(feature = "mcp")]
#[test]
fn a_signal_ends_the_server_while_a_stream_of_mcp_is_open() {
    let place = Place::new();
    let (secret, _) = new_token(&place, &["--memory", "alice", "--right", "tool", "--create"]);
    let authorization = format!("Bearer {secret}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": {"resourcesListChanged": true},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let listen = listen.to_string();
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let mut server = Server::start(&place);
        let mut stream = server.head("/mcp", &headers, listen.len());
        stream.write_all(listen.as_bytes()).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        let idle = TcpStream::connect(&server.address).unwrap();
        server.signal(signal);
        assert_eq!(server.finish(), (Some(status), String::new()));
        drop(idle);
    }
}

#[test]
fn an_address_in_use_is_reported() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut command = program();
    command.args(["serve", "--listen", &address, "--store", &store(&place), "--tokens"]);
    let output = command.arg(place.outside("tokens.json")).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with(&format!("memory-tool: cannot serve at {address}: ")), "{errors}");
}

#[test]
fn a_server_that_does_not_respond_is_reported() {
    let place = Place::new();
    let check = |address: &str| outcome(program().args(["healthcheck", "--listen", address]));
    let server = Server::start(&place);
    assert_eq!(check(&server.address), (Some(0), String::new(), String::new()));
    let port = server.address.rsplit(':').next().unwrap();
    assert_eq!(check(&format!("0.0.0.0:{port}")).0, Some(0));
    let address = server.address.clone();
    drop(server);
    let (status, _, errors) = check(&address);
    assert_eq!(status, Some(1));
    assert!(errors.starts_with(&format!("memory-tool: the server at {address} does not respond: ")), "{errors}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    for (reply, reason) in
        [("HTTP/1.1 503 \u{1b}[31mBusy\r\n\r\n", "responded: HTTP/1.1 503 "), ("", "does not respond: ")]
    {
        thread::scope(|scope| {
            let checked = scope.spawn(|| check(&address.to_string()));
            let (mut stream, _) = other.accept().unwrap();
            let mut request = [0; 1_000];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(reply.as_bytes()).unwrap();
            drop(stream);
            let (status, _, errors) = checked.join().unwrap();
            assert!(status == Some(1) && errors.contains(reason) && !errors.contains('\u{1b}'), "{errors}");
        });
    }
}

#[test]
fn a_low_limit_of_open_files_is_reported() {
    let place = Place::new();
    new_token(&place, &["--admin"]);
    let settings = format!("store = {:?}\ntokens = {:?}\n", store(&place), place.outside("tokens.json"));
    let file = place.outside("server.toml");
    for (limits, needed) in [("", 4_160), ("max_open_memories = 1_000\n[limits]\nconnections = 3_000\n", 11_064)] {
        fs::write(&file, format!("{settings}{limits}")).unwrap();
        let output = with_files(1_000, "").args(["serve", "--check", "--config"]).arg(&file).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(&format!("is 1000, but the server needs {needed}")), "{errors}");
    }
}

/// The server keeps 256 memories open.
#[test]
fn open_files_do_not_grow_with_the_number_of_memories() {
    let place = Place::in_memory();
    let (secret, _) = new_token(&place, &["--admin"]);
    for store in [store(&place), place.outside("memories").display().to_string()] {
        let server = Server::start_at(&place, &store);
        let files = || fs::read_dir(format!("/proc/{}/fd", server.process.id())).unwrap().count();
        let mut counts = Vec::new();
        for number in 1..=by_tier(600, 10_000) {
            let (status, body) = server.call(&format!("m{number}"), &secret, &create("/memories/a"));
            assert_eq!(status, 200, "{body}");
            if number % 300 == 0 {
                counts.push(files());
            }
        }
        // A few connections may not be closed yet.
        assert!(counts.iter().all(|count| *count <= counts[0] + 16 && *count < 1_024), "{store}: {counts:?}");
    }
}

/// Runs clients that insert lines, and returns the number of replies of success.
fn insert(server: &Server, secret: &str, clients: usize, lines: usize, stop: impl FnOnce() + Send) -> usize {
    thread::scope(|scope| {
        let insert = move || {
            let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x\n"});
            let mut kept = 0;
            for _ in 0..lines {
                let path = "/v1/memory_stores/alice/tool";
                let Ok(mut stream) = TcpStream::connect(&server.address) else { return kept };
                let body = insert.to_string();
                let head =
                    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {secret}\r\nconnection: close\r\n");
                let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
                let mut reply = String::new();
                let _ = stream.read_to_string(&mut reply);
                kept += usize::from(reply.starts_with("HTTP/1.1 200") && !reply.contains("is_error"));
            }
            kept
        };
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(insert)).collect();
        stop();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The lines in the file, which a view would cut.
fn lines(place: &Place) -> usize {
    let store = format!("{}?memory=alice", store(place));
    let output = program().args(["cat", "--store", &store, "/memories/a"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().filter(|line| *line == "x").count()
}

#[test]
fn a_server_that_ends_under_load_loses_nothing_acknowledged() {
    for (signal, status) in [("-KILL", None), ("-TERM", Some(143))] {
        let place = Place::new();
        let (secret, _) = new_token(&place, &["--admin"]);
        let mut server = Server::start(&place);
        server.call("alice", &secret, &create("/memories/a"));
        let kept = insert(&server, &secret, 16, 50, || {
            while lines(&place) < 20 {}
            server.signal(signal);
        });
        assert_eq!(server.finish().0, status);
        let found = lines(&place);
        assert!(kept >= 20 && found >= kept, "{signal}: {found} of {kept}");
    }
}

#[test]
fn the_check_reports_tokens_that_others_can_read() {
    let place = Place::new();
    new_token(&place, &["--admin"]);
    let check = || {
        let mut command = program();
        command.args(["serve", "--check", "--store", &store(&place), "--tokens"]).arg(place.outside("tokens.json"));
        command.output().unwrap()
    };
    assert_eq!(check().status.code(), Some(0));
    fs::remove_file(place.outside("tokens.json")).unwrap();
    let missing = check();
    let found = String::from_utf8(missing.stdout).unwrap();
    assert!(missing.status.success() && found.contains("without a token, every request is refused"), "{found}");
    new_token(&place, &["--admin"]);
    fs::set_permissions(place.outside("tokens.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("mode 644 gives other users access"), "{errors}");
}

/// Each case has its own memory in one server. The long tier runs the whole suite.
#[test]
fn the_conformance_suite_passes_through_the_endpoint() {
    let place = Place::new();
    let (secret, _) = new_token(&place, &["--all-memories", "--right", "tool", "--create"]);
    let server = Server::start(&place);
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/drivers/server.py");
    let command = format!("python3 -SEI '{driver}' http://{} {secret} {{dir}}", server.address);
    let suite = Suite::for_command(CommandLine::parse(&command).unwrap());
    let suite = suite.answer_timeout(PATIENCE * 2).case_timeout(PATIENCE * 4);
    let suite = by_tier(&["view."][..], &[]).iter().fold(suite, |suite, filter| suite.filter(*filter));
    let report = Runtime::new().unwrap().block_on(suite.run());
    assert!(report.is_success(), "{report}");
}

/// Runs `serve --config` with a file. Returns the exit status and standard error.
fn configured(place: &Place, settings: &str, more: &[&str]) -> (Option<i32>, String) {
    let file = place.outside("server.toml");
    fs::write(&file, settings).unwrap();
    let output = program().args(["serve", "--config"]).arg(file).args(more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_file_has_all_settings() {
    let place = Place::new();
    let (secret, _) = new_token(&place, &["--all-memories", "--right", "tool", "--right", "read", "--create"]);
    let (store, tokens) = (store(&place), place.outside("tokens.json"));
    let required = format!("store = {store:?}\ntokens = {tokens:?}\nlisten = \"127.0.0.1:0\"\n");
    fs::write(place.outside("server.toml"), format!("{required}[memory]\nexpire_after = 180\n")).unwrap();
    let check = program().args(["serve", "--check", "--config"]).arg(place.outside("server.toml")).output().unwrap();
    let found = String::from_utf8(check.stdout).unwrap();
    for line in ["1 tokens in ", " does not exist: the first memory creates it", "files expire after 3 minutes"] {
        assert!(found.contains(line), "{line}: {found}");
    }
    let settings = format!("{required}[limits]\nbody_bytes = 1000\n[memory]\nmax_files = 1\n");
    assert_eq!(configured(&place, &settings, &["--check"]), (Some(0), String::new()));
    let server = Server::spawn(program().args(["serve", "--config"]).arg(place.outside("server.toml")));
    let (status, body) = server.call("alice", &secret, &create("/memories/a.txt"));
    assert_eq!((status, &body["content"][0]["is_error"]), (200, &Value::Null), "{body}");
    let (_, body) = server.call("alice", &secret, &create("/memories/b.txt"));
    assert_eq!(body["content"][0]["is_error"], true, "{body}");
    let long = json!({"command": "view", "path": "x".repeat(1_000)});
    assert_eq!(server.call("alice", &secret, &long).0, 413);

    let metrics = server.get("/metrics", &secret);
    for metric in [
        r#"memory_server_requests_total{route="/v1/memory_stores/{id}/tool",method="POST",status="200"} 2"#,
        r#"memory_server_requests_total{route="/v1/memory_stores/{id}/tool",method="POST",status="413"} 1"#,
        "# HELP memory_commands_total ",
        r#"memory_commands_total{store="memory",command="create",outcome="done",error="none",policy="none"} 1"#,
        r#"memory_commands_total{store="memory",command="create",outcome="refused",error="refused",policy="limits"} 1"#,
        "memory_server_open_memories 1",
    ] {
        assert!(metrics.contains(metric), "{metric}: {metrics}");
    }

    for (wrong, named) in [
        ("", "line 1: missing field `store`"),
        (&format!("{required}listen = 1\n"), "line 4: duplicate key"),
        (&format!("{required}colour = 'red'\n"), "line 4: unknown field `colour`"),
        (&format!("{required}[memory]\nexpire_after = -1\n"), "line 5: expected a number of seconds, not negative"),
        (&format!("{required}[memory]\naudit_log = 'a'\n"), "audit_log requires actor"),
        (&format!("{required}[tls]\ncertificate = 'no.pem'\nkey = 'no.pem'\n"), "cannot use the certificate: no.pem"),
    ] {
        let (status, message) = configured(&place, wrong, &["--check"]);
        assert!(status == Some(2) && message.contains(named), "{named}: {message}");
    }
    let (status, message) = configured(&place, &settings, &["--no-history"]);
    assert!(status == Some(2) && message.contains("'--config <FILE>' cannot be used with"), "{message}");
}

#[cfg(feature = "mcp")]
#[test]
fn the_check_asks_the_identity_provider() {
    let place = Place::new();
    let file = place.outside("server.toml");
    let settings = |public_url: &str| {
        let (store, tokens) = (store(&place), place.outside("tokens.json").display().to_string());
        let rule = "[[issuer.access]]\nmemory = 'users/{sub}'\nrights = ['tool']";
        let issuer = format!("[issuer]\nurl = 'http://127.0.0.1:1'\n{rule}\n");
        fs::write(&file, format!("store = '{store}'\ntokens = '{tokens}'\n{public_url}\n{issuer}")).unwrap();
        outcome(program().args(["serve", "--check", "--config"]).arg(&file))
    };
    let (status, _, errors) = settings("public_url = 'https://memory.example'");
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("cannot use the issuer http://127.0.0.1:1"), "{errors}");
    let (_, _, errors) = settings("");
    assert!(errors.contains("issuer needs public_url"), "{errors}");
}
