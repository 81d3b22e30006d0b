//! [`StoreCall`]: lines of the suite for programs over a store, which no command can express.

use memory_tool_core::{Batch, Error, Node, ReadOptions, Reply, Store, StoreError, StorePath};
use serde::{Deserialize, Serialize};

/// A call of a store, as one line of JSON. [`serve_store`](crate::serve_store) responds to it like to a command.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreCall {
    /// Applies the changes in one batch.
    Apply(Vec<BatchChange>),
    /// Reads a file or record as text, or `absent`.
    Read(StorePath),
}

/// A change of a batch.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchChange {
    Write(StorePath, String),
    Remove(StorePath),
    Rename(StorePath, StorePath),
}

impl StoreCall {
    /// Calls the store.
    pub(crate) async fn run(self, store: &dyn Store) -> Result<Reply, Error> {
        let outcome = match self {
            Self::Apply(changes) => apply(store, changes).await,
            Self::Read(path) => read(store, &path).await,
        };
        let failed = |error: StoreError| Error::other_with_source(format!("Error: {error}"), error);
        outcome.map(Reply::Text).map_err(failed)
    }
}

async fn apply(store: &dyn Store, changes: Vec<BatchChange>) -> Result<String, StoreError> {
    let batch = changes.into_iter().fold(Batch::new(), |batch, change| match change {
        BatchChange::Write(path, text) => batch.write(path, text),
        BatchChange::Remove(path) => batch.remove(path),
        BatchChange::Rename(from, to) => batch.rename(from, to),
    });
    store.apply(batch).await.map(|()| "applied".to_owned())
}

async fn read(store: &dyn Store, path: &StorePath) -> Result<String, StoreError> {
    Ok(match store.read_opts(path, ReadOptions::new()).await? {
        Node::File(file) => String::from_utf8_lossy(&file.content).into_owned(),
        Node::Directory(_) | Node::Absent => "absent".to_owned(),
    })
}
