//! [`StoreLog`]: a log in a store of its own.

use async_trait::async_trait;
use memory_tool_core::{Batch, MemoryPath, Node, PathError, Precondition, Store, StoreError, StoreExt as _};

use crate::audit::filter::{AuditFilter, AuditTrail, Selection};
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::{AuditEvent, AuditRecord};
use crate::audit::time;

/// A log in a store of its own: each record is a new file, and none is ever replaced.
///
/// So it goes wherever memories go: a bucket for many machines, or an encrypted store, which also hides the paths in the log. It must
/// be a store that no model reaches, and not the one that is audited.
///
/// # Behavior
/// 1. The files have names as `/memories/2026-11-21/143029.123456Z-<id>-intent.json`: a directory for each day, in UTC, and in it the
///    order of time, by the clocks of the machines that wrote them.
/// 2. A record costs one write of the store, so an edit costs two more.
/// 3. Nothing is handed over where a change is dropped half-way: its intent is alone then.
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
    /// A log that keeps its records in `inner`, which must be used for nothing else.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }

    /// Reads the records that the filter lets through, in the order of their times.
    ///
    /// Files that are no record of this format are passed over and counted. Each record is a read of the store; days before
    /// [`AuditFilter::since`] are not read.
    ///
    /// # Errors
    /// [`AuditError`] where the store fails.
    pub async fn read(&self, filter: &AuditFilter) -> Result<AuditTrail, AuditError> {
        let failed = |error: StoreError| AuditError::new("reading the audit log", error);
        let mut files = self.inner.list(MemoryPath::root()).await.map_err(failed)?;
        files.retain(|file| !is_of_day_before(&file.path, filter));
        let mut records = Vec::with_capacity(files.len());
        for file in files {
            match self.inner.read(&file.path).await.map_err(failed)? {
                Node::File(file) => records.push(AuditRecord::parse(&file.content)),
                Node::Absent | Node::Directory(_) => {} // the operator has just removed it
            }
        }
        let mut selection = Selection::new(filter);
        records.iter().flatten().for_each(|record| selection.note(record)); // as clocks may be put back
        records.into_iter().for_each(|record| selection.take(record));
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

/// Where a record is kept. No two have the same id and event.
fn path_of(record: &AuditRecord) -> Result<MemoryPath, PathError> {
    let time = time::text_of(record.time).unwrap_or_default(); // one that cannot be written is an error of the encoding
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
