//! [`HistoryRequest`]: a method of `History` in both languages, as JSON.

use std::sync::Arc;

use memory_tool::history::{History, HistoryError, LogFilter};
use memory_tool::store::StorePath;
use memory_tool::{Actor, Memory, MemoryPath, Store, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::CallError;

/// A method of `History` with its arguments.
#[derive(Debug, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
enum HistoryRequest {
    Log {
        path: Option<String>,
        actor: Option<String>,
        command: Option<String>,
        before: Option<u64>,
        limit: Option<usize>,
    },
    ReadText {
        path: String,
        entry: u64,
    },
    Diff {
        from: u64,
        to: u64,
        path: String,
    },
    Undo {
        count: usize,
        #[serde(flatten)]
        change: Change,
    },
    Redo {
        #[serde(flatten)]
        change: Change,
    },
    Revert {
        entries: Vec<u64>,
        #[serde(flatten)]
        change: Change,
    },
    Restore {
        path: String,
        to: u64,
        #[serde(flatten)]
        change: Change,
    },
    Clear {},
    Redact {
        entries: Vec<u64>,
        #[serde(flatten)]
        change: Change,
    },
}

/// The arguments of all methods that change something.
#[derive(Debug, Deserialize)]
struct Change {
    by: Option<String>,
    #[serde(default)]
    force: bool,
}

impl Change {
    fn of(self, history: History<Arc<dyn Store>>) -> Result<History<Arc<dyn Store>>, CallError> {
        let history = if self.force { history.forced() } else { history };
        let Some(name) = self.by else { return Ok(history) };
        let actor = Actor::from_trusted_name(&name).map_err(|error| CallError::History(error.to_string()))?;
        Ok(history.by(actor))
    }
}

/// Performs a method of `History`, and returns its result as JSON.
pub(crate) async fn perform(memory: &Memory, request: &str) -> Result<Value, CallError> {
    let history = memory.history().ok_or_else(|| CallError::History("the memory has no history".to_owned()))?;
    let request = serde_json::from_str(request).map_err(|error| CallError::History(error.to_string()))?;
    let taken_back = match request {
        HistoryRequest::Log { path, actor, command, before, limit } => {
            let mut filter = LogFilter::new();
            if let Some(path) = path {
                filter = filter.path(parse(&path)?);
            }
            filter = actor.into_iter().fold(filter, LogFilter::actor);
            filter = command.into_iter().fold(filter, LogFilter::command);
            filter = before.into_iter().fold(filter, LogFilter::before);
            filter = limit.into_iter().fold(filter, LogFilter::limit);
            return Ok(json!(history.entries(&filter).await?));
        }
        HistoryRequest::ReadText { path, entry } => {
            let path = parse(&path)?;
            let text = String::from_utf8(history.read(&path, entry).await?);
            return Ok(json!(text.map_err(|_| StoreError::NotText { path })?));
        }
        HistoryRequest::Diff { from, to, path } => {
            let differences = history.diff(from, to, &parse(&path)?, usize::MAX).await?;
            let unknown = differences.unknown.iter().map(|path| format!("The texts of {path} are not known\n"));
            let known = differences.files.iter().map(|difference| difference.unified());
            return Ok(json!(known.chain(unknown).collect::<String>()));
        }
        HistoryRequest::Clear {} => {
            history.clear().await?;
            return Ok(Value::Null);
        }
        HistoryRequest::Undo { count, change } => change.of(history)?.undo(count).await?,
        HistoryRequest::Redo { change } => change.of(history)?.redo().await?,
        HistoryRequest::Revert { entries, change } => change.of(history)?.revert(&entries).await?,
        HistoryRequest::Restore { path, to, change } => change.of(history)?.restore(&parse(&path)?, to).await?,
        HistoryRequest::Redact { entries, change } => return Ok(json!(change.of(history)?.redact(&entries).await?)),
    };
    let mut entry = json!(taken_back.entry);
    entry["missing"] = json!(taken_back.missing);
    Ok(entry)
}

fn parse(path: &str) -> Result<StorePath, CallError> {
    Ok(MemoryPath::parse(path).map_err(StoreError::from)?.into())
}

impl From<HistoryError> for CallError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => Self::Store(error),
            error => Self::History(error.to_string()),
        }
    }
}
