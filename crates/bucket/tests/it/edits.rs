//! Edits of a known file: the commit proves that it has not changed. A refused edit was checked against the present
//! file.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{TestBucket, call, commits, log, read, remove, write};
use memory_tool_bucket::BucketStore;
use serde_json::{Value, json};

const FILE: &str = "/memories/file";

/// A session that knows a file, and another one.
async fn sessions() -> (Arc<TestBucket>, BucketStore, BucketStore) {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, FILE, "one\ntwo\nthree").await.unwrap();
    let other = bucket.other().await;
    bucket.take_requests();
    (bucket, store, other)
}

fn replace(old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": FILE, "old_str": old, "new_str": new})
}

fn insert(text: &str) -> Value {
    json!({"command": "insert", "path": FILE, "insert_line": 0, "insert_text": text})
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_known_file_only_commits() {
    let (bucket, store, _) = sessions().await;
    for (number, edit) in [replace("two", "2"), insert("zero"), replace("2", "two")].into_iter().enumerate() {
        call(&store, edit).await;
        assert_eq!(bucket.take_requests(), [format!("PUT memory/{}", log(3 + number as u64))]);
    }
    assert_eq!(read(&store, FILE).await.unwrap(), "zero\none\ntwo\nthree");
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_file_that_another_session_changed() {
    let (_, store, other) = sessions().await;
    call(&other, replace("one", "1")).await;
    call(&store, replace("three", "3")).await;
    call(&other, insert("zero")).await;
    call(&store, insert("first")).await;
    assert_eq!(read(&other, FILE).await.unwrap(), "first\nzero\n1\ntwo\n3");
}

/// The known text has what the present one lacks, and the reverse.
#[tokio::test(start_paused = true)]
async fn an_edit_is_refused_by_the_present_file() {
    let (bucket, store, other) = sessions().await;
    write(&other, FILE, "four").await.unwrap();
    let reply = call(&store, replace("two", "2")).await;
    assert!(reply.starts_with("No replacement was performed, old_str `two` did not appear"), "{reply}");
    write(&other, FILE, "five").await.unwrap();
    let reply = call(&store, replace("five", "six")).await;
    assert!(reply.starts_with("The memory file has been edited."), "{reply}");
    remove(&other, FILE).await.unwrap();
    bucket.take_requests();
    for edit in [replace("six", "seven"), insert("text"), replace("absent", "text")] {
        let reply = call(&store, edit).await;
        assert!(reply.contains("The path /memories/file does not exist"), "{reply}");
    }
    write(&other, FILE, "eight").await.unwrap();
    let reply = call(&store, replace("eight", "nine")).await;
    assert!(reply.starts_with("The memory file has been edited."), "{reply}");
    assert_eq!(read(&other, FILE).await.unwrap(), "nine");
    assert_eq!(commits(&bucket.take_requests()), 1 + 1, "one number was lost, and the others were not tried");
}

/// A text that the session should not know any more is not in a reply.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_known_file_in_a_pack_that_was_removed() {
    let (bucket, store, other) = sessions().await;
    let large = "x".repeat(20_000);
    write(&store, FILE, &(large.clone() + "old")).await.unwrap();
    write(&other, FILE, &(large + "new")).await.unwrap();
    other.gc(Duration::ZERO).await.unwrap();
    bucket.take_requests();
    let reply = call(&store, replace("new", "newer")).await;
    assert!(reply.starts_with("The memory file has been edited."), "{reply}");
    assert!(read(&other, FILE).await.unwrap().ends_with("newer"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_edits_of_sessions_that_know_the_file() {
    let bucket = TestBucket::new();
    let mut sessions = Vec::new();
    for number in 0..6 {
        let near = bucket.at(Duration::from_millis(1 + number));
        sessions.push(near.open().await);
    }
    write(&sessions[0], FILE, "").await.unwrap();
    let editing = sessions.iter().enumerate().map(async |(session, store)| {
        for number in 0..20 {
            let reply = call(store, insert(&format!("{session}-{number}"))).await;
            assert!(reply.contains("has been edited"), "{reply}");
        }
    });
    futures::future::join_all(editing).await;
    let text = read(&sessions[0], FILE).await.unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 6 * 20);
}
