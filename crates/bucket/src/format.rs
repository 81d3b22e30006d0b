//! The common format of all objects: JSON that begins with the name and version of the format.

use memory_tool_core::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format that this crate reads and writes.
pub(crate) const FORMAT_VERSION: u64 = 1;

/// The largest commit in bytes. A batch with a larger commit is refused.
pub(crate) const MAX_COMMIT_BYTES: usize = 16 * 1024 * 1024;
/// The most steps of a commit, and the most changes of a batch. A step takes far more bytes in memory than the shortest
/// one has in a commit.
pub(crate) const MAX_STEPS: usize = 50_000;

/// The kind of an object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Format {
    #[serde(rename = "memory-tool commit")]
    Commit,
    #[serde(rename = "memory-tool trimmed commit")]
    Trimmed,
    #[serde(rename = "memory-tool checkpoint")]
    Checkpoint,
    #[serde(rename = "memory-tool run")]
    Run,
}

/// The start of every object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Head {
    pub(crate) format: Format,
    pub(crate) version: u64,
}

#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    body: &'a T,
}

/// Damage to an object of the log or a checkpoint, or to the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Damage {
    #[error("{key} is not an object of a memory store, or it is damaged")]
    Unreadable {
        key: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{key} has version {found} of the format, and this program knows version {known}")]
    NewerVersion { key: String, found: u64, known: u64 },
    #[error("{key} is damaged: {what}")]
    Inconsistent { key: String, what: String },
    #[error("{key} does not fit the commits before it")]
    DoesNotFit {
        key: String,
        #[source]
        source: StoreError,
    },
    #[error("{key} is larger than {limit} bytes")]
    TooLarge { key: String, limit: usize },
    #[error("{key} is missing")]
    Missing { key: String },
    #[error(
        "neither a commit, a checkpoint nor a run is left to rebuild the store from, but other objects are, such as \
         {key}: nothing was changed; restore deleted objects of the bucket if it has versions or a backup"
    )]
    NothingLeft { key: String },
    #[error("the log is missing, but other objects of a memory store are there, such as {key}")]
    NoLog { key: String },
}

impl Damage {
    pub(crate) fn inconsistent(key: impl ToString, what: impl Into<String>) -> Self {
        Self::Inconsistent { key: key.to_string(), what: what.into() }
    }
}

/// The bytes of an object.
pub(crate) fn encode(format: Format, body: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Document { head: Head { format, version: FORMAT_VERSION }, body })
}

/// The name and version of the format of an object. They are read first, because a newer version may differ in all
/// other fields.
pub(crate) fn decode_head(key: &str, bytes: &[u8]) -> Result<Head, Damage> {
    let head: Head =
        serde_json::from_slice(bytes).map_err(|source| Damage::Unreadable { key: key.to_owned(), source })?;
    if head.version > FORMAT_VERSION {
        return Err(Damage::NewerVersion { key: key.to_owned(), found: head.version, known: FORMAT_VERSION });
    }
    if head.version == 0 {
        return Err(Damage::inconsistent(key, "its format has version 0"));
    }
    Ok(head)
}

/// The body of an object that must have this format.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8], format: Format) -> Result<T, Damage> {
    if decode_head(key, bytes)?.format != format {
        return Err(Damage::inconsistent(key, "it has the format of another object"));
    }
    decode_body(key, bytes)
}

/// The body of an object whose head was read.
pub(crate) fn decode_body<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, Damage> {
    serde_json::from_slice(bytes).map_err(|source| Damage::Unreadable { key: key.to_owned(), source })
}
