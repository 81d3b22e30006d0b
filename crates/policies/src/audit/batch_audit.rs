//! [`BatchAudit`]: writes the intent and the outcome of one batch.

use memory_tool_core::{Actor, Batch, ErrorKind, StoreError};

use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::{AuditEvent, AuditOutcome, AuditRecord, AuditedChange, FORMAT, hexadecimal};
use crate::audit::time;
use crate::outcome::{Outcome, outcome_of_operation};

/// The recorded command of a batch outside of any command.
const APPLY: &str = "apply";

/// The fields that all records of one batch or command share.
#[derive(Clone, Debug)]
pub(super) struct RecordFields {
    id: String,
    actor: String,
    request: Option<String>,
    command: String,
}

impl RecordFields {
    /// The fields for a batch. `actor` is the actor of a batch without one.
    pub(super) fn of_batch(batch: &Batch, actor: &Actor) -> Result<Self, AuditError> {
        Self::new(batch.actor().unwrap_or(actor), batch.command().unwrap_or(APPLY))
    }

    pub(super) fn new(actor: &Actor, command: &str) -> Result<Self, AuditError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| AuditError::new("generating an id", error))?;
        let request = actor.request().map(str::to_owned);
        Ok(Self { id: hexadecimal(&id), actor: actor.name().to_owned(), request, command: command.to_owned() })
    }

    /// Creates a record with the current time.
    pub(super) fn record(&self, event: AuditEvent) -> AuditRecord {
        let Self { id, actor, request, command } = self.clone();
        AuditRecord { format: FORMAT, id, time: time::now(), memory: None, actor, request, command, event }
    }

    fn outcome_of(&self, result: &Result<(), StoreError>) -> AuditRecord {
        let is_unknown = matches!(result, Err(StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }));
        self.outcome(outcome_of_operation(result), is_unknown)
    }

    fn outcome(&self, outcome: Outcome, is_unknown: bool) -> AuditRecord {
        let (outcome, error, policy) = AuditOutcome::in_record(outcome, is_unknown);
        self.record(AuditEvent::Outcome { outcome, error, policy })
    }
}

/// A batch in progress. Dropping it appends the outcome `dropped`.
pub(super) struct BatchAudit<'a> {
    log: &'a dyn AuditLog,
    fields: RecordFields,
    has_ended: bool,
}

impl<'a> BatchAudit<'a> {
    /// Appends the intent.
    pub(super) async fn begin(
        log: &'a dyn AuditLog,
        fields: RecordFields,
        changes: Vec<AuditedChange>,
    ) -> Result<Self, AuditError> {
        let mut audit = Self { log, fields, has_ended: false };
        let appended = log.append(&audit.fields.record(AuditEvent::Intent { changes })).await;
        audit.has_ended = appended.is_err();
        appended.map(|()| audit)
    }

    /// Appends the outcome. If this fails, only the operator is informed, because the batch may have been applied.
    pub(super) async fn end(mut self, result: &Result<(), StoreError>) {
        self.has_ended = true;
        let record = self.fields.outcome_of(result);
        if let Err(error) = self.log.append(&record).await {
            report_missing(&record, &error);
        }
    }
}

impl Drop for BatchAudit<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.log.append_without_waiting(&self.fields.outcome(Outcome::Dropped, false));
        }
    }
}

/// Converts the error of a record that had to be written before the change.
pub(super) fn log_failure(error: AuditError) -> StoreError {
    StoreError::failure(ErrorKind::Other, "writing to the audit log", error)
}

/// Reports to the operator that a record could not be written, without its paths.
pub(super) fn report_missing(record: &AuditRecord, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(id = record.id, command = record.command, error, "could not write a record to the audit log");
}
