//! [`HistoryRequest`]: reads the history of a memory, or takes changes back.

use std::sync::Arc;

use memory_tool_core::{MemoryPath, Store, StoreError, StorePath};
use memory_tool_history::{History, HistoryError, LogFilter};
use serde::Deserialize;
use serde_json::json;

use crate::memory::Memory;
use crate::requests::{Outcome, RequestError};

type MemoryHistory = History<Arc<dyn Store>>;

/// A request to the history: a method of [`History`]. Paths are checked when it is performed.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum HistoryRequest {
    /// [`History::entries`].
    Log(LogFilter),
    /// [`History::read`], as text.
    ReadText { path: String, entry: u64 },
    /// [`History::diff`], as text in the unified format.
    Diff { from: u64, to: u64, path: String },
    /// [`History::undo`].
    Undo { count: usize, force: bool },
    /// [`History::redo`].
    Redo { force: bool },
    /// [`History::revert`].
    Revert { entries: Vec<u64>, force: bool },
    /// [`History::restore`], or [`History::restore_deleted`] without an entry.
    Restore { path: String, to: Option<u64> },
    /// [`History::redact`].
    Redact { entries: Vec<u64> },
    /// [`History::redact_path`].
    RedactPath { path: String },
    /// [`History::redact_text`], or [`History::find_text`] in a dry run.
    RedactText { text: String, dry_run: bool },
    /// [`History::clear`].
    Clear {},
}

impl HistoryRequest {
    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, RequestError> {
        let history = required(memory)?;
        Ok(Outcome::Data(match self {
            Self::Log(filter) => json!(history.entries(&filter).await?),
            Self::ReadText { path, entry } => return read_text(&history, parse(&path)?, entry).await,
            Self::Diff { from, to, path } => return diff(&history, from, to, &parse(&path)?).await,
            Self::Clear {} => {
                history.clear().await?;
                return Ok(Outcome::Done);
            }
            Self::Redact { entries } => json!(history.redact(&entries).await?),
            Self::RedactPath { path } => json!(history.redact_path(&parse(&path)?).await?),
            Self::RedactText { text, dry_run: true } => json!(history.find_text(&text).await?),
            Self::RedactText { text, dry_run: false } => json!(history.redact_text(&text).await?),
            Self::Undo { count, force } => json!(forced_if(history, force).undo(count).await?),
            Self::Redo { force } => json!(forced_if(history, force).redo().await?),
            Self::Revert { entries, force } => json!(forced_if(history, force).revert(&entries).await?),
            Self::Restore { path, to: Some(entry) } => json!(history.restore(&parse(&path)?, entry).await?),
            Self::Restore { path, to: None } => json!(history.restore_deleted(&parse(&path)?).await?),
        }))
    }
}

/// The history. Without one, this is an error.
pub(super) fn required(memory: &Memory) -> Result<MemoryHistory, RequestError> {
    memory.history().ok_or_else(|| RequestError::History("the memory has no history".to_owned()))
}

/// Files that have changed since are [replaced](History::forced) if `force` is set.
fn forced_if(history: MemoryHistory, force: bool) -> MemoryHistory {
    if force { history.forced() } else { history }
}

async fn read_text(history: &MemoryHistory, path: StorePath, entry: u64) -> Result<Outcome, RequestError> {
    let text = String::from_utf8(history.read(&path, entry).await?);
    Ok(Outcome::Text(text.map_err(|_| StoreError::NotText { path })?))
}

async fn diff(history: &MemoryHistory, from: u64, to: u64, path: &StorePath) -> Result<Outcome, RequestError> {
    let differences = history.diff(from, to, path, usize::MAX).await?;
    let unknown = differences.unknown.iter().map(|path| format!("The texts of {path} are not known\n"));
    let known = differences.files.iter().map(|difference| difference.unified());
    Ok(Outcome::Text(known.chain(unknown).collect()))
}

pub(super) fn parse(path: &str) -> Result<StorePath, StoreError> {
    Ok(MemoryPath::parse(path)?.into())
}

impl From<HistoryError> for RequestError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => Self::Store(error),
            error => Self::History(error.to_string()),
        }
    }
}
