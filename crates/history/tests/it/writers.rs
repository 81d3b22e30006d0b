//! Operations that read much, beside sessions that write all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_tool_core::{InMemoryStore, Store, StoreExt, StorePath};
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

async fn write(store: Shared, writer: usize, is_done: Arc<AtomicBool>) {
    let session = HistoryStore::new(store);
    for number in 0.. {
        // Otherwise the log of a store in this process grows faster than anybody can read it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        if is_done.load(Ordering::Relaxed) {
            return;
        }
        session.write(format!("/memories/writer-{writer}").as_str(), number.to_string()).await.unwrap();
        // Also files under the directory that is restored.
        if number % 10 == 0 {
            session.write(format!("/memories/d/{writer}").as_str(), number.to_string()).await.unwrap();
        }
    }
}

async fn operate(store: &Shared) {
    let session = HistoryStore::new(Arc::clone(store)).timeout(PATIENCE);
    let history = session.history();
    let directory = StorePath::memories().join("d").unwrap();
    let newest = history.newest().await.unwrap();
    let report = history.verify().await.unwrap();
    assert_eq!((report.damage, report.changed_by_others), (Vec::new(), Vec::new()));
    let found = history.diff(FILES as u64, newest, &directory, usize::MAX).await.unwrap();
    assert!(found.files.len() >= FILES - WRITERS && found.unknown.is_empty());
    let past = history.at(FILES as u64).await.unwrap();
    for file in past.list("/memories/d").await.unwrap() {
        assert_eq!(past.read_to_string(file.path.as_str()).await.unwrap(), "text");
    }
    history.restore(&directory, FILES as u64).await.unwrap();
    assert_eq!(session.read_to_string("/memories/d/299").await.unwrap(), "text");
    history.clone().forced().revert([newest.min(FILES as u64 + 1)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_operations_end_beside_writers() {
    let directory = directory_in_ram().unwrap();
    let stores: [Shared; 3] = [
        Arc::new(InMemoryStore::new()),
        Arc::new(LocalStore::open(directory.path().join("local")).await.unwrap()),
        Arc::new(SqliteStore::open(directory.path().join("memory.db")).await.unwrap()),
    ];
    for store in stores {
        let limits = Limits::new().changes(None).bytes(None);
        let session = HistoryStore::with_limits(Arc::clone(&store), limits);
        for number in 0..FILES {
            session.write(format!("/memories/d/{number}").as_str(), "text").await.unwrap();
        }
        session.remove("/memories/d").await.unwrap();
        let (mut writers, is_done) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for writer in 0..WRITERS {
            writers.spawn(write(Arc::clone(&store), writer, Arc::clone(&is_done)));
        }
        operate(&store).await;
        is_done.store(true, Ordering::Relaxed);
        writers.join_all().await;
        assert_eq!(session.history().verify().await.unwrap().damage, Vec::<String>::new());
    }
}
