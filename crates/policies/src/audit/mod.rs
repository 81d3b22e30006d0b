//! [`AuditedTool`] and [`AuditedStore`], which record all changes, and the logs that they append to.

mod actor;
mod batch_audit;
mod command;
mod filter;
mod id;
mod json_lines;
mod log;
mod record;
mod store;
mod store_log;
mod time;
mod tool;

pub use actor::{Actor, ActorError, MAX_ACTOR_BYTES};
pub use filter::{AuditFilter, AuditTrail};
pub use json_lines::{JsonLinesLog, JsonLinesLogBuilder};
pub use log::{AuditError, AuditLog};
pub use record::{
    AuditEvent, AuditOutcome, AuditRecord, AuditedChange, AuditedEntry, AuditedFile, AuditedState, MAX_LISTED_FILES,
};
pub use store::AuditedStore;
pub use store_log::StoreLog;
pub use tool::AuditedTool;

#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz_log(stored: &[u8]) {
    for longest in [16, 1 << 20] {
        let _ = json_lines::read_lines_from(stored, &AuditFilter::new(), longest);
    }
    if let Some(record) = record::AuditRecord::parse(stored) {
        // Some valid records cannot be written, for example because of their time. The others must survive a round
        // trip.
        if let Ok(written) = serde_json::to_vec(&record) {
            assert_eq!(record::AuditRecord::parse(&written), Some(record));
        }
    }
}
