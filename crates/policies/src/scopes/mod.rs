//! One store for many tenants, and several stores as one memory.

mod mounted_store;
mod relocation;
mod scope;
mod scoped_store;

pub use mounted_store::{MountError, MountedStore, MountedStoreBuilder};
pub use scope::{MAX_SCOPE_NAME_BYTES, Scope, ScopeError};
pub use scoped_store::ScopedStore;
