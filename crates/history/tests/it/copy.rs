//! A copy of a memory with its history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, Store, StoreError, StoreExt as _, StorePath};
use memory_tool_history::{Entry, HistoryError, HistoryStore, LogFilter};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::{directory_in_ram, path, record};

type Shared = Arc<dyn Store>;

/// More than an entry keeps beside its line.
const LARGE: usize = 100_000;

async fn stores(directory: &std::path::Path) -> [Shared; 3] {
    [
        Arc::new(InMemoryStore::new()),
        Arc::new(LocalStore::open(directory.join("local")).await.unwrap()),
        Arc::new(SqliteStore::open(directory.join("memory.db")).await.unwrap()),
    ]
}

/// A history with a block, large contents, a deleted file, a renamed one and a redacted entry.
async fn fill(store: &HistoryStore<Shared>) {
    store.write("/memories/large", "l".repeat(LARGE)).await.unwrap();
    store.write("/memories/large", "small").await.unwrap();
    store.write("/memories/secret", "secret").await.unwrap();
    store.apply(Batch::new().remove(path("/memories/secret"))).await.unwrap();
    store.history().redact([3, 4]).await.unwrap();
    for number in 0..70 {
        store.write("/memories/d/counter", number.to_string()).await.unwrap();
    }
    store.apply(Batch::new().rename(path("/memories/d"), path("/memories/e"))).await.unwrap();
}

async fn entries(store: &HistoryStore<Shared>) -> Vec<Entry> {
    store.history().entries(&LogFilter::new()).await.unwrap()
}

#[tokio::test]
async fn entries_contents_and_identities_arrive_on_each_store() {
    let directories = [directory_in_ram().unwrap(), directory_in_ram().unwrap()];
    let sources = stores(directories[0].path()).await;
    for (source, destination) in sources.into_iter().zip(stores(directories[1].path()).await.into_iter().rev()) {
        let source = HistoryStore::new(source);
        fill(&source).await;
        let destination = HistoryStore::if_present(destination);
        assert_eq!(entries(&destination).await, []); // this session knows that there is no history
        let copied = source.history().copy_to(&destination).await.unwrap();
        assert_eq!((copied.files, copied.bytes, copied.entries, copied.unlisted.len()), (2, 7, 76, 0));
        assert_eq!(entries(&destination).await, entries(&source).await);
        let history = destination.history();
        assert_eq!(history.verify().await.unwrap().damage, Vec::<String>::new());
        assert_eq!(history.at(1).await.unwrap().read_to_string("/memories/large").await.unwrap().len(), LARGE);
        history.undo(1).await.unwrap();
        assert_eq!(destination.read_to_string("/memories/d/counter").await.unwrap(), "69");
    }
}

/// A source that another session changes once, between a copy's reads of the files and of the history.
#[derive(Debug)]
struct Changing {
    inner: Shared,
    is_changed: AtomicBool,
}

#[async_trait]
impl Store for Changing {
    async fn read_opts(&self, at: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if *at == record("history") && !self.is_changed.swap(true, Ordering::Relaxed) {
            HistoryStore::new(Arc::clone(&self.inner)).write("/memories/e/counter", "by another session").await?;
        }
        self.inner.read_opts(at, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn a_copy_beside_a_writer_is_one_state_of_the_source() {
    let directory = directory_in_ram().unwrap();
    for inner in stores(directory.path()).await {
        fill(&HistoryStore::new(Arc::clone(&inner))).await;
        let source = HistoryStore::new(Changing { inner, is_changed: AtomicBool::new(false) });
        let destination: HistoryStore<Shared> = HistoryStore::new(Arc::new(InMemoryStore::new()));
        assert_eq!(source.history().copy_to(&destination).await.unwrap().entries, 77);
        let report = destination.history().verify().await.unwrap();
        assert_eq!((report.damage, report.changed_by_others), (vec![], vec![]));
        assert_eq!(destination.read_to_string("/memories/e/counter").await.unwrap(), "by another session");
    }
}

#[tokio::test]
async fn a_destination_with_files_or_a_history_stays_as_it_was() {
    let source: HistoryStore<Shared> = HistoryStore::new(Arc::new(InMemoryStore::new()));
    fill(&source).await;
    for (has_history, is_removed) in [(false, false), (true, false), (true, true)] {
        let inner: Shared = Arc::new(InMemoryStore::new());
        let destination = if has_history { HistoryStore::new(inner) } else { HistoryStore::if_present(inner) };
        destination.write("/memories/own", "own").await.unwrap();
        if is_removed {
            destination.apply(Batch::new().remove(path("/memories/own"))).await.unwrap();
        }
        let before = entries(&destination).await;
        let refused = source.history().copy_to(&destination).await.unwrap_err();
        assert!(matches!(refused, HistoryError::Store(StoreError::AlreadyExists { .. })), "{refused}");
        assert_eq!(entries(&destination).await, before);
        assert_eq!(destination.list("/memories").await.unwrap().len(), usize::from(!is_removed));
    }
}
