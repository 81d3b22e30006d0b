//! Many clients of one memory at the same time.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

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

/// Calls that have begun wait for others of the same memory. They must not change it after its archive or deletion.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_after_an_archive_or_a_deletion() {
    let (_directory, places) = places();
    for place in places {
        for (method, path) in [("POST", "/archive"), ("DELETE", "")] {
            let server = Arc::new(Server::start(&place).await);
            let store = new_store(&server).await;
            new_memory(&server, &store, "/a.md", "").await;
            let mut clients = JoinSet::new();
            for client in 0..CLIENTS {
                let (server, store) = (Arc::clone(&server), store.clone());
                clients.spawn(async move {
                    for number in 0.. {
                        let path = format!("/memories/{client}/{number}");
                        let (path, body) = if client % 2 == 0 {
                            ("tool", json!({"command": "create", "path": path, "file_text": "x"}))
                        } else {
                            ("memories", json!({"path": path, "content": "x"}))
                        };
                        let (status, reply) = server.send("POST", &format!("{store}/{path}"), Some(body), &[]).await;
                        if status != 200 {
                            return (status, reply.to_string());
                        }
                    }
                    unreachable!()
                });
            }
            while server.get(&format!("{store}/memory_versions?limit=100")).await["data"][99].is_null() {}
            assert_eq!(server.send(method, &format!("{store}{path}"), None, &[]).await.0, 200);
            let newest = async || {
                let path = format!("{store}/memory_versions?limit=1");
                let (status, reply) = server.send("GET", &path, None, &[]).await;
                (status, reply["data"].clone())
            };
            let after = newest().await;
            for (status, reply) in clients.join_all().await {
                assert_eq!(status, if method == "DELETE" { 404 } else { 400 }, "{reply}");
            }
            assert_eq!(newest().await, after, "{place} {method}");
        }
    }
}
