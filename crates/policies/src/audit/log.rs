//! [`AuditLog`]: a destination for audit records.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::BoxError;

use crate::audit::record::AuditRecord;

/// An append-only destination for audit records.
///
/// This crate has [`JsonLinesLog`](crate::JsonLinesLog). For another destination, such as a log service, implement
/// [`append`](Self::append). Records implement `Serialize` and `Deserialize` of [`serde`].
///
/// # Requirements for every method
/// 1. The log never changes or removes an appended record.
/// 2. Methods may be called concurrently from many tasks, and records never mix.
/// 3. Methods do not block the calling thread.
#[async_trait]
pub trait AuditLog: fmt::Debug + Send + Sync + 'static {
    /// Appends one record.
    ///
    /// # Behavior
    /// 1. Once it returns `Ok`, the record survives the end of the process.
    /// 2. If the future is dropped, the record is appended, absent, or a fragment that readers skip.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the record may be missing. A change whose intent fails is not made.
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError>;

    /// Appends the outcome of a dropped batch. It is called from a destructor, which cannot await.
    ///
    /// # Behavior
    /// 1. The record comes after earlier records of the same task.
    /// 2. The record may be lost. The default implementation drops it, and the log then has an intent without an
    ///    outcome.
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

/// An error while writing the audit log. The operator sees it; the model only reads that the storage failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
#[non_exhaustive]
pub struct AuditError {
    /// The failed operation, such as `appending a record`.
    pub operation: &'static str,
    /// The cause.
    #[source]
    pub source: BoxError,
}

impl AuditError {
    /// Creates an error of `operation`.
    pub fn new(operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self { operation, source: source.into() }
    }
}
