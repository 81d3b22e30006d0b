//! Many clients of one memory at the same time.

use std::sync::Arc;

use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::page::Browser;
use crate::server::{Server, places, sha256};
use crate::{id, new_memory, new_store};

const CLIENTS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_conditional_updates_are_all_kept() {
    let (_directory, places) = places();
    for place in places {
        let server = Arc::new(Server::start(&place).await);
        let store = new_store(&server).await;
        let one = format!("{store}/memories/{}", id(&new_memory(&server, &store, "/a.md", "").await));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (server, one) = (Arc::clone(&server), one.clone());
            clients.spawn(async move {
                loop {
                    let before = server.get(&one).await["content"].as_str().unwrap().to_owned();
                    let required = json!({"type": "content_sha256", "content_sha256": sha256(&before)});
                    let update = json!({"content": format!("{before}{client}\n"), "precondition": required});
                    match server.send("POST", &one, Some(update), &[]).await {
                        (200, _) => return,
                        (409, _) => {}
                        refused => panic!("{refused:?}"),
                    }
                }
            });
        }
        clients.join_all().await;
        let content = server.get(&one).await["content"].as_str().unwrap().to_owned();
        let mut kept: Vec<usize> = content.lines().map(|line| line.parse().unwrap()).collect();
        kept.sort_unstable();
        assert_eq!(kept, (0..CLIENTS).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_do_not_fail_each_other() {
    const CHANGES: usize = 8;
    let (_directory, places) = places();
    for place in places {
        let server = Arc::new(Server::start(&place).await);
        let store = new_store(&server).await;
        let one = format!("{store}/memories/{}", id(&new_memory(&server, &store, "/a.md", "").await));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (server, store, one) = (Arc::clone(&server), store.clone(), one.clone());
            clients.spawn(async move {
                for change in 0..CHANGES {
                    server.post(&one, json!({"content": format!("{client} {change}")})).await;
                    let call =
                        json!({"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"});
                    let reply = server.post(&format!("{store}/tool"), call).await;
                    assert_eq!(reply["content"][0]["is_error"], Value::Null, "{reply}");
                }
            });
        }
        clients.join_all().await;
        let versions = server.get(&format!("{store}/memory_versions?limit=1")).await;
        let head = versions["data"][0]["id"].as_str().unwrap();
        assert!(head.starts_with(&format!("memver_{}_0_", 1 + 2 * CLIENTS * CHANGES)), "{head}");
    }
}

/// The fronts that change a memory.
#[derive(Clone, Copy, Debug)]
enum Front {
    Tool,
    #[cfg(feature = "mcp")]
    Mcp,
    Api,
    Page,
}

const FRONTS: &[Front] = &[
    Front::Tool,
    #[cfg(feature = "mcp")]
    Front::Mcp,
    Front::Api,
    Front::Page,
];

impl Front {
    /// Creates files until the server refuses one, and returns the refusal.
    async fn create(self, server: &Server, store: &str, client: usize) -> (u16, String) {
        let name = store.rsplit('/').next().unwrap();
        let token = server.with_token(Grant::Name(name.parse().unwrap()), &Right::ALL, false).await;
        let browser = Browser::sign_in(server, &token).await;
        let form = browser.form().await;
        for number in 0.. {
            let path = format!("/memories/{client}/{number}");
            let call = json!({"command": "create", "path": path, "file_text": "x"});
            let (status, reply) = match self {
                Self::Page => {
                    let file = format!("{client}-{number}");
                    let fields = [("form", &*form), ("name", &file), ("text", "x")];
                    let page = browser.post(&format!("/memory/{name}/new"), &fields).await;
                    if page.status != 303 {
                        return (page.status, page.text);
                    }
                    continue;
                }
                Self::Tool => server.send("POST", &format!("{store}/tool"), Some(call), &[&token]).await,
                #[cfg(feature = "mcp")]
                Self::Mcp => server.mcp(&token, "memory", call).await,
                Self::Api => {
                    let memory = json!({"path": path, "content": "x"});
                    server.send("POST", &format!("{store}/memories"), Some(memory), &[&token]).await
                }
            };
            let is_error = reply["result"]["isError"] == true || reply["content"][0]["is_error"] == true;
            if status != 200 || is_error {
                return (status, reply.to_string());
            }
        }
        unreachable!()
    }
}

/// The archive or deletion is by another server on the same memory. Calls of all fronts have begun.
#[tokio::test(flavor = "multi_thread")]
async fn no_front_changes_a_memory_after_another_server_archived_or_deleted_it() {
    let (_directory, places) = places();
    for place in places {
        for (method, path) in [("POST", "/archive"), ("DELETE", "")] {
            let (one, other) = (Arc::new(Server::start(&place).await), Server::start(&place).await);
            let store = new_store(&one).await;
            new_memory(&one, &store, "/a.md", "").await;
            let mut clients = JoinSet::new();
            for (client, front) in FRONTS.iter().cycle().take(12).enumerate() {
                let (one, store) = (Arc::clone(&one), store.clone());
                clients.spawn(async move { (front, front.create(&one, &store, client).await) });
            }
            while other.get(&format!("{store}/memory_versions?limit=100")).await["data"][99].is_null() {}
            assert_eq!(other.send(method, &format!("{store}{path}"), None, &[]).await.0, 200);
            let newest = async || {
                let path = format!("{store}/memory_versions?limit=1");
                let (status, reply) = other.send("GET", &path, None, &[]).await;
                (status, reply["data"].clone())
            };
            let after = newest().await;
            for (front, (status, reply)) in clients.join_all().await {
                let reasons = ["archived", "ere is no memory store", "was deleted", "removed again"];
                let is_refused = reasons.iter().any(|reason| reply.contains(reason));
                assert!(is_refused, "{front:?}: {status} {reply}");
            }
            assert_eq!(newest().await, after, "{place} {method}");
        }
    }
}
