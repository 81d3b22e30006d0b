//! [`AuditLog`]: where records go.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::BoxError;

use crate::audit::record::AuditRecord;

/// Where records go, one after another and for good.
///
/// [`JsonLinesLog`](crate::JsonLinesLog) and [`StoreLog`](crate::StoreLog) come with this crate. A log of your own, such as a service
/// that collects records, implements [`append`](Self::append); each record is a value of [`serde`].
///
/// # What holds for every method
/// 1. Nothing that was appended is changed or removed by the log.
/// 2. The methods may be called from many tasks at once, and records of several never mix.
/// 3. No blocking call is made on the thread of the caller.
#[async_trait]
pub trait AuditLog: fmt::Debug + Send + Sync + 'static {
    /// Appends one record.
    ///
    /// # Behavior
    /// 1. Once it returns `Ok`, the record survives the end of the process.
    /// 2. A future that is dropped has appended the record whole or not at all; or a piece of it, which readers pass over.
    ///
    /// # Errors
    /// [`AuditError`] where it cannot be said that the record is there. Before a change, that change is then not made.
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError>;

    /// Hands over a record where nothing can be awaited: that a change was dropped half-way.
    ///
    /// # Behavior
    /// 1. It comes after what the same task appended before.
    /// 2. It may be lost. What is provided loses it: the intent is then alone in the log, which says the same with less.
    fn append_without_waiting(&self, record: &AuditRecord) {
        let _ = record;
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: AuditLog + ?Sized> AuditLog for Arc<L> {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        (**self).append(record).await
    }

    fn append_without_waiting(&self, record: &AuditRecord) {
        (**self).append_without_waiting(record);
    }
}

/// Why the audit log could not be written or read. For the operator: the model reads that the storage failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
#[non_exhaustive]
pub struct AuditError {
    /// What the log was doing, such as `appending a record`.
    pub operation: &'static str,
    /// The cause.
    #[source]
    pub source: BoxError,
}

impl AuditError {
    /// A failure of a log while it was doing `operation`.
    pub fn new(operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self { operation, source: source.into() }
    }
}
