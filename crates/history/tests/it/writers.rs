//! Operations that read much, beside sessions that write all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, Store, StoreError, StoreExt, StorePath};
use memory_tool_history::{HistoryStore, Limits};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::directory_in_ram;
use tokio::task::JoinSet;

const FILES: usize = 300;
const WRITERS: usize = 4;

type Shared = Arc<dyn Store>;

/// The result must not depend on the speed of the machine, only on the number of attempts.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sessions that write until they are stopped.
struct Writers {
    tasks: JoinSet<()>,
    is_done: Arc<AtomicBool>,
}

impl Writers {
    fn new(store: &Shared, pause: Duration) -> Self {
        let (mut tasks, is_done) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for writer in 0..WRITERS {
            tasks.spawn(write(Arc::clone(store), writer, pause, Arc::clone(&is_done)));
        }
        Self { tasks, is_done }
    }

    async fn stop(self) {
        self.is_done.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

async fn write(store: Shared, writer: usize, pause: Duration, is_done: Arc<AtomicBool>) {
    let session = HistoryStore::new(store);
    for number in 0.. {
        if is_done.load(Ordering::Relaxed) {
            return;
        }
        session.write(format!("/memories/writer-{writer}").as_str(), number.to_string()).await.unwrap();
        // Also files under the directory that is restored.
        if number % 10 == 0 {
            session.write(format!("/memories/d/{writer}").as_str(), number.to_string()).await.unwrap();
        }
        tokio::time::sleep(pause).await;
    }
}

fn directory() -> StorePath {
    StorePath::memories().join("d").unwrap()
}

async fn read(store: &Shared) {
    let session = HistoryStore::new(Arc::clone(store)).timeout(PATIENCE);
    let history = session.history();
    let newest = history.newest().await.unwrap();
    let report = history.verify().await.unwrap();
    assert_eq!((report.damage, report.changed_by_others), (Vec::new(), Vec::new()));
    let found = history.diff(FILES as u64, newest, &directory(), usize::MAX).await.unwrap();
    assert!(found.files.len() >= FILES - WRITERS && found.unknown.is_empty());
    let past = history.at(FILES as u64).await.unwrap();
    for file in past.list("/memories/d").await.unwrap() {
        assert_eq!(past.read_to_string(file.path.as_str()).await.unwrap(), "text");
    }
}

async fn change(store: &Shared) {
    let session = HistoryStore::new(Arc::clone(store)).timeout(PATIENCE);
    let history = session.history();
    history.restore(&directory(), FILES as u64).await.unwrap();
    assert_eq!(session.read_to_string("/memories/d/299").await.unwrap(), "text");
    history.clone().forced().revert([FILES as u64 + 1]).await.unwrap();
    history.redact([1]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_operations_end_beside_writers() {
    let temporary = directory_in_ram().unwrap();
    let stores: [Shared; 3] = [
        Arc::new(InMemoryStore::new()),
        Arc::new(LocalStore::open(temporary.path().join("local")).await.unwrap()),
        Arc::new(SqliteStore::open(temporary.path().join("memory.db")).await.unwrap()),
    ];
    for store in stores {
        let limits = Limits::new().changes(None).bytes(None);
        let session = HistoryStore::with_limits(Arc::clone(&store), limits);
        for number in 0..FILES {
            session.write(format!("/memories/d/{number}").as_str(), "text").await.unwrap();
        }
        session.remove("/memories/d").await.unwrap();
        // Without a pause, the log of a store in this process grows faster than anybody can read it.
        let writers = Writers::new(&store, Duration::from_millis(50));
        read(&store).await;
        writers.stop().await;
        let writers = Writers::new(&store, Duration::ZERO);
        change(&store).await;
        writers.stop().await;
        assert_eq!(session.history().verify().await.unwrap().damage, Vec::<String>::new());
    }
}

/// A store on which another session writes before each listing and before each read of a file.
#[derive(Debug)]
struct Overtaken {
    inner: Arc<InMemoryStore>,
    other: HistoryStore<Arc<InMemoryStore>>,
}

#[async_trait]
impl Store for Overtaken {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if !path.is_record() {
            self.other.write("/memories/d/0", "newer").await?;
            self.other.remove("/memories/d/1").await?;
            self.other.write("/memories/d/1", "newer").await?;
        }
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn readers_need_no_moment_without_a_writer() {
    let inner = Arc::new(InMemoryStore::new());
    let other = HistoryStore::new(Arc::clone(&inner));
    for file in 0..4 {
        other.write(format!("/memories/d/{file}").as_str(), "old").await.unwrap();
    }
    let session = HistoryStore::new(Overtaken { inner, other });
    let past = session.history().at(4).await.unwrap();
    for file in 0..4 {
        assert_eq!(past.read_to_string(format!("/memories/d/{file}").as_str()).await.unwrap(), "old");
    }
    assert_eq!(past.list("/memories/d").await.unwrap().len(), 4);
    let newest = session.history().newest().await.unwrap();
    let found = session.history().diff(4, newest, &directory(), usize::MAX).await.unwrap();
    let changed: Vec<_> = found.files.iter().map(|file| file.path.file_name().unwrap()).collect();
    assert_eq!((changed, found.unknown), (vec!["0", "1"], Vec::new()));
}
