#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "audit")]
mod audit;
#[cfg(any(feature = "audit", feature = "observation"))]
mod called;
#[cfg(feature = "expiry")]
mod expiry;
#[cfg(all(any(fuzzing, test), feature = "audit", feature = "expiry"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "limits")]
mod limits;
#[cfg(feature = "observation")]
mod observation;
#[cfg(any(feature = "audit", feature = "observation"))]
mod outcome;
#[cfg(any(feature = "expiry", feature = "scopes"))]
mod preconditions;
#[cfg(feature = "scopes")]
mod scopes;
#[cfg(feature = "screening")]
mod screening;

#[cfg(feature = "audit")]
pub use audit::{
    AuditError, AuditEvent, AuditLog, AuditOutcome, AuditRecord, AuditedChange, AuditedEntry, AuditedFile,
    AuditedState, AuditedStore, AuditedTool, JsonLinesLog, JsonLinesLogBuilder, MAX_LISTED_FILES,
};
#[cfg(feature = "background")]
pub use expiry::SweepTask;
#[cfg(feature = "expiry")]
pub use expiry::{ExpiredFile, ExpiringStore, ExpiringStoreBuilder, ExpiryError, SweepReport};
#[cfg(feature = "limits")]
pub use limits::{
    DEFAULT_QUOTA_BYTES, DEFAULT_QUOTA_DEPTH, DEFAULT_QUOTA_FILE_BYTES, DEFAULT_QUOTA_FILES, LimitedStore,
    default_quota,
};
#[cfg(feature = "observation")]
pub use observation::{ObservedStore, ObservedTool};
#[cfg(feature = "scopes")]
pub use scopes::{MAX_SCOPE_NAME_BYTES, MountError, MountedStore, MountedStoreBuilder, Scope, ScopeError, ScopedStore};
#[cfg(feature = "screening")]
pub use screening::{
    Detector, Finding, Refusal, Screen, ScreenedStore, SensitiveData, SensitiveDataBuilder, UnknownKind, Verdict,
};
