//! [`StoreLog`]: an audit log in a separate store.

use async_trait::async_trait;
use memory_tool_core::{Batch, MemoryPath, Node, PathError, Precondition, Store, StoreError, StoreExt as _};

use crate::audit::filter::{AuditFilter, AuditTrail, Selection};
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::{AuditEvent, AuditRecord};
use crate::audit::time;

/// An audit log in a separate store. Each record is a new file, and files are never replaced.
///
/// Use a bucket for the records of many machines, or an encrypted store to hide the paths in the log. The store must
/// not be accessible to a model, and must not be the audited store.
///
/// # Behavior
/// 1. Files have names such as `/memories/2026-11-21/143029.123456Z-<id>-intent.json`: a directory per day in UTC, and
///    file names in the order of time, by the clocks of the machines that wrote them.
/// 2. Each record is one write, so an edit needs two more writes.
/// 3. The outcome of a dropped batch is not recorded, so its intent has no outcome.
///
/// ```
/// use memory_tool_core::InMemoryStore;
/// use memory_tool_policies::{AuditFilter, StoreLog};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let log = StoreLog::new(InMemoryStore::new());
/// // … an `AuditedStore` and an `AuditedTool` append to it …
/// let trail = log.read(&AuditFilter::new().path("/memories/notes".parse()?)).await?;
/// assert!(trail.records.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoreLog<S> {
    inner: S,
}

impl<S: Store> StoreLog<S> {
    /// Creates a log in `inner`, which must not be used for anything except this log.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }

    /// Returns the records that match the filter, ordered by time.
    ///
    /// Files that are not records of this format are skipped and counted. Each record is one read of the store. Days
    /// before [`AuditFilter::since`] are not read.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the store fails.
    pub async fn read(&self, filter: &AuditFilter) -> Result<AuditTrail, AuditError> {
        let failed = |error: StoreError| AuditError::new("reading the audit log", error);
        let mut files = self.inner.list(MemoryPath::root()).await.map_err(failed)?;
        files.retain(|file| !is_of_day_before(&file.path, filter));
        let mut records = Vec::with_capacity(files.len());
        for file in files {
            match self.inner.read(&file.path).await.map_err(failed)? {
                Node::File(file) => records.push(AuditRecord::parse(&file.content)),
                Node::Absent | Node::Directory(_) => {} // removed since it was listed
            }
        }
        let mut selection = Selection::new(filter);
        // An outcome may precede its intent if a clock was set back.
        records.iter().flatten().for_each(|record| selection.register_intent(record));
        records.into_iter().for_each(|record| selection.add(record));
        Ok(selection.trail)
    }
}

#[async_trait]
impl<S: Store> AuditLog for StoreLog<S> {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        let path = path_of(record).map_err(|error| AuditError::new("naming a record", error))?;
        let content = serde_json::to_vec(record).map_err(|error| AuditError::new("encoding a record", error))?;
        let batch = Batch::new().require(path.clone(), Precondition::Absent).write(path, content);
        self.inner.apply(batch).await.map_err(|error| AuditError::new("appending a record", error))
    }
}

/// The path of a record, which is unique because of the id and event.
fn path_of(record: &AuditRecord) -> Result<MemoryPath, PathError> {
    let time = time::text_of(record.time).unwrap_or_default(); // encoding such a record fails, too
    let (day, time) = time.split_once('T').unwrap_or_default();
    let event = match record.event {
        AuditEvent::Intent { .. } => "intent",
        AuditEvent::Outcome { .. } => "outcome",
        AuditEvent::Command { .. } => "command",
    };
    format!("/memories/{day}/{}-{}-{event}.json", time.replace(':', ""), record.id).parse()
}

fn is_of_day_before(path: &MemoryPath, filter: &AuditFilter) -> bool {
    let Some(day) = path.segments().next() else { return false };
    let end = humantime::parse_rfc3339(&format!("{day}T23:59:59.999999Z"));
    end.is_ok_and(|end| filter.begins_after(end))
}
