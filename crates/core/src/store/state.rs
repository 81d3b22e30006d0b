//! [`StoreState`]: the state of a store that checks depend on.

use crate::store::error::StoreError;
use crate::store::node::{NodeKind, Stat};
use crate::store::quota::Usage;
use crate::store::store_path::StorePath;

/// A snapshot of a store, as used by [`Batch::check`](crate::Batch::check), [`Change::check`](crate::Change::check) and
/// [`ReadOptions::check`](crate::ReadOptions::check).
///
/// A backend implements it for its lock guard, transaction or snapshot. [`PathMap`](crate::PathMap) implements it too.
pub trait StoreState {
    /// The node at `path`, without its contents.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError>;

    /// The kind of node at `path`. A backend whose files can be damaged finds it out without a version, so that such a
    /// file can be removed, renamed and replaced.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn kind(&self, path: &StorePath) -> Result<NodeKind, StoreError> {
        Ok(self.stat(path)?.kind())
    }

    /// The file above `path`, where a directory is required. A backend can find it faster.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn file_above(&self, path: &StorePath) -> Result<Option<StorePath>, StoreError> {
        for above in path.parents() {
            match self.kind(&above)? {
                NodeKind::File => return Ok(Some(above)),
                NodeKind::Directory => return Ok(None),
                NodeKind::Absent => {}
            }
        }
        Ok(None)
    }

    /// The usage of the file at `path`, or of all files under it. Checks call this only for batches with a quota, and
    /// ask for the usage of the whole limited directory only if the batch increases it.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`](crate::Store::read_opts).
    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError>;
}
