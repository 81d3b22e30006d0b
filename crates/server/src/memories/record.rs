//! [`StoreRecord`]: the record of the server in a memory.

use std::collections::BTreeMap;

use memory_tool::store::{Precondition, ReadOptions, StorePath};
use memory_tool::{ErrorKind, Node, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::http::error::ApiError;

/// The record of a store of the Memory Stores API.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct StoreRecord {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    /// Milliseconds since 1970, as all times here.
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    #[serde(default)]
    pub(crate) archived_at: Option<u64>,
}

impl StoreRecord {
    pub(crate) fn path() -> StorePath {
        let join = |path: StorePath, name: &str| path.join(name).unwrap_or(path);
        ["memory-stores", "store"].into_iter().fold(StorePath::records(), join)
    }

    /// # Errors
    /// [`ApiError`] 400 if the memory is archived.
    pub(crate) fn refuse_archived(&self) -> Result<(), ApiError> {
        let archived = || Err(ApiError::invalid("the memory store is archived, so it is read-only"));
        self.archived_at.map_or(Ok(()), |_| archived())
    }

    /// Reads the record, and the precondition that it has not changed.
    pub(crate) async fn read(store: &dyn Store) -> Result<(Option<Self>, Precondition), StoreError> {
        match store.read_opts(&Self::path(), ReadOptions::new()).await? {
            Node::File(file) => {
                let record = serde_json::from_slice(&file.content);
                let damaged =
                    |error| StoreError::failure(ErrorKind::Damaged, "reading the record of the memory", error);
                Ok((Some(record.map_err(damaged)?), Precondition::Version(file.version)))
            }
            _ => Ok((None, Precondition::Absent)),
        }
    }
}
