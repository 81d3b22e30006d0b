//! [`StoreState`]: the state of a store that checks depend on.

use crate::node::{Stat, Version};
use crate::path::MemoryPath;
use crate::quota::Usage;
use crate::record::RecordName;
use crate::store_error::StoreError;

/// A snapshot of a store, as used by [`Batch::check`](crate::Batch::check), [`Change::check`](crate::Change::check) and
/// [`ReadOptions::check`](crate::ReadOptions::check).
///
/// A backend implements it for its lock guard, transaction or snapshot. [`PathMap`](crate::PathMap) implements it too.
pub trait StoreState {
    /// The node at `path`, without its contents.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError>;

    /// The usage of the file at `path`, or of all files under it. Checks call this only for batches with a quota, and
    /// ask for the usage of the whole limited directory only if the batch increases it.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError>;

    /// The version of a record, or `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Store::read_record`](crate::Store::read_record).
    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError>;
}

impl<S: StoreState + ?Sized> StoreState for &S {
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        (**self).stat(path)
    }

    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        (**self).usage(path)
    }

    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError> {
        (**self).record(name)
    }
}
