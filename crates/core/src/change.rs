//! [`Change`] and [`RecordChange`]: the changes of a batch.

use crate::node::{FileTimes, Stat};
use crate::path::MemoryPath;
use crate::precondition::Precondition;
use crate::record::RecordName;
use crate::state::StoreState;
use crate::store_error::StoreError;

/// A change of a file or directory in a [`Batch`](crate::Batch).
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must apply every change")]
pub enum Change {
    /// Creates the file or replaces its contents.
    Write {
        /// The path of the file, which cannot be the root.
        path: MemoryPath,
        /// The bytes to store.
        content: Vec<u8>,
        /// The times of the file.
        times: FileTimes,
    },
    /// Removes the file, or the directory and every file under it.
    Remove {
        /// The path to remove. Removing the root empties the store.
        path: MemoryPath,
    },
    /// Moves the file or directory to a path that does not exist.
    Rename {
        /// The old path, which cannot be the root.
        from: MemoryPath,
        /// The new path, which cannot be the root, above `from` or under `from`.
        to: MemoryPath,
    },
}

impl Change {
    /// Checks that the change can be applied, as specified in points 2 to 4 of [`Store::apply`](crate::Store::apply).
    ///
    /// It does not check the length of new paths, which [`MemoryPath::replace_prefix`] checks. The changes of a batch
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
            Self::Write { path, .. } => {
                refuse_file_above(path, state)?;
                match state.stat(path)? {
                    Stat::Directory => Err(StoreError::AlreadyExists { path: path.clone() }),
                    Stat::Absent | Stat::File(_) => Ok(()),
                }
            }
            Self::Remove { path } => require_something(path, state),
            Self::Rename { from, to } => {
                require_something(from, state)?;
                refuse_file_above(to, state)?;
                Precondition::Absent.check(to, &state.stat(to)?)
            }
        }
    }
}

fn require_something(path: &MemoryPath, state: &impl StoreState) -> Result<(), StoreError> {
    match state.stat(path)? {
        Stat::Absent => Err(StoreError::NotFound { path: path.clone() }),
        Stat::Directory | Stat::File(_) => Ok(()),
    }
}

fn refuse_file_above(path: &MemoryPath, state: &impl StoreState) -> Result<(), StoreError> {
    for path in path.parents() {
        if let Stat::File(_) = state.stat(&path)? {
            return Err(StoreError::NotADirectory { path });
        }
    }
    Ok(())
}

/// A change of a record in a [`Batch`](crate::Batch). It can always be applied.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must apply every change")]
pub enum RecordChange {
    /// Creates the record or replaces its contents.
    Write {
        /// The name of the record.
        name: RecordName,
        /// The bytes to store.
        content: Vec<u8>,
    },
    /// Removes the record, if it exists.
    Remove {
        /// The name of the record.
        name: RecordName,
    },
}

impl RecordChange {
    /// The name of the record.
    pub fn name(&self) -> &RecordName {
        match self {
            Self::Write { name, .. } | Self::Remove { name } => name,
        }
    }
}
