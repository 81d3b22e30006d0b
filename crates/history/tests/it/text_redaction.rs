//! The erasure of given text from the files and from the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::log::{Shared, store};
use async_trait::async_trait;
use memory_tool_core::{Actor, Batch, InMemoryStore, Node, ReadOptions, Store, StoreError, StoreExt, StorePath};
use memory_tool_history::{Entry, HistoryError, HistoryStore, Limits, LogFilter, Origin};
use memory_tool_test_fixtures::path;
use sha2::{Digest as _, Sha256};

const SECRET: &str = "0170-5551234";

/// More than an entry keeps beside its line.
const LARGE: usize = 100_000;

/// Checks that neither files nor records have the secret, or the hash of an earlier text with it.
async fn expect_none(inner: &Shared, texts: &[&str]) {
    let history = HistoryStore::new(Arc::clone(inner)).history();
    assert!(history.find_text(SECRET).await.unwrap().is_empty());
    assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new());
    let entries = history.entries(&LogFilter::new()).await.unwrap();
    let entries = serde_json::to_string(&entries).unwrap();
    for text in texts {
        let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!entries.contains(&hash), "{entries}");
    }
    for root in [StorePath::memories(), StorePath::records()] {
        let listed = inner.read_opts(&root, ReadOptions::new()).await.unwrap().into_listing();
        for file in listed.files {
            let content = inner.read_opts(&file.path, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
            let text = String::from_utf8_lossy(&content);
            assert!(!text.contains(SECRET) && !file.path.as_str().contains(SECRET), "{}: {text}", file.path);
        }
    }
}

#[tokio::test]
async fn a_text_is_erased_everywhere_and_other_texts_stay() {
    for filler in [String::new(), "x".repeat(LARGE)] {
        for later in [0, 70, 200] {
            let (inner, store) = store();
            let [first, second, third] = ["call", "phone", "removed"].map(|word| format!("{word} {SECRET}\n{filler}"));
            let write = |a: &str, b: &str| Batch::new().write(path("/memories/a"), a).write(path("/memories/b"), b);
            store.apply(write("old a", "old b")).await.unwrap(); // 1
            store.apply(write(&first, "public")).await.unwrap(); // 2
            store.apply(write("new a", &second)).await.unwrap(); // 3
            store.write(format!("/memories/{SECRET}/c"), third.as_str()).await.unwrap(); // 4
            store.rename(format!("/memories/{SECRET}"), "/memories/d").await.unwrap(); // 5
            store.remove("/memories/d").await.unwrap(); // 6
            for number in 0..later {
                store.write("/memories/other", number.to_string()).await.unwrap();
            }

            let history = store.history().by(Actor::from_trusted_name("ada").unwrap());
            let mut found = history.find_text(SECRET).await.unwrap();
            assert_eq!(
                (found.files.as_slice(), found.entries.as_slice()),
                (&[(path("/memories/b"), 1)][..], &[2, 3, 4, 5, 6][..])
            );
            let redacted = history.redact_text(SECRET).await.unwrap();
            let entry = redacted.entry.clone().unwrap();
            found.entry = redacted.entry.clone();
            assert_eq!(redacted, found);
            assert_eq!((entry.origin, entry.actor.as_deref()), (Origin::Redaction(vec![6, 5, 4, 3, 2]), Some("ada")));

            assert_eq!(inner.read_to_string("/memories/b").await.unwrap(), second.replace(SECRET, "[redacted]"));
            expect_none(&inner, &[&first, &second, &third]).await;
            for (number, file, text) in [(1, "a", "old a"), (1, "b", "old b"), (2, "b", "public"), (3, "a", "new a")] {
                let file = path(&format!("/memories/{file}"));
                assert_eq!(history.read(&file, number).await.unwrap(), text.as_bytes(), "{file} after {number}");
            }
            let refused = history.read(&path("/memories/a"), 2).await.unwrap_err();
            assert!(matches!(refused, HistoryError::NotKept { .. } | HistoryError::Redacted { .. }), "{refused}");
            // The erasure is not taken back, and later changes are as always.
            history.undo(1).await.map(drop).unwrap_or_default();
            store.write("/memories/b", "newest").await.unwrap();
            history.undo(1).await.unwrap();
            expect_none(&inner, &[&first, &second, &third]).await;
        }
    }
}

#[tokio::test]
async fn the_present_names_that_contain_a_text_are_reported_and_erased_after_a_rename() {
    let (inner, store) = store();
    let file = format!("/memories/{SECRET}.md");
    store.write(&*file, "text").await.unwrap();
    let found = store.history().redact_text(SECRET).await.unwrap();
    assert_eq!((found.names, found.files, found.entries), (vec![path(&file)], vec![], vec![1]));
    assert_eq!(inner.read_to_string(&*file).await.unwrap(), "text");
    store.rename(&*file, "/memories/a.md").await.unwrap();
    store.history().redact_text(SECRET).await.unwrap();
    expect_none(&inner, &[]).await;
    assert_eq!(inner.read_to_string("/memories/a.md").await.unwrap(), "text");
}

#[tokio::test]
async fn a_move_with_new_contents_is_erased_as_one_change_and_the_file_stays_the_same() {
    for secret_in_the_name in [true, false] {
        let (inner, store) = store();
        let (name, text) = if secret_in_the_name { (SECRET, "text") } else { ("a", SECRET) };
        let old = path(&format!("/memories/{name}"));
        store.write(old.as_str(), "first").await.unwrap();
        let moves = Batch::new().for_command(Entry::MOVE).write(path("/memories/b"), text);
        store.apply(moves.remove(old)).await.unwrap();
        store.write("/memories/b", "clean").await.unwrap();
        store.history().redact_text(SECRET).await.unwrap();
        let moved = store.history().entry(2).await.unwrap();
        assert!(moved.changes.iter().all(|change| change.path().is_none()), "{moved:?}");
        expect_none(&inner, &[]).await;
    }
}

#[tokio::test]
async fn a_text_that_is_not_found_changes_nothing() {
    let (inner, store) = store();
    store.write("/memories/a", "text").await.unwrap();
    let found = store.history().redact_text(SECRET).await.unwrap();
    assert!(found.is_empty() && found.entry.is_none(), "{found:?}");
    assert_eq!(store.history().newest().await.unwrap(), 1);
    for text in ["", "red"] {
        let refused = store.history().redact_text(text).await.unwrap_err();
        assert!(matches!(refused, HistoryError::InvalidText { .. }), "{refused}");
    }
    assert_eq!(inner.read_to_string("/memories/a").await.unwrap(), "text");
}

#[tokio::test]
async fn a_memory_without_a_history_gets_none() {
    let inner: Shared = Arc::new(InMemoryStore::new());
    let store = HistoryStore::if_present(Arc::clone(&inner));
    store.write("/memories/a", format!("{SECRET}, {SECRET}")).await.unwrap();
    let found = store.history().redact_text(SECRET).await.unwrap();
    assert_eq!((found.files, found.entry), (vec![(path("/memories/a"), 2)], None));
    assert_eq!(inner.read_to_string("/memories/a").await.unwrap(), "[redacted], [redacted]");
    assert!(!store.history().is_started().await.unwrap());
}

#[tokio::test]
async fn an_erasure_that_starts_the_history_does_not_keep_the_text() {
    let (inner, store) = store();
    let text = format!("call {SECRET}");
    inner.write("/memories/a", text.as_str()).await.unwrap(); // before the history
    let found = store.history().redact_text(SECRET).await.unwrap();
    assert_eq!((found.files, found.entry.unwrap().number), (vec![(path("/memories/a"), 1)], 1));
    expect_none(&inner, &[&text]).await;
}

/// A store in which another session starts a history before the first batch of this one.
#[derive(Debug)]
struct Overtaken {
    inner: Shared,
    is_overtaken: AtomicBool,
}

#[async_trait]
impl Store for Overtaken {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if !self.is_overtaken.swap(true, Ordering::Relaxed) {
            HistoryStore::new(Arc::clone(&self.inner)).write("/memories/other", "text").await?;
        }
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn a_history_that_another_session_starts_does_not_keep_the_text() {
    let (inner, _) = store();
    let text = format!("call {SECRET}");
    inner.write("/memories/a", text.as_str()).await.unwrap();
    let overtaken = Overtaken { inner: Arc::clone(&inner), is_overtaken: AtomicBool::new(false) };
    let found = HistoryStore::if_present(overtaken).history().redact_text(SECRET).await.unwrap();
    assert_eq!(found.entry.unwrap().number, 2);
    expect_none(&inner, &[&text]).await;
}

/// Other sessions change the memory at the same time.
#[tokio::test]
async fn no_text_of_concurrent_writers_is_lost_or_left() {
    let (inner, _) = store();
    let writer = |number: usize| {
        let store = HistoryStore::with_limits(Arc::clone(&inner), Limits::default());
        async move {
            for turn in 0..20 {
                let (file, text) = (format!("/memories/{number}"), format!("{number} {turn} {SECRET}"));
                store.write(&*file, text).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    };
    let eraser = async {
        let history = HistoryStore::new(Arc::clone(&inner)).history();
        for _ in 0..5 {
            history.redact_text(SECRET).await.unwrap();
        }
    };
    futures::join!(writer(0), writer(1), writer(2), eraser);
    let history = HistoryStore::new(Arc::clone(&inner)).history();
    history.redact_text(SECRET).await.unwrap();
    for number in 0..3 {
        let text = inner.read_to_string(format!("/memories/{number}")).await.unwrap();
        assert_eq!(text, format!("{number} 19 [redacted]"));
    }
    expect_none(&inner, &[]).await;
}
