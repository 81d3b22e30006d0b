#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod expiry;
mod observation;
mod scopes;
mod screening;

#[cfg(feature = "background")]
pub use expiry::SweepTask;
pub use expiry::{ExpiredFile, ExpiringStore, ExpiringStoreBuilder, ExpiryError, Swept};
pub use observation::{ObservedStore, ObservedTool};
pub use scopes::{
    MAX_SCOPE_NAME_BYTES, MountError, MountedStore, MountedStoreBuilder, ReadOnlyStore, Scope, ScopeError, ScopedStore,
};
pub use screening::{Detector, Finding, Refusal, Screen, ScreenedStore, SensitiveData, SensitiveDataBuilder, Verdict};
