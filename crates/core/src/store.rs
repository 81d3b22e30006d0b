//! [`Store`]: the trait that a backend implements.

pub(crate) mod actor;
pub(crate) mod batch;
pub(crate) mod change;
pub(crate) mod error;
pub(crate) mod ext;
pub(crate) mod file_size;
#[cfg(target_os = "linux")]
pub(crate) mod file_system;
pub(crate) mod in_memory;
pub(crate) mod lock;
pub(crate) mod memory_name;
pub(crate) mod moment;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod path;
pub(crate) mod path_map;
pub(crate) mod path_rules;
pub(crate) mod precondition;
pub(crate) mod private_file;
pub(crate) mod quota;
pub(crate) mod quota_check;
pub(crate) mod quote;
pub(crate) mod read_only;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod store_path;
pub(crate) mod verify;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::store::batch::Batch;
use crate::store::error::StoreError;
use crate::store::node::Node;
use crate::store::precondition::Precondition;
use crate::store::snapshot::CheckInputs;
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// Storage for a memory: files of bytes, addressed by [`StorePath`].
///
/// A store reads and writes bytes. It knows nothing about commands, replies or line numbers:
/// [`Engine`](crate::Engine) implements [`MemoryTool`](crate::MemoryTool) on top of any store. Both methods are
/// required. Programs that use a store call the methods of [`StoreExt`](crate::StoreExt).
///
/// # Guarantees of every method
/// 1. Directories are implicit: a directory exists exactly while it contains a file (`[P5]`). `/memories` and
///    `/records` always exist.
/// 2. Concurrent calls from any number of tasks and processes are linearizable (`[X3]`).
/// 3. A future may be dropped at any point. Its batch is still atomic: it takes full effect or has no effect.
/// 4. A failure of the backend is [`StoreError::Failure`] with the cause as its source. The kind of the failure
///    indicates whether to retry. A write that may have happened is
///    [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown).
///
/// # Implementing a backend
/// A complete store that keeps its files in a [`PathMap`](crate::PathMap) behind a lock:
///
/// ```
#[doc = include_str!("../examples/map_store.rs")]
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    note = "a backend implements the two methods of `Store`: see \"Implementing a backend\" in its documentation"
)]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Reads the file or lists the directory at `path`.
    ///
    /// # Behavior
    /// 1. A file is returned with its complete contents and its [`Version`](crate::Version). Reads of the same path
    ///    that return equal versions return equal contents.
    /// 2. A path with at least one file under it is a [`Node::Directory`]. It lists every file under the path once, at
    ///    any depth, in any order. A root is always a directory.
    /// 3. Any other path is [`Node::Absent`], including a path under a file.
    /// 4. The result is a consistent snapshot, taken during the call.
    /// 5. Each [precondition](ReadOptions::require) holds at some moment between that snapshot and the end of the call.
    ///    If a store never reuses versions, a precondition on an earlier version of a file thus proves that the file
    ///    had this version at the time of the snapshot.
    /// 6. Listings omit symbolic links and special files that other programs created (`[P4]`). Items that cannot be
    ///    read and names that are not legal in a [`StorePath`] are [unlisted](crate::Listing::unlisted) (`[V1]`).
    ///    Damaged files are listed, and marked as [damaged](crate::FileEntry::is_damaged) if the store can detect that
    ///    without reading every file.
    ///
    /// # Errors
    /// - [`StoreError::AlreadyExists`] or [`StoreError::VersionMismatch`] if a precondition does not hold.
    /// - [`StoreError::SymbolicLink`] or [`StoreError::NotARegularFile`] if another program created such an entry at
    ///   the path or above it (`[P4]`).
    /// - [`StoreError::Refused`] if the file exceeds the size limit of the store, such as
    ///   [`DEFAULT_MAX_FILE_BYTES`](crate::DEFAULT_MAX_FILE_BYTES).
    /// - [`StoreError::Failure`] if the backend fails.
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError>;

    /// Applies the changes of the batch atomically.
    ///
    /// # Behavior
    /// 1. The preconditions and quotas are checked against the current state, as [`Batch::check`] does. The first
    ///    failed check is returned as the error, and nothing is changed.
    /// 2. [`Change::Write`](crate::Change::Write) creates the file or replaces its contents, and creates missing
    ///    parents. The error is [`StoreError::AlreadyExists`] if the path is a directory, and
    ///    [`StoreError::NotADirectory`] if a parent is a file. A store that records times uses the
    ///    [times](crate::FileTimes) of the change.
    /// 3. [`Change::Remove`](crate::Change::Remove) removes the file, or the directory and every file under it. The
    ///    error is [`StoreError::NotFound`] if the path does not exist. Removing a root removes every file
    ///    under it, and succeeds even if it is empty.
    /// 4. [`Change::Rename`](crate::Change::Rename) moves the file, or the directory and every file under it, and
    ///    creates missing parents. The errors are, in this order: [`StoreError::NotFound`] if `from` does not exist;
    ///    [`StoreError::NotADirectory`] if a parent of `to` is a file; [`StoreError::AlreadyExists`] if `to` exists;
    ///    [`StoreError::Path`] if the new path of a file is too long.
    /// 5. The two roots are separate: removing `/memories` keeps all records.
    /// 6. After `Ok`, the changes are durable (`[X2]`).
    ///
    /// [`Change::check`](crate::Change::check) implements the checks of points 2 to 4, except for the length of new
    /// paths.
    ///
    /// # Errors
    /// - The errors above and the errors of [`Batch::check`].
    /// - [`StoreError::SymbolicLink`] or [`StoreError::NotARegularFile`], as for [`read_opts`](Self::read_opts)
    ///   (`[P4]`).
    /// - [`StoreError::Refused`] if a file exceeds the size limit of the store.
    /// - [`StoreError::Failure`] if the backend fails.
    async fn apply(&self, batch: Batch) -> Result<(), StoreError>;
}

macro_rules! forward_store {
    ($pointer:ident) => {
        #[async_trait]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
                (**self).read_opts(path, options).await
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
    preconditions: Vec<(StorePath, Precondition)>,
    command: Option<&'static str>,
    allows_stale: bool,
}

impl ReadOptions {
    /// Creates options without preconditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition on a path, for a consistent read of several files.
    pub fn require(mut self, path: impl Into<StorePath>, precondition: Precondition) -> Self {
        self.preconditions.push((path.into(), precondition));
        self
    }

    /// Adds several preconditions.
    pub fn require_all(mut self, preconditions: impl IntoIterator<Item = (StorePath, Precondition)>) -> Self {
        self.preconditions.extend(preconditions);
        self
    }

    /// The [command](Self::for_command) of the reads of files by a search, which is not a use of a file.
    pub const SEARCH: &'static str = "search";

    /// Removes the preconditions, for a wrapper that checks them itself.
    pub fn without_preconditions(self) -> Self {
        Self { preconditions: Vec::new(), ..self }
    }

    /// Names the command of the tool that reads, such as `view`, for wrappers.
    pub fn for_command(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }

    /// The command of the tool that reads. `None` if a program reads.
    pub fn command(&self) -> Option<&'static str> {
        self.command
    }

    /// Allows the store to return an earlier state of a file, if it would have to request a newer one. The state is as
    /// new as each earlier result of this store, such as a listing or the refusal of a batch. Directories, absent paths
    /// and errors are never stale.
    ///
    /// A later batch that [requires](Batch::require) the version of the file proves that it was current. Before you
    /// refuse an operation because of the contents, read the file again without this option.
    pub fn allow_stale(mut self) -> Self {
        self.allows_stale = true;
        self
    }

    /// Requires the present state, for a wrapper that hides the file: absence is never stale.
    pub fn without_stale(self) -> Self {
        Self { allows_stale: false, ..self }
    }

    /// Whether the file may be [stale](Self::allow_stale). Default: `false`.
    pub fn allows_stale(&self) -> bool {
        self.allows_stale
    }

    /// The preconditions, in insertion order.
    pub fn preconditions(&self) -> &[(StorePath, Precondition)] {
        &self.preconditions
    }

    /// Replaces each path, for a wrapper that stores files under other paths.
    ///
    /// # Errors
    /// The first error that `path` returns.
    pub fn try_map(self, path: impl Fn(&StorePath) -> Result<StorePath, StoreError>) -> Result<Self, StoreError> {
        let map = |(required, precondition)| Ok((path(&required)?, precondition));
        let preconditions = self.preconditions.into_iter().map(map).collect::<Result<_, StoreError>>()?;
        Ok(Self { preconditions, ..self })
    }

    /// The inputs of [`check`](Self::check).
    pub fn inputs(&self) -> CheckInputs {
        let mut inputs = CheckInputs::default();
        inputs.paths.extend(self.preconditions.iter().map(|(path, _)| path.clone()));
        inputs
    }

    /// Checks the preconditions in insertion order.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] or [`StoreError::VersionMismatch`] for the first precondition that does not hold,
    /// and the errors of `state`.
    pub fn check(&self, state: &impl StoreState) -> Result<(), StoreError> {
        self.preconditions.iter().try_for_each(|(path, precondition)| precondition.check(path, &state.stat(path)?))
    }
}
