//! The Memory Stores API by plain HTTP. The tests in `downloads` use the official SDKs.

#![cfg(test)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod births;
mod contention;
mod floods;
mod listening;
mod operators;
mod page;
mod proposals;
mod proxies;
mod requests;
mod security;
mod server;
mod sessions;
mod sharing;

use memory_tool::Memory;
use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};
use server::{Server, places};

pub(crate) async fn new_store(server: &Server) -> String {
    let store = server.post("/v1/memory_stores", json!({"name": "Notes"})).await;
    format!("/v1/memory_stores/{}", store["id"].as_str().unwrap())
}

pub(crate) async fn new_memory(server: &Server, store: &str, path: &str, content: &str) -> Value {
    server.post(&format!("{store}/memories"), json!({"path": path, "content": content})).await
}

pub(crate) fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

#[tokio::test]
async fn ids_stay_over_renames_restarts_and_a_truncated_log() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let store = new_store(&server).await;
        let memory = new_memory(&server, &store, "/a/b.md", "one").await;
        let one = format!("{store}/memories/{}", id(&memory));
        let moved = server.post(&one, json!({"path": "/c/d.md", "content": "two"})).await;
        assert_eq!((id(&moved), moved["path"].as_str()), (id(&memory), Some("/c/d.md")));
        let name = store.rsplit('/').next().unwrap();
        let url =
            if place.starts_with("sqlite:") { format!("{place}?memory={name}") } else { format!("{place}/{name}") };
        let other = Memory::builder(&url)
            .history_limits(memory_tool::history::Limits::new().changes(64))
            .build()
            .await
            .unwrap();
        other.rename("/memories/c", "/memories/e").await.unwrap();
        let second = Server::start(&place).await;
        for server in [&server, &second] {
            let found = server.get(&one).await;
            assert_eq!((found["path"].as_str(), found["content"].as_str()), (Some("/e/d.md"), Some("two")));
            assert_eq!(found["created_at"], memory["created_at"]);
        }
        for number in 0..300 {
            other.write("/memories/other.md", number.to_string()).await.unwrap();
            if number % 30 == 0 {
                server.get(&one).await;
            }
        }
        let third = Server::start(&place).await;
        let found = third.get(&one).await;
        assert_eq!(
            (found["path"].as_str(), found["created_at"].clone()),
            (Some("/e/d.md"), memory["created_at"].clone())
        );
        assert_eq!(server.get(&one).await, found);
        let head = found["memory_version_id"].as_str().unwrap();
        let version = third.get(&format!("{store}/memory_versions/{head}")).await;
        assert_eq!((version["content"].as_str(), version["operation"].as_str()), (Some("two"), Some("modified")));
    }
}

#[tokio::test]
async fn versions_keep_their_contents_until_they_are_redacted() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let store = new_store(&server).await;
        let memory = new_memory(&server, &store, "/a.md", "clean").await;
        let one = format!("{store}/memories/{}", id(&memory));
        let secret = server.post(&one, json!({"content": "secret"})).await;
        let secret = format!("{store}/memory_versions/{}", secret["memory_version_id"].as_str().unwrap());
        assert_eq!(server.refused("POST", &format!("{secret}/redact"), None).await.0, 400);
        server.post(&one, json!({"content": "clean again"})).await;
        server.post(&one, json!({"content": "clean again"})).await;
        let redacted = server.post(&format!("{secret}/redact"), json!({})).await;
        for field in ["content", "path", "content_sha256", "content_size_bytes"] {
            assert_eq!(redacted[field], Value::Null, "{redacted}");
        }
        assert_eq!(
            (redacted["memory_id"].as_str(), redacted["operation"].as_str()),
            (Some(id(&memory)), Some("modified"))
        );
        let (status, _) = server.send("DELETE", &one, None, &[]).await;
        assert_eq!(status, 200);
        for server in [&server, &Server::start(&place).await] {
            let versions = server.get(&format!("{store}/memory_versions?view=full&memory_id={}", id(&memory))).await;
            let column =
                |name: &str| versions["data"].as_array().unwrap().iter().map(|it| it[name].clone()).collect::<Vec<_>>();
            assert_eq!(column("operation"), ["deleted", "modified", "modified", "created"]);
            assert_eq!(column("content"), [Value::Null, json!("clean again"), Value::Null, json!("clean")]);
            assert_eq!(column("path"), [json!("/a.md"), json!("/a.md"), Value::Null, json!("/a.md")]);
            assert_eq!(versions["data"][0]["created_by"], json!({"type": "api_actor", "api_key_id": "key"}));
        }
    }
}

#[tokio::test]
async fn conflicts_and_preconditions_are_refused() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let store = new_store(&server).await;
        let memories = format!("{store}/memories");
        let memory = new_memory(&server, &store, "/notes/todo.md", "one").await;
        for path in ["/notes", "/notes/todo.md", "/notes/todo.md/x"] {
            let (status, body) =
                server.send("POST", &memories, Some(json!({"path": path, "content": "two"})), &[]).await;
            assert_eq!((status, body["error"]["type"].as_str()), (409, Some("memory_path_conflict_error")));
            assert_eq!(body["error"]["conflicting_path"], "/notes/todo.md");
            assert_eq!(body["error"]["conflicting_memory_id"], memory["id"]);
        }
        let again = Some(json!({"path": "/notes/todo.md", "content": "one"}));
        assert_eq!(server.send("POST", &memories, again.clone(), &[]).await.0, 409);
        let (status, retried) = server.send("POST", &memories, again, &["x-stainless-retry-count: 1"]).await;
        assert_eq!((status, &retried["id"]), (200, &memory["id"]));
        let one = format!("{memories}/{}", id(&memory));
        let wrong = json!({"type": "content_sha256", "content_sha256": "0".repeat(64)});
        let refused = server.refused("POST", &one, Some(json!({"path": "/x", "precondition": wrong}))).await;
        assert_eq!(refused, (409, "memory_precondition_failed_error".to_owned()));
        let refused =
            server.refused("DELETE", &format!("{one}?expected_content_sha256={}", "0".repeat(64)), None).await;
        assert_eq!(refused.0, 409);
        for path in ["a", "/", "/a//b", "/../a", "/a\u{200b}", &"/a".repeat(21), "/e\u{301}"] {
            assert_eq!(server.refused("POST", &memories, Some(json!({"path": path, "content": ""}))).await.0, 400);
        }
        let large = json!({"path": "/large", "content": "a".repeat(102_401)});
        assert_eq!(server.refused("POST", &memories, Some(large)).await.0, 400);
        server.post(&format!("{store}/archive"), json!({})).await;
        assert_eq!(server.refused("POST", &one, Some(json!({"content": "two"}))).await.0, 400);
        let call = json!({"command": "create", "path": "/memories/x", "file_text": "x"});
        assert_eq!(server.refused("POST", &format!("{store}/tool"), Some(call)).await.0, 400);
        server.post(&format!("{store}/tool"), json!({"command": "view", "path": "/memories"})).await;
        assert_eq!(server.send("DELETE", &store, None, &[]).await.0, 200);
        assert_eq!(server.refused("GET", &store, None).await.0, 404);
        assert_eq!(server.get("/v1/memory_stores?include_archived=true").await["data"], json!([]));
    }
}

#[tokio::test]
async fn lists_have_pages_of_their_own() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let (store, other) = (new_store(&server).await, new_store(&server).await);
        for path in ["/a", "/b/c", "/b/d/e", "/f"] {
            new_memory(&server, &store, path, path).await;
        }
        let page = server.get(&format!("{store}/memories?depth=1&limit=2")).await;
        assert_eq!(page["data"][1], json!({"type": "memory_prefix", "path": "/b/"}));
        let next = page["next_page"].as_str().unwrap();
        let last = server.get(&format!("{store}/memories?depth=1&limit=2&page={next}")).await;
        assert_eq!((last["data"][0]["path"].as_str(), &last["next_page"]), (Some("/f"), &Value::Null));
        for list in
            [format!("{other}/memories?depth=1"), format!("{store}/memories?depth=0"), "/v1/memory_stores?".into()]
        {
            assert_eq!(server.refused("GET", &format!("{list}&page={next}"), None).await.0, 400, "{list}");
        }
        let below = server.get(&format!("{store}/memories?path_prefix=/b/&view=full")).await;
        assert_eq!((below["data"].as_array().unwrap().len(), below["data"][0]["content"].as_str()), (2, Some("/b/c")));
        let name = other.rsplit('/').next().unwrap();
        let header = server.with_token(Grant::Name(name.parse().unwrap()), &Right::ALL, false).await;
        let seen = server.send("GET", "/v1/memory_stores", None, &[&header]).await.1;
        assert_eq!((seen["data"].as_array().unwrap().len(), seen["data"][0]["id"].as_str()), (1, Some(name)));
        assert_eq!(server.send("GET", &store, None, &[&header]).await.0, 404);
    }
}

#[tokio::test]
async fn files_of_the_tool_are_listed_even_if_the_api_cannot_carry_them() {
    let (_directory, places) = places();
    let memory = Memory::open(format!("{}/plain", places[0])).await.unwrap();
    memory.write("/memories/image", vec![0xff_u8; 10]).await.unwrap();
    memory.write("/memories/text", "text").await.unwrap();
    let server = Server::start(&places[0]).await;
    let store = "/v1/memory_stores/plain";
    assert_eq!(server.get("/v1/memory_stores").await["data"][0]["name"], "plain");
    let listed = server.get(&format!("{store}/memories")).await;
    assert_eq!(listed["data"][0]["content_size_bytes"], 10);
    let image = format!("{store}/memories/{}", id(&listed["data"][0]));
    assert_eq!(server.refused("GET", &image, None).await.0, 400);
    assert_eq!(server.get(&format!("{store}/memories?view=full")).await["data"][0]["content"], "text");
    let text = format!("{store}/memories/{}", id(&listed["data"][1]));
    let renamed = server.post(&text, json!({"path": "/renamed"})).await;
    assert_eq!(id(&renamed), id(&listed["data"][1]));
    let second = Server::start(&places[0]).await;
    assert_eq!(second.get(&text).await["path"], "/renamed");
}

#[tokio::test]
async fn a_deleted_store_is_not_listed_and_a_token_can_create_it_again() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let (store, kept) = (new_store(&server).await, new_store(&server).await);
        let memory = new_memory(&server, &store, "/a.md", "old").await;
        let name = store.rsplit('/').next().unwrap();
        let creating = server.with_token(Grant::Name(name.parse().unwrap()), &Right::ALL, true).await;
        let (status, deleted) = server.send("DELETE", &store, None, &[]).await;
        assert_eq!((status, deleted), (200, json!({"id": name, "type": "memory_store_deleted"})));
        let call = json!({"command": "create", "path": "/memories/b.md", "file_text": "new"});
        for server in [&server, &Server::start(&place).await] {
            let listed = server.get("/v1/memory_stores?include_archived=true").await;
            assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{place}: {listed}");
            assert!(kept.ends_with(id(&listed["data"][0])));
            for path in [store.clone(), format!("{store}/memories"), format!("{store}/memory_versions")] {
                assert_eq!(server.refused("GET", &path, None).await.0, 404, "{place}: {path}");
            }
            // Without permission to create, a command does not bring the store back.
            assert_eq!(server.refused("POST", &format!("{store}/tool"), Some(call.clone())).await.0, 404);
        }
        let (status, reply) = server.send("POST", &format!("{store}/tool"), Some(call), &[&creating]).await;
        assert_eq!((status, &reply["content"][0]["is_error"]), (200, &Value::Null), "{place}: {reply}");
        for server in [&server, &Server::start(&place).await] {
            let listed = server.get("/v1/memory_stores").await;
            assert_eq!(listed["data"].as_array().unwrap().len(), 2, "{place}: {listed}");
            let found = server.get(&format!("{store}/memories?view=full")).await;
            assert_eq!(found["data"].as_array().unwrap().len(), 1, "{place}: {found}");
            assert_eq!((&found["data"][0]["path"], &found["data"][0]["content"]), (&json!("/b.md"), &json!("new")));
            assert_ne!(found["data"][0]["id"], memory["id"]);
            let versions = server.get(&format!("{store}/memory_versions")).await;
            assert_eq!(versions["data"].as_array().unwrap().len(), 1, "{place}: {versions}");
        }
    }
}

#[tokio::test]
async fn tokens_without_a_right_are_refused_and_those_of_other_memories_find_nothing() {
    let (_directory, places) = places();
    for place in places {
        let server = Server::start(&place).await;
        let store = new_store(&server).await;
        let memory = new_memory(&server, &store, "/a.md", "one").await;
        let name = store.rsplit('/').next().unwrap();
        let one = format!("{store}/memories/{}", id(&memory));
        let version = format!("{store}/memory_versions/{}", memory["memory_version_id"].as_str().unwrap());
        let reads = [store.clone(), format!("{store}/memories"), one.clone()];
        let reads = [&reads[..], &[format!("{store}/memory_versions"), version.clone()]].concat();
        let call = json!({"command": "create", "path": "/memories/x", "file_text": "x"});
        let changes = [
            ("POST", store.clone(), json!({"name": "x"})),
            ("POST", format!("{store}/archive"), json!({})),
            ("POST", format!("{store}/memories"), json!({"path": "/x", "content": "x"})),
            ("POST", one.clone(), json!({"content": "x"})),
            ("PATCH", one.clone(), json!({"content": "x"})),
            ("DELETE", one.clone(), Value::Null),
            ("POST", format!("{version}/redact"), json!({})),
            ("POST", format!("{store}/tool"), call),
            ("DELETE", store.clone(), Value::Null),
        ];
        let reading = server.with_token(Grant::Name(name.parse().unwrap()), &[Right::Read], false).await;
        let stranger = server.with_token(Grant::Name("other".parse().unwrap()), &Right::ALL, true).await;
        for path in &reads {
            assert_eq!(server.send("GET", path, None, &[&reading]).await.0, 200, "{path}");
            let (status, body) = server.send("GET", path, None, &[&stranger]).await;
            assert_eq!((status, &body["error"]["type"]), (404, &json!("not_found_error")), "{path}");
        }
        for (method, path, body) in &changes {
            for (header, status, error) in [(&reading, 403, "permission_error"), (&stranger, 404, "not_found_error")] {
                let (found, reply) = server.send(method, path, Some(body.clone()), &[header]).await;
                assert_eq!((found, reply["error"]["type"].as_str()), (status, Some(error)), "{method} {path}: {reply}");
            }
        }
        let create = || Some(json!({"name": "x"}));
        assert_eq!(server.send("POST", "/v1/memory_stores", create(), &[&reading]).await.0, 403);
        assert_eq!(server.send("POST", "/v1/memory_stores", create(), &[&stranger]).await.0, 403);
        assert_eq!(server.send("GET", "/v1/memory_stores", None, &[&stranger]).await.1["data"], json!([]));
        assert_eq!(server.get("/v1/memory_stores").await["data"].as_array().unwrap().len(), 1);
        assert_eq!(server.get(&format!("{one}?view=full")).await["content"], "one");
    }
}

#[tokio::test]
async fn records_of_the_audit_log_name_the_memory() {
    let (directory, places) = places();
    for (number, place) in places.into_iter().enumerate() {
        let log = directory.path().join(format!("audit{number}"));
        let server = Server::start_with(&place, |options| {
            options.memory.audit_log = Some(log.clone());
            options.memory.actor = Some(memory_tool::Actor::from_trusted_name("server").unwrap());
        })
        .await;
        let creating = server.with_token(Grant::All, &Right::ALL, true).await;
        for name in ["alice", "bob"] {
            let call = json!({"command": "create", "path": "/memories/a", "file_text": "x"});
            let path = format!("/v1/memory_stores/{name}/tool");
            assert_eq!(server.send("POST", &path, Some(call), &[&creating]).await.0, 200);
        }
        let log = std::fs::read_to_string(log).unwrap();
        let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let creations = records.iter().filter(|record| record["command"] == "create");
        let named: Vec<_> = creations.map(|record| (&record["memory"], &record["actor"])).collect();
        let (alice, bob, key) = (json!("alice"), json!("bob"), json!("key"));
        assert_eq!(named, [(&alice, &key), (&alice, &key), (&bob, &key), (&bob, &key)]);
    }
}

/// Another process can forget a memory while the server has it open.
#[tokio::test]
async fn a_token_does_not_create_a_forgotten_memory_again() {
    let (_directory, places) = places();
    for place in places {
        let url = if place.starts_with("sqlite:") { format!("{place}?memory=alice") } else { format!("{place}/alice") };
        let other = Memory::open(&url).await.unwrap();
        other.write("/memories/a", "old").await.unwrap();
        let server = Server::start(&place).await;
        let endpoint = "/v1/memory_stores/alice/tool";
        server.post(endpoint, json!({"command": "view", "path": "/memories"})).await;
        other.forget().await.unwrap();
        for call in [
            json!({"command": "create", "path": "/memories/b", "file_text": "new"}),
            json!({"command": "view", "path": "/memories"}),
        ] {
            assert_eq!(server.refused("POST", endpoint, Some(call)).await.0, 404, "{place}");
        }
        assert_eq!(other.list("/memories").await.unwrap(), [], "{place}");
    }
}
