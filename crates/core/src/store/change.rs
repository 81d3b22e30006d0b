//! [`Change`]: a change of a batch.

use std::sync::Arc;

use crate::store::error::StoreError;
use crate::store::node::{FileTimes, NodeKind};
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// A change of a file or directory in a [`Batch`](crate::Batch).
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must apply every change")]
pub enum Change {
    /// Creates the file or replaces its contents.
    Write {
        /// The path of the file, which cannot be a root.
        path: StorePath,
        /// The bytes to store. They are shared, because wrappers keep a batch to try it again.
        content: Arc<Vec<u8>>,
        /// The times of the file.
        times: FileTimes,
    },
    /// Removes the file, or the directory and every file under it.
    Remove {
        /// The path to remove. Removing a root removes every file under it.
        path: StorePath,
    },
    /// Moves the file or directory to a path that does not exist.
    Rename {
        /// The old path, which cannot be a root.
        from: StorePath,
        /// The new path, which cannot be a root, above `from` or under `from`, and has the same root.
        to: StorePath,
    },
}

impl Change {
    /// The paths that it names: one, or both of a rename.
    pub fn paths(&self) -> impl Iterator<Item = &StorePath> {
        let (path, to) = match self {
            Self::Write { path, .. } | Self::Remove { path } => (path, None),
            Self::Rename { from, to } => (from, Some(to)),
        };
        std::iter::once(path).chain(to)
    }

    /// Whether it changes a record, which policies for files ignore.
    pub fn is_of_record(&self) -> bool {
        self.paths().next().is_some_and(StorePath::is_record)
    }

    /// Checks that the change can be applied, as specified in points 2 to 4 of [`Store::apply`](crate::Store::apply).
    ///
    /// It does not check the length of new paths, which [`StorePath::replace_prefix`] checks. The changes of a batch
    /// are disjoint, so the result is the same before and after the other changes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`] and [`StoreError::AlreadyExists`], and the errors of
    /// `state`.
    ///
    /// ```
    /// use memory_tool_core::{Change, PathMap, StoreError};
    ///
    /// let change = Change::Rename { from: "/memories/a".parse()?, to: "/memories/b".parse()? };
    /// let empty: PathMap<Vec<u8>> = PathMap::new();
    /// assert!(matches!(change.check(&empty), Err(StoreError::NotFound { .. })));
    /// # Ok::<(), memory_tool_core::PathError>(())
    /// ```
    pub fn check(&self, state: &impl StoreState) -> Result<(), StoreError> {
        match self {
            Self::Write { path, .. } => match state.kind(path)? {
                NodeKind::Directory => Err(StoreError::AlreadyExists { path: path.clone() }),
                NodeKind::Absent => refuse_file_above(path, state),
                NodeKind::File => Ok(()),
            },
            Self::Remove { path } => require_something(path, state),
            Self::Rename { from, to } => {
                require_something(from, state)?;
                refuse_file_above(to, state)?;
                match state.kind(to)? {
                    NodeKind::Absent => Ok(()),
                    NodeKind::Directory | NodeKind::File => Err(StoreError::AlreadyExists { path: to.clone() }),
                }
            }
        }
    }
}

fn require_something(path: &StorePath, state: &impl StoreState) -> Result<(), StoreError> {
    match state.kind(path)? {
        NodeKind::Absent => Err(StoreError::NotFound { path: path.clone() }),
        NodeKind::Directory | NodeKind::File => Ok(()),
    }
}

fn refuse_file_above(path: &StorePath, state: &impl StoreState) -> Result<(), StoreError> {
    match state.file_above(path)? {
        Some(path) => Err(StoreError::NotADirectory { path }),
        None => Ok(()),
    }
}
