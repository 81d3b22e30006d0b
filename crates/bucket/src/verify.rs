//! Checking a store for damage: reads every file and record, and reads the log like a new process.

use std::sync::Arc;

use memory_tool_core::{FailureKind, Problem};

use crate::failure::Failure;
use crate::inner::Inner;

impl Inner {
    /// Damage to the log, and the records that cannot be read.
    pub(crate) async fn verify_log_and_records(self: &Arc<Self>) -> Result<Vec<Problem>, Failure> {
        let mut problems = Vec::new();
        for problem in [self.verify_log().await, self.verify_recovery().await] {
            problems.extend(damage_of(problem)?);
        }
        let names: Vec<_> = self.state().files.records().keys().cloned().collect();
        for name in names {
            match self.read_record(&name).await {
                Ok(_) => {}
                Err(failure) if failure.is_busy() => return Err(failure),
                Err(failure) => {
                    let error = failure.during("reading");
                    problems.push(Problem::new(format!("the record {name} cannot be read: {}", Problem::of(&error))));
                }
            }
        }
        Ok(problems)
    }

    /// Whether all commits exist that were not trimmed.
    async fn verify_log(self: &Arc<Self>) -> Result<(), Failure> {
        self.poll(&self.deadline()).await?;
        self.list_untrimmed().await.map(drop)
    }

    /// Whether a new process finds the latest checkpoint and all commits after it.
    async fn verify_recovery(&self) -> Result<(), Failure> {
        self.load_to_end(None, &self.deadline()).await.map(drop)
    }
}

/// Damage as a problem. Other failures are errors.
fn damage_of(checked: Result<(), Failure>) -> Result<Option<Problem>, Failure> {
    match checked {
        Ok(()) => Ok(None),
        Err(failure @ Failure::Failed { kind: FailureKind::Damaged, .. }) => {
            Ok(Some(Problem::of(&failure.during("reading the log"))))
        }
        Err(failure) => Err(failure),
    }
}
