#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

pub mod observation;
mod scopes;

pub use scopes::{
    MAX_SCOPE_NAME_BYTES, MountError, MountedStore, MountedStoreBuilder, ReadOnlyStore, Scope, ScopeError, ScopedStore,
};
