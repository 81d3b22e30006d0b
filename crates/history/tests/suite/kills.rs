//! Kills of processes that write. After each, the log and the files agree.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::Trial;
use memory_tool_core::{Store, StoreExt as _};
use memory_tool_history::HistoryStore;
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::agreement::disagreement;
use memory_tool_test_fixtures::directory_in_ram;
use memory_tool_test_fixtures::faults::{kill_writers, kills, write_until_killed};

type Kept = HistoryStore<Arc<dyn Store>>;

/// Opens the store at a path: a database, or a directory.
async fn open(path: &Path) -> Kept {
    let store: Arc<dyn Store> = if path.extension().is_some() {
        Arc::new(SqliteStore::open(path).await.unwrap())
    } else {
        Arc::new(LocalStore::open(path).await.unwrap())
    };
    HistoryStore::new(store)
}

/// In a process that a test has started: writes until it is killed.
pub(crate) fn write_if_requested() {
    write_until_killed(open);
}

pub(crate) fn trials() -> Vec<Trial> {
    let kill = |name: &str, place: &'static str| {
        Trial::test(format!("kills::{name}"), move || {
            let directory = directory_in_ram()?;
            let is_useful = |has_acknowledged| has_acknowledged;
            kill_writers(&directory.path().join(place), open, is_useful, kills() / 4, expect_agreement);
            Ok(())
        })
    };
    vec![kill("of_writers_of_a_local_store", "base"), kill("of_writers_of_a_database", "memory.sqlite")]
}

async fn expect_agreement(store: &Kept) {
    assert_eq!(disagreement(store).await.unwrap(), None);
    // The first batch has the number 0.
    let last: u64 = store.read_to_string("/memories/a").await.unwrap().parse().unwrap();
    assert_eq!(store.history().newest().await.unwrap(), last + 1);
}
