#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod audit;
#[cfg(feature = "conformance")]
mod conformance;
mod expiry;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod observation;
mod scopes;
mod screening;

pub use audit::{
    Actor, ActorError, AuditError, AuditEvent, AuditFilter, AuditLog, AuditOutcome, AuditRecord, AuditTrail,
    AuditedChange, AuditedEntry, AuditedFile, AuditedState, AuditedStore, AuditedTool, BlockingAuditLog, JsonLinesLog,
    JsonLinesLogBuilder, MAX_ACTOR_BYTES, MAX_LISTED_FILES, StoreLog,
};
#[cfg(feature = "conformance")]
pub use conformance::PolicyCase;
#[cfg(feature = "background")]
pub use expiry::SweepTask;
pub use expiry::{ACCESS_TIMES_NAME, ExpiredFile, ExpiringStore, ExpiringStoreBuilder, ExpiryError, Swept};
pub use limits::{
    DEFAULT_MAX_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, LimitedStore, Limits,
};
pub use observation::{ObservedStore, ObservedTool};
pub use scopes::{
    MAX_SCOPE_NAME_BYTES, MountError, MountedStore, MountedStoreBuilder, ReadOnlyStore, Scope, ScopeError, ScopedStore,
};
pub use screening::{Detector, Finding, Refusal, Screen, ScreenedStore, SensitiveData, SensitiveDataBuilder, Verdict};
