//! Tokens, rights, and names that try to leave a memory, on every route.

use std::io::Write;
use std::sync::{Arc, Mutex};

use memory_tool::LogDetail;
use memory_tool_server::{Grant, Right, ServerOptions, TokenEntry, TokenFile};
use serde_json::{Value, json};

use crate::server::{Server, places, sha256};

/// The content of a file of another tenant.
const SECRET: &str = "Prefers the secret tea.";

/// The needs of a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Needs {
    Nothing,
    /// A right in the memory of the path.
    In(Right),
    /// A right in all memories.
    InAll(Right),
    /// A right. The response only has what the token reaches.
    Listed(Right),
}

/// Every route of the server. [`every_route_is_listed`] fails without one of them.
pub(crate) const ROUTES: [(&str, &str, Needs, &str); 17] = {
    use Needs::{In, InAll, Listed, Nothing};
    use Right::{Admin, Read, Tool, Write};
    const STORE: &str = "/v1/memory_stores/{id}";
    const MEMORIES: &str = "/v1/memory_stores/{id}/memories";
    const MEMORY: &str = "/v1/memory_stores/{id}/memories/{memory}";
    const VERSIONS: &str = "/v1/memory_stores/{id}/memory_versions";
    const VERSION: &str = "/v1/memory_stores/{id}/memory_versions/{version}";
    const REDACT: &str = "/v1/memory_stores/{id}/memory_versions/{version}/redact";
    const CALL: &str = r#"{"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x\n"}"#;
    [
        ("GET", "/healthz", Nothing, ""),
        ("GET", "/v1/memory_stores", Listed(Read), ""),
        ("POST", "/v1/memory_stores", InAll(Admin), r#"{"name": "x"}"#),
        ("GET", STORE, In(Read), ""),
        ("POST", STORE, In(Admin), r#"{"name": "x"}"#),
        ("GET", MEMORIES, In(Read), ""),
        ("POST", MEMORIES, In(Write), r#"{"path": "/new", "content": "x"}"#),
        ("GET", MEMORY, In(Read), ""),
        ("POST", MEMORY, In(Write), r#"{"content": "x"}"#),
        ("PATCH", MEMORY, In(Write), r#"{"content": "x"}"#),
        ("DELETE", MEMORY, In(Write), ""),
        ("GET", VERSIONS, In(Read), ""),
        ("GET", VERSION, In(Read), ""),
        ("POST", REDACT, In(Write), ""),
        ("POST", "/v1/memory_stores/{id}/tool", In(Tool), CALL),
        ("POST", "/v1/memory_stores/{id}/archive", In(Admin), ""),
        ("DELETE", STORE, In(Admin), ""),
    ]
};

fn body(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| serde_json::from_str(text).unwrap())
}

/// Creates a memory with a file that has two versions. Returns a function that completes the paths of routes.
async fn create(server: &Server, creating: &str, name: &str) -> impl Fn(&str) -> String + use<> {
    let tool = format!("/v1/memory_stores/{name}/tool");
    for call in [
        json!({"command": "create", "path": "/memories/a", "file_text": SECRET}),
        json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "First.\n"}),
    ] {
        let (status, reply) = server.send("POST", &tool, Some(call), &[creating]).await;
        assert_eq!((status, &reply["content"][0]["is_error"]), (200, &Value::Null), "{reply}");
    }
    let listed = server.get(&format!("/v1/memory_stores/{name}/memories")).await;
    let versions = server.get(&format!("/v1/memory_stores/{name}/memory_versions")).await;
    let id = |found: &Value| found["id"].as_str().unwrap().to_owned();
    let (name, memory, version) = (name.to_owned(), id(&listed["data"][0]), id(&versions["data"][1]));
    move |path| path.replace("{id}", &name).replace("{memory}", &memory).replace("{version}", &version)
}

/// The document of the API has all routes, as another test checks. [`crate::listening`] tests those for monitors, and
/// `tests/mcp` tests `/mcp`.
#[test]
fn every_route_is_listed() {
    let document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !["/readyz", "/metrics", "/openapi.json", "/mcp"].contains(&path.as_str()) {
            found.extend(methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())));
        }
    }
    let mut listed: Vec<_> =
        ROUTES.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}

#[tokio::test]
async fn each_route_asks_for_its_right_in_its_memory() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        // Commands run with the weaker right too.
        let is_enough = |given, right| given == right || (given == Right::Propose && right == Right::Tool);
        let without = |right| Right::ALL.into_iter().filter(|given| !is_enough(*given, right)).collect::<Vec<_>>();
        let prefix = |text: &str| Grant::Prefix(text.to_owned());
        let [creating, expired, revoked] = [(true, None), (false, Some(1)), (false, None)];
        let [creating, expired, revoked] = server
            .with_tokens([creating, expired, revoked].map(|(creates, end)| (Grant::All, &Right::ALL[..], creates, end)))
            .await;
        let strangers = [prefix("bobby"), Grant::Name("bob".parse().unwrap()), Grant::Name("alice".parse().unwrap())];
        let strangers = server.with_tokens(strangers.map(|grant| (grant, &Right::ALL[..], true, None))).await;
        let missing = Right::ALL.map(without);
        let lacking = server.with_tokens([0, 1, 2, 3, 4].map(|n| (Grant::All, &missing[n][..], true, None))).await;
        let only = Right::ALL.map(|right| [right]);
        let sufficient = server.with_tokens([0, 1, 2, 3, 4].map(|n| (prefix("bob-"), &only[n][..], false, None))).await;
        let for_all = server.with_tokens([0, 1, 2, 3, 4].map(|n| (Grant::All, &only[n][..], false, None))).await;
        let of = |headers: &[String; 5], right| {
            headers[Right::ALL.iter().position(|other| *other == right).unwrap()].clone()
        };
        server.revoke(&revoked).await;
        for (number, (method, path, needs, text)) in ROUTES.into_iter().enumerate() {
            let complete = create(&server, &creating, &format!("bob-{number}")).await;
            let (path, body) = (complete(path), body(text));
            let expect = async |header: &str, expected: (u16, &str)| {
                let (status, reply) = server.send(method, &path, body.clone(), &[header]).await;
                let shown = format!("{method} {path} with {header}: {reply}");
                assert_eq!((status, reply["error"]["type"].as_str()), (expected.0, Some(expected.1)), "{shown}");
                assert!(reply["type"] == "error" && reply["request_id"].is_string(), "{shown}");
                assert!(reply["error"]["message"].is_string() && !reply.to_string().contains(SECRET), "{shown}");
            };
            let right = match needs {
                Needs::Nothing => {
                    let reply = server.raw(format!("{method} {path} HTTP/1.0\r\n\r\n")).await;
                    assert!(reply.starts_with("HTTP/1.0 200") && reply.ends_with("\r\n\r\nok\n"), "{reply}");
                    continue;
                }
                Needs::In(right) | Needs::InAll(right) | Needs::Listed(right) => right,
            };
            for header in ["x-api-key;", "x-api-key: ", "x-api-key: memtok_0", &expired, &revoked] {
                expect(&header.replace(';', "-none: x"), (401, "authentication_error")).await;
            }
            for header in &strangers {
                match needs {
                    Needs::In(_) => expect(header, (404, "not_found_error")).await,
                    Needs::InAll(_) => expect(header, (403, "permission_error")).await,
                    _ => {
                        let (status, reply) = server.send(method, &path, body.clone(), &[header]).await;
                        assert_eq!((status, &reply["data"]), (200, &json!([])));
                    }
                }
            }
            expect(&of(&lacking, right), (403, "permission_error")).await;
            if let Needs::InAll(_) = needs {
                expect(&of(&sufficient, right), (403, "permission_error")).await;
            }
            let header = of(if matches!(needs, Needs::InAll(_)) { &for_all } else { &sufficient }, right);
            let (status, reply) = server.send(method, &path, body.clone(), &[&header]).await;
            assert_eq!(status, 200, "{method} {path}: {reply}");
        }
    }
}

/// The ids of memories, files and versions that try to reach the files of `bob`.
fn hostile_ids(name: &str) -> Vec<String> {
    let mut ids: Vec<_> = [
        "..",
        "%2e%2e",
        ".",
        "%2e",
        "ali",
        "alic",
        "alice2",
        "Alice",
        "alice%20",
        "alice.",
        "alice/../bob",
        "alice%2f..%2fbob",
        "alice/%2e%2e/bob",
        "alice%5c..%5cbob",
        "alice\\..\\bob",
        "alice%00",
        "bob%00",
        "%00",
        "alice%0abob",
        "%ff",
        "%c0%ae",
        "%",
        "%2",
        "alice%252f..%252fbob",
        "BOB",
        "%62ob",
        "b%6fb",
        "bob%2f",
        "bob/",
        "//bob",
        "",
        "ali%cc%81ce",
        "al%c3%adce",
        "alice;bob",
        "alice,bob",
        "alice?memory=bob",
        "alice%3fmemory=bob",
        "alice&memory=bob",
        "alice%23",
        "'%20OR%20'1'='1",
        "alice%25",
        "al_ce",
        "%25",
        "mem_0",
        "memver_1_0",
        "memver_-1_0",
        "memver_1_0_",
        "memver_99999999999999999999_0",
        "memver_18446744073709551615_18446744073709551615",
        "memver_0_0",
        "alice%2fmemories",
        "alice%2f.memory-tool",
        "alice%e2%80%8b",
        "alice%e2%80%ae",
    ]
    .map(str::to_owned)
    .into();
    ids.extend([name.to_owned(), "a".repeat(256), "alice".repeat(1_500), "%2e%2e%2f".repeat(800), "../".repeat(2_000)]);
    ids
}

#[tokio::test]
async fn hostile_ids_and_paths_reach_nothing_of_others() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let prefix = Grant::Prefix("ali".to_owned());
        let tokens = [(Grant::All, &Right::ALL[..], true, None), (prefix, &Right::ALL[..], true, None)];
        let [creating, attacker] = server.with_tokens(tokens).await;
        let of_bob = create(&server, &creating, "bob").await;
        let bob = server.get(&of_bob("/v1/memory_stores/{id}/memories/{memory}")).await;
        let check = async |method: &str, path: &str, body: Option<&str>| {
            let body = body.unwrap_or_default();
            let encoded: String = place.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let is_echo = body.contains(&place) || path.contains(&encoded);
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{attacker}");
            let reply = server.raw(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
            let status = reply.split(' ').nth(1).unwrap_or_else(|| panic!("{method} {path}: {reply}"));
            assert!(status.starts_with(['2', '4']), "{method} {path} {body}: {reply}");
            let (head, content) = reply.split_once("\r\n\r\n").unwrap();
            if head.contains("request-id: ") {
                let content: Value =
                    serde_json::from_str(content).unwrap_or_else(|_| panic!("{method} {path}: {reply}"));
                assert_eq!(
                    content["error"]["message"].is_string(),
                    status.starts_with('4'),
                    "{method} {path}: {reply}"
                );
            } // or else hyper refuses the request
            assert!(!reply.contains(SECRET) && (!reply.contains(&place) || is_echo), "{method} {path} {body}: {reply}");
            assert!(
                !reply.contains(bob["id"].as_str().unwrap()) || path.contains(bob["id"].as_str().unwrap()),
                "{reply}"
            );
        };
        for (method, path, needs, text) in ROUTES {
            for id in hostile_ids(bob["id"].as_str().unwrap()) {
                for part in ["{id}", "{memory}", "{version}"].into_iter().filter(|part| path.contains(part)) {
                    // The other parts are of the attacker, or of bob.
                    for store in ["alice", "bob"] {
                        let path = path.replace(part, &id).replace("{id}", store);
                        let path =
                            path.replace("{memory}", bob["id"].as_str().unwrap()).replace("{version}", "memver_1_0");
                        if needs != Needs::Nothing && (store == "alice" || part != "{id}") {
                            check(method, &path, Some(text)).await;
                        }
                    }
                }
            }
        }
        let up = "/..".repeat(15);
        for path in [
            "/../../bob/memories/a",
            "/../../bob/memories",
            "/%2e%2e/%2e%2e/bob/memories/a",
            "/..%2f..%2fbob/memories/a",
            "\\..\\..\\bob\\memories\\a",
            "/a\0",
            "/bob\0/../a",
            "/./../a",
            "//bob/a",
            "",
            "/",
            ".",
            "..",
            "bob",
            "/e\u{301}/a",
            "/\u{202e}",
            "/\u{ff0e}\u{ff0e}/\u{ff0e}\u{ff0e}/bob/memories/a",
            "/.memory-tool/lock",
            &format!("{up}{place}/bob/memories/a"),
            &format!("{up}/etc/passwd"),
            &"/a".repeat(5_000),
            &format!("/{}", "a".repeat(100_000)),
        ] {
            let text = |value: Value| Some(value.to_string());
            let memories = "/v1/memory_stores/alice/memories";
            for body in [json!({"path": path, "content": "x"}), json!({"path": path})] {
                check("POST", memories, text(body).as_deref()).await;
            }
            let query: String = path.bytes().take(3_000).map(|byte| format!("%{byte:02x}")).collect();
            for query in
                [format!("path_prefix={query}"), format!("path_prefix={query}%2f&view=full"), format!("page={query}")]
            {
                check("GET", &format!("{memories}?{query}"), None).await;
            }
            for prefix in ["/memories", ""] {
                let path = format!("{prefix}{path}");
                for call in [
                    json!({"command": "view", "path": path}),
                    json!({"command": "create", "path": path, "file_text": "x"}),
                    json!({"command": "str_replace", "path": path, "old_str": "tea", "new_str": "x"}),
                    json!({"command": "rename", "old_path": path, "new_path": "/memories/stolen"}),
                    json!({"command": "rename", "old_path": "/memories/stolen", "new_path": path}),
                    json!({"command": "delete", "path": path}),
                ] {
                    check("POST", "/v1/memory_stores/alice/tool", text(call).as_deref()).await;
                }
            }
        }
        check("GET", "/v1/memory_stores/alice/memories?view=full", None).await;
        assert_eq!(server.get(&of_bob("/v1/memory_stores/{id}/memories/{memory}")).await, bob);
    }
}

/// The lines of the log of this process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_has_a_token_a_hash_or_content() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(log).unwrap(); // other tests only add lines
    let (_directory, places) = places();
    for place in places {
        let server = Server::start_with(&place, |options| {
            (options.memory.log, options.memory.log_paths) = (Some(LogDetail::Operations), true);
        })
        .await;
        let all = [(Grant::All, &Right::ALL[..], true, None), (Grant::All, &Right::ALL[..], true, Some(1))];
        let [creating, expired] = server.with_tokens(all).await;
        let wrong = "x-api-key: memtok_wrong-token";
        for (number, (method, path, needs, text)) in ROUTES.into_iter().enumerate() {
            let complete = create(&server, &creating, &format!("logged-{number}")).await;
            if needs != Needs::Nothing {
                for header in [wrong, &expired, &creating] {
                    server.send(method, &complete(path), body(text), &[header]).await;
                }
                let invalid = format!("{{\"{SECRET}\": \"{SECRET}\"");
                let head =
                    format!("{method} {} HTTP/1.1\r\nhost: x\r\n{creating}\r\nconnection: close", complete(path));
                server.raw(format!("{head}\r\ncontent-length: {}\r\n\r\n{invalid}", invalid.len())).await;
                let head = head.replace("host: x", "host: localhost");
                server.raw(format!("{head}\r\ncontent-length: {}\r\n\r\n{invalid}", invalid.len())).await;
            }
        }
        // A memory whose storage fails, so that causes are logged.
        if !place.starts_with("sqlite:") {
            let broken = format!("{place}/logged-0/.memory-tool");
            std::fs::remove_dir_all(&broken).unwrap();
            std::fs::write(broken, "").unwrap();
            let call = json!({"command": "create", "path": "/memories/b", "file_text": SECRET});
            server.send("POST", "/v1/memory_stores/logged-0/tool", Some(call), &[&creating]).await;
        }
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(log.matches("/v1/memory_stores/logged-").count() > ROUTES.len() && log.contains("apply"), "{log}");
        let tokens = [&creating, &expired, wrong].map(|header| header.trim_start_matches("x-api-key: ").to_owned());
        for secret in tokens.iter().cloned().chain(tokens.iter().map(|token| sha256(token))) {
            assert!(!log.contains(&secret), "{secret}");
        }
        for content in [SECRET, "secret tea", &sha256(SECRET), "First."] {
            assert!(!log.contains(content), "{content}: {}", log.lines().find(|line| line.contains(content)).unwrap());
        }
    }
}

#[tokio::test]
async fn no_debug_output_has_a_token_or_a_hash() {
    let directory = tempfile::tempdir().unwrap();
    let actor = memory_tool::Actor::from_trusted_name("key").unwrap();
    let (entry, token) = TokenEntry::generate(actor, vec![Grant::All], Right::ALL.to_vec()).unwrap();
    let file = TokenFile::new(directory.path().join("tokens"));
    file.add(entry.clone()).unwrap();
    let place = directory.path().display().to_string();
    let mut options = ServerOptions::new(place.parse().unwrap(), directory.path().join("tokens"));
    options.listen = "127.0.0.1:0".parse().unwrap();
    let shown = format!("{entry:?} {entry:#?} {file:?} {options:?}");
    let server = memory_tool_server::Server::listen(options).await.unwrap();
    let shown = format!("{shown} {server:?} {server:#?}");
    assert!(shown.contains(&entry.id));
    assert!(!shown.contains(&token) && !shown.contains(&sha256(&token)), "{shown}");
}
