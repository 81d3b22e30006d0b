//! Warnings for the operator about background work. No command waits for it, so none reports its failures.

use memory_tool_core::{ErrorKind, Problem};

use crate::failure::Failure;
use crate::inner::Inner;

impl Inner {
    /// Warns that a checkpoint was not written. Commands still succeed, but each opening reads all commits since the
    /// last checkpoint.
    pub(crate) fn warn_about_checkpoint(&self, failure: Failure) {
        if let Some((store, error)) = self.warning(failure) {
            tracing::warn!(store, error, "checkpoint not written: openings become slower until one is");
        }
    }

    /// Warns that the session could not collect garbage. Deleted contents stay until a collection succeeds.
    pub(crate) fn warn_about_collection(&self, failure: Failure) {
        if let Some((store, error)) = self.warning(failure) {
            tracing::warn!(
                store,
                error,
                "unused objects not collected: deleted contents stay until a collection succeeds"
            );
        }
    }

    /// The name of the store and the cause, if it is time for a warning.
    fn warning(&self, failure: Failure) -> Option<(String, String)> {
        let Failure::Failed { kind, source } = failure else { return None };
        // If it was busy, another session was first. Damage is reported by commands, and may name files.
        let is_silent = matches!(kind, ErrorKind::Busy | ErrorKind::Damaged) || !self.warnings.are_due();
        (!is_silent).then(|| (self.bucket.name(), Problem::of(&*source).message))
    }
}
