//! [`StoreState`]: what the checks of a batch and of a read ask of a store.

use crate::node::{Stat, Version};
use crate::path::MemoryPath;
use crate::quota::Usage;
use crate::record::RecordName;
use crate::store_error::StoreError;

/// What a store holds at one moment, as far as checks ask for it: [`Batch::check`](crate::Batch::check),
/// [`Change::check`](crate::Change::check) and [`ReadOptions::check`](crate::ReadOptions::check). A backend implements it over its lock,
/// its transaction or its snapshot; [`PathMap`](crate::PathMap) has it already.
pub trait StoreState {
    /// What is at `path`, without the contents.
    ///
    /// # Errors
    /// Those of [`Store::read_opts`](crate::Store::read_opts).
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError>;

    /// How much lies at or under `path`: nothing, one file, or all files of a directory. A check asks for it only if a batch has a
    /// quota, and for the whole limited directory only if the batch adds to it.
    ///
    /// # Errors
    /// Those of [`Store::read_opts`](crate::Store::read_opts).
    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError>;

    /// The version of a record; `None` where there is none.
    ///
    /// # Errors
    /// Those of [`Store::read_record`](crate::Store::read_record).
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
