//! Helpers for the tests of this crate.

use memory_tool_core::{MemoryPath, Node, ReadOptions, Store, StoreError, StoreExt as _, StoredFile};
pub(crate) use memory_tool_test_fixtures::steps::{Part, Step, if_valid, run, steps};
pub(crate) use memory_tool_test_fixtures::{Log, contents, path, record};

pub(crate) fn memory_path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

/// Returns a record, if it exists.
pub(crate) async fn read_record(store: &dyn Store, name: &str) -> Option<StoredFile> {
    match store.read_opts(&record(name), ReadOptions::new()).await.unwrap() {
        Node::Absent => None,
        Node::File(stored) => Some(stored),
        other => unreachable!("{name} is {other:?}"),
    }
}

pub(crate) async fn write(store: &dyn Store, at: &str, content: &str) -> Result<(), StoreError> {
    store.write(at, content).await
}

pub(crate) async fn remove(store: &dyn Store, at: &str) -> Result<(), StoreError> {
    store.remove(at).await
}

pub(crate) async fn rename(store: &dyn Store, from: &str, to: &str) -> Result<(), StoreError> {
    store.rename(from, to).await
}

/// Returns the reason of a refusal.
pub(crate) fn reason(outcome: Result<(), StoreError>) -> String {
    match outcome {
        Err(StoreError::Refused { reason, .. }) => reason,
        other => unreachable!("{other:?}"),
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}
