//! [`AuditedTool`] and [`AuditedStore`], which record all changes, and the logs that they append to.

mod batch_audit;
mod json_lines;
mod log;
mod record;
mod store;
mod time;
mod tool;

pub use json_lines::{JsonLinesLog, JsonLinesLogBuilder};
pub use log::{AuditError, AuditLog};
pub use record::{
    AuditEvent, AuditOutcome, AuditRecord, AuditedChange, AuditedEntry, AuditedFile, AuditedState, MAX_LISTED_FILES,
};
pub use store::AuditedStore;
pub use tool::AuditedTool;
