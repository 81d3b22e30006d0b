//! `[X3]`: concurrent tasks, stores and machines on one bucket behave as if their commands ran one after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{TestBucket, read, write};
use memory_tool_core::{StoreExt, StorePath};

const FILES: usize = 20;

/// Garbage collection with an age of zero runs while others write large files and many small ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_collection_removes_nothing_that_others_write() {
    let bucket = TestBucket::new();
    bucket.move_away(Duration::from_millis(1));
    let mut writers = Vec::new();
    for writer in 0..4 {
        let store = bucket.open().await;
        writers.push(tokio::spawn(async move {
            for number in 0..FILES {
                let large = format!("{writer} {number} {}", "x".repeat(20_000));
                write(&store, &format!("/memories/large/{writer}"), &large).await.unwrap();
                assert_eq!(read(&store, &format!("/memories/large/{writer}")).await.unwrap(), large);
                let small = format!("{writer} {number} {}", "y".repeat(8_000));
                write(&store, &format!("/memories/small/{writer}-{number}"), &small).await.unwrap();
            }
        }));
    }
    let collector = bucket.open().await;
    let collecting = tokio::spawn(async move {
        let mut removed = 0;
        loop {
            removed += collector.gc(Duration::ZERO).await.unwrap().removed_objects;
            if collector.list(&StorePath::memories()).await.unwrap().len() == 4 * (1 + FILES) {
                return removed;
            }
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    let mut removed = collecting.await.unwrap();
    removed += bucket.other().await.gc(Duration::ZERO).await.unwrap().removed_objects;
    assert!(removed >= 4 * (FILES as u64 - 1), "{removed}");
    let store = bucket.other().await;
    for writer in 0..4 {
        assert!(
            read(&store, &format!("/memories/large/{writer}"))
                .await
                .unwrap()
                .starts_with(&format!("{writer} {} ", FILES - 1))
        );
        for number in 0..FILES {
            let small = read(&store, &format!("/memories/small/{writer}-{number}")).await.unwrap();
            assert!(small.starts_with(&format!("{writer} {number} ")));
        }
    }
}

/// A session that collects its own garbage writes at the same time, and its checkpoints move contents into packs.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_session_that_writes_can_collect() {
    const WRITTEN: usize = 200;
    let text = |writer: usize, number: usize| format!("{writer} {number} {}", "z".repeat(14_000));
    let (bucket, store) = TestBucket::opened().await;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            for number in 0..WRITTEN {
                let file = format!("/memories/{writer}/{}", number % (WRITTEN / 2));
                write(&store, &file, &text(writer, number)).await.unwrap();
                assert_eq!(read(&store, &file).await.unwrap(), text(writer, number));
            }
        }));
    }
    let (collector, is_over) = (store.clone(), Arc::new(AtomicBool::new(false)));
    let collects = Arc::clone(&is_over);
    let collecting = tokio::spawn(async move {
        while !collects.load(Ordering::Relaxed) {
            collector.gc(Duration::ZERO).await.unwrap();
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    collecting.await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    let other = bucket.open().await;
    let report = other.verify(|_| {}).await.unwrap();
    assert!(report.problems.is_empty() && report.files == 4 * WRITTEN as u64 / 2, "{report:?}");
    for writer in 0..4 {
        for number in WRITTEN / 2..WRITTEN {
            let file = format!("/memories/{writer}/{}", number % (WRITTEN / 2));
            assert_eq!(read(&other, &file).await.unwrap(), text(writer, number));
        }
    }
}
