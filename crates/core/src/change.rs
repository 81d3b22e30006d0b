//! [`Change`] and [`RecordChange`]: the parts of a batch, and the check that a change can be made.

use crate::node::Stat;
use crate::path::MemoryPath;
use crate::precondition::Precondition;
use crate::record::RecordName;
use crate::state::StoreState;
use crate::store_error::StoreError;

/// One change of a [`Batch`](crate::Batch).
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a store that does not know a change cannot apply the batch")]
pub enum Change {
    /// Create the file or replace its contents.
    Write {
        /// The file's path; never the root.
        path: MemoryPath,
        /// The bytes to store.
        content: Vec<u8>,
    },
    /// Remove the file, or the directory with all files under it.
    Remove {
        /// What to remove; the root empties the store.
        path: MemoryPath,
    },
    /// Move the file or the whole directory to a free path.
    Rename {
        /// What to move; never the root.
        from: MemoryPath,
        /// Its new path; never the root, nor above or under `from`.
        to: MemoryPath,
    },
}

impl Change {
    /// Checks that the change can be made, as points 2 to 4 of [`Store::apply`](crate::Store::apply) say, for a store that has no
    /// quicker way. The length of new paths is left to [`MemoryPath::replace_prefix`], which makes them.
    ///
    /// The changes of a batch are disjoint, so it does not matter whether those before this one are made yet.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`] and [`StoreError::AlreadyExists`]; those of `state`.
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

/// One change of a record by a [`Batch`](crate::Batch). It always can be made.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the same as for `Change`")]
pub enum RecordChange {
    /// Create the record or replace its contents.
    Write {
        /// The name of the record.
        name: RecordName,
        /// The bytes to store.
        content: Vec<u8>,
    },
    /// Remove the record, if there is one.
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
