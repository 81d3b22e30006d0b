//! Who reaches which part of which store: one store for many tenants, one memory out of several stores, and a store that
//! nobody changes.

mod mounted_store;
mod relocation;
mod scope;
mod scoped_store;

pub use mounted_store::{MountError, MountedStore, MountedStoreBuilder};
pub use scope::{MAX_SCOPE_NAME_BYTES, Scope, ScopeError};
pub use scoped_store::ScopedStore;
