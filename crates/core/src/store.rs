//! [`Store`]: the seam that a backend implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::batch::Batch;
use crate::node::{Node, StoredFile};
use crate::path::MemoryPath;
use crate::precondition::Precondition;
use crate::record::RecordName;
use crate::state::StoreState;
use crate::store_error::StoreError;

/// Where memory is kept: files of bytes, found by their [`MemoryPath`].
///
/// This is the lower of the two seams. [`Engine`](crate::Engine) implements [`MemoryTool`](crate::MemoryTool) once over any store, so a
/// store knows nothing of commands, wording, line numbers or matching. It reads a path, reads a record, and applies a batch of
/// changes. All three methods are required, and there are no others: a store over a store cannot forget to forward one. Callers use
/// [`StoreExt`](crate::StoreExt).
///
/// # What holds for every method
/// 1. Directories are implicit: one exists exactly while a file lies under it (`[P5]`). `/memories` always exists.
/// 2. The methods of one store, called from many tasks and processes, behave as if one came after another (`[X3]`).
/// 3. A future may be dropped at any point: the batch that it was applying then holds whole or not at all.
/// 4. A failure of the backend is [`StoreError::Failure`] with the cause as its source. Its kind says whether trying
///    again may help; a write that may or may not have happened is
///    [`FailureKind::OutcomeUnknown`](crate::FailureKind::OutcomeUnknown).
///
/// # Making your own backend
/// A whole store, kept in a [`PathMap`](crate::PathMap) behind a lock:
///
/// ```
#[doc = include_str!("../examples/map_store.rs")]
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    note = "a backend implements the three methods of `Store`: see \"Making your own backend\" in its documentation"
)]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Reads the file at `path`, or lists the directory that is there.
    ///
    /// # Behavior
    /// 1. A file comes back whole, with its [`Version`](crate::Version). Two reads of one path that gave equal versions gave equal contents.
    /// 2. A path with a file somewhere under it is [`Node::Directory`] with every file under it, at any depth, in any order, each
    ///    once. The root is always a directory.
    /// 3. Everything else is [`Node::Absent`], a path under a file included.
    /// 4. The answer is from one moment between the call and its end.
    /// 5. Each [precondition](ReadOptions::require) held at a moment between the reading and the end of the call. So one on a version
    ///    that was read before says that its file was the same at the moment of the reading, if no version of that file comes back.
    /// 6. A listing leaves out names that are not legal in a [`MemoryPath`], links and special files, put there by other programs
    ///    (`[P4]`). A file that cannot be read because it is damaged is listed: as [damaged](crate::FileEntry::is_damaged), if the store
    ///    knows it without reading every file.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] and [`StoreError::VersionMismatch`] for a precondition that does not hold;
    /// [`StoreError::SymbolicLink`] and [`StoreError::NotARegularFile`] where another program put such a thing there or above (`[P4]`);
    /// [`StoreError::Refused`] for a file that is larger than the store reads, see
    /// [`DEFAULT_MAX_FILE_BYTES`](crate::DEFAULT_MAX_FILE_BYTES); [`StoreError::Failure`].
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError>;

    /// Reads a record: what a store over this one keeps here for itself. `None` where there is none.
    ///
    /// # Behavior
    /// 1. Records lie outside of `/memories`: no path names one, no listing has one, and no quota counts one.
    /// 2. A record comes back whole, with its version. Equal versions of one record mean equal contents.
    /// 3. A record and a file are as safe and as durable as each other: where files are encrypted, so are records.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError>;

    /// Applies all changes of the batch, to files and records, or none.
    ///
    /// # Behavior
    /// 1. All that the batch requires is checked against the state before it, as [`Batch::check`] does, then the changes are
    ///    applied. The first check that fails is the error, and nothing changes.
    /// 2. [`Change::Write`](crate::Change::Write) creates the file or replaces its contents, byte for byte, and makes its parents. A
    ///    directory there is [`StoreError::AlreadyExists`], a file among its parents [`StoreError::NotADirectory`] with that file.
    /// 3. [`Change::Remove`](crate::Change::Remove) removes the file, or the directory with all files under it. Nothing there is
    ///    [`StoreError::NotFound`]. Removing the root empties the store, also an empty one.
    /// 4. [`Change::Rename`](crate::Change::Rename) moves the file, or the directory with all files under it, and makes missing
    ///    parents. Checked in this order: nothing at `from` is [`StoreError::NotFound`]; a file among the parents of `to` is
    ///    [`StoreError::NotADirectory`]; anything at `to` is [`StoreError::AlreadyExists`]; a file whose new path would
    ///    be too long is [`StoreError::Path`].
    /// 5. Changes of files leave records as they are, the removal of the root included.
    /// 6. Once it returns `Ok`, the changes survive the end of the process (`[X2]`).
    ///
    /// [`Change::check`](crate::Change::check) checks all of points 2 to 4 but the length of new paths.
    ///
    /// # Errors
    /// As above, and those of [`Batch::check`]; [`StoreError::SymbolicLink`], [`StoreError::NotARegularFile`] (`[P4]`);
    /// [`StoreError::Refused`] for a file that is larger than the store reads; [`StoreError::Failure`].
    async fn apply(&self, batch: Batch) -> Result<(), StoreError>;
}

macro_rules! forward_store {
    ($pointer:ident) => {
        #[async_trait]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
                (**self).read_opts(path, options).await
            }

            async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
                (**self).read_record(name).await
            }

            async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
                (**self).apply(batch).await
            }
        }
    };
}

forward_store!(Arc);
forward_store!(Box);

/// Options of [`Store::read_opts`].
///
/// ```
/// use memory_tool_core::{InMemoryStore, MemoryPath, Precondition, ReadOptions, Store, StoreError};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (path, draft): (MemoryPath, MemoryPath) = ("/memories/a.txt".parse()?, "/memories/draft.txt".parse()?);
/// let unless_drafted = ReadOptions::new().require(draft, Precondition::Absent);
/// InMemoryStore::new().read_opts(&path, unless_drafted).await?;
/// # Ok::<(), StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct ReadOptions {
    preconditions: Vec<(MemoryPath, Precondition)>,
}

impl ReadOptions {
    /// No preconditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition on a path, for reading one of several files that belong together.
    pub fn require(mut self, path: MemoryPath, precondition: Precondition) -> Self {
        self.preconditions.push((path, precondition));
        self
    }

    /// The preconditions, in the order in which they were added.
    pub fn preconditions(&self) -> &[(MemoryPath, Precondition)] {
        &self.preconditions
    }

    /// The same options at other paths, for a store over a store that keeps files elsewhere.
    ///
    /// # Errors
    /// The first one of `path`.
    pub fn try_map(self, path: impl Fn(&MemoryPath) -> Result<MemoryPath, StoreError>) -> Result<Self, StoreError> {
        let map = |(required, precondition)| Ok((path(&required)?, precondition));
        Ok(Self { preconditions: self.preconditions.into_iter().map(map).collect::<Result<_, StoreError>>()? })
    }

    /// Checks the preconditions in their order.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] and [`StoreError::VersionMismatch`]; those of `state`.
    pub fn check(&self, state: &impl StoreState) -> Result<(), StoreError> {
        self.preconditions.iter().try_for_each(|(path, precondition)| precondition.check(path, &state.stat(path)?))
    }
}
