//! Verifying: what shows in no file.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use memory_tool_core::InMemoryStore;
use memory_tool_encrypted::Problem;
use support::{content, contents, open, path, remove, ring, write};

#[tokio::test]
async fn nothing_is_wrong_with_a_store_that_nobody_touched() {
    let inner = Arc::new(InMemoryStore::new());
    assert!(open(&inner, ring(1)).await.verify().await.unwrap().is_empty(), "before the first write");
    let store = open(&inner, ring(1)).await;
    for file in ["/memories/a", "/memories/d/b", "/memories/a"] {
        write(&store, file, "x").await;
        assert!(store.verify().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_index_that_is_damaged_or_older_is_found() {
    for copy in ["/memories/index-1", "/memories/index-2"] {
        let inner = Arc::new(InMemoryStore::new());
        let store = open(&inner, ring(1)).await;
        write(&store, "/memories/a", "x").await;
        let older = content(&*inner, &path(copy)).await;
        write(&store, "/memories/b", "x").await;
        write(&*inner, copy, older).await;
        let problems = store.verify().await.unwrap();
        assert!(matches!(&problems[..], [Problem::OlderIndexCopy]), "{problems:?}");
        write(&*inner, copy, "not encrypted").await;
        let problems = store.verify().await.unwrap();
        assert!(matches!(&problems[..], [Problem::IndexCopy { .. }]), "{problems:?}");
        remove(&*inner, &path(copy)).await;
        let problems = store.verify().await.unwrap();
        assert!(matches!(&problems[..], [Problem::IndexCopy { .. }]), "{problems:?}");
        write(&store, "/memories/c", "x").await;
        assert!(store.verify().await.unwrap().is_empty(), "the next write mends it");
    }
}

#[tokio::test]
async fn what_is_no_part_of_the_memory_is_found() {
    let (inner, other) = (Arc::new(InMemoryStore::new()), Arc::new(InMemoryStore::new()));
    let store = open(&inner, ring(1)).await;
    write(&store, "/memories/a", "x").await;
    write(&open(&other, ring(1)).await, "/memories/a", "x").await;
    let (foreign, ciphertext) =
        contents(&*other).await.into_iter().find(|(file, _)| !file.as_str().contains("index")).unwrap();
    write(&*inner, foreign.as_str(), ciphertext).await;
    write(&*inner, "/memories/notes.txt", "nobody encrypted this").await;
    let mut found: Vec<_> = store.verify().await.unwrap().iter().map(ToString::to_string).collect();
    found.sort();
    let mut expected =
        [foreign, path("/memories/notes.txt")].map(|file| format!("{file} is no part of the encrypted memory"));
    expected.sort();
    assert_eq!(found, expected);
}
