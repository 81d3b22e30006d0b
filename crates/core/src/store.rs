//! [`Store`]: the byte-level seam that a backend implements, and the [`Batch`] that it applies atomically.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::capacity::{Capacity, Usage};
use crate::error::{FailureKind, StoreError};
use crate::hook::HookedStore;
use crate::path::MemoryPath;

/// How often what is at a path may be another thing at each look before that is an error.
const MAX_LOOKS: usize = 1_000;

/// Where memory is kept: files of bytes, found by their [`MemoryPath`].
///
/// This is the lower of the two seams. [`Engine`](crate::Engine) implements [`MemoryTool`](crate::MemoryTool) once over
/// any store, so a store knows nothing of commands, wording, line numbers or matching: it reads a file, lists the files
/// beneath a directory, and applies a batch of changes. These three methods are required; there is nothing else to write.
///
/// # What holds for every method
/// 1. Directories are implicit: one exists exactly while a file lies beneath it (`[P5]`). `/memories` always exists.
/// 2. The methods of one store, called from many tasks and processes, behave as if one came after another (`[X3]`).
/// 3. A future may be dropped at any point: the batch that it was applying then holds whole or not at all.
/// 4. A failure of the backend is [`StoreError::Failure`] with the cause as its source. Its kind says whether trying
///    again may help; a write that may or may not have happened is
///    [`FailureKind::OutcomeUnknown`](crate::FailureKind::OutcomeUnknown).
///
/// # Making your own backend
/// A whole store, kept in a map behind a lock:
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// use async_trait::async_trait;
/// use memory_tool_core::{
///     Batch, Change, Engine, FileEntry, MemoryPath, MemoryTool, Node, Store, StoreError, StoredFile, Version,
/// };
///
/// #[derive(Clone, Debug, Default)]
/// struct Files(BTreeMap<MemoryPath, Vec<u8>>);
///
/// impl Files {
///     fn node(&self, path: &MemoryPath) -> Node {
///         match self.0.get(path) {
///             // The contents serve as the version here: equal versions mean equal contents.
///             Some(content) => Node::File(StoredFile::new(content.clone(), Version::new(content.clone()))),
///             None if path.is_root() || self.0.keys().any(|file| file.is_beneath(path)) => Node::Directory,
///             None => Node::Absent,
///         }
///     }
///
///     /// The file at a path, or those beneath it.
///     fn within(&self, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
///         let within = self.0.iter().filter(move |(file, _)| *file == path || file.is_beneath(path));
///         within.map(|(file, content)| FileEntry::new(file.clone(), content.len() as u64))
///     }
///
///     fn change(&mut self, change: Change) -> Result<(), StoreError> {
///         change.check(|path| Ok(self.node(path)))?;
///         match change {
///             Change::Write { path, content } => {
///                 self.0.insert(path, content);
///             }
///             Change::Remove { path } => self.0.retain(|file, _| *file != path && !file.is_beneath(&path)),
///             Change::Rename { from, to } => {
///                 for (path, content) in std::mem::take(&mut self.0) {
///                     self.0.insert(path.rebase(&from, &to)?, content);
///                 }
///             }
///         }
///         Ok(())
///     }
/// }
///
/// #[derive(Debug, Default)]
/// struct MapStore(Mutex<Files>);
///
/// #[async_trait]
/// impl Store for MapStore {
///     async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
///         Ok(self.0.lock().unwrap().node(path))
///     }
///
///     async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
///         Ok(self.0.lock().unwrap().within(directory).filter(|file| file.path != *directory).collect())
///     }
///
///     async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
///         let mut files = self.0.lock().unwrap();
///         batch.check_preconditions(|path| Ok(files.node(path)), |path| Ok(files.within(path).collect()))?;
///         let mut changed = files.clone();
///         for change in batch.into_changes() {
///             changed.change(change)?;
///         }
///         *files = changed; // all of it at once, or none
///         Ok(())
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(MapStore::default());
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(tool.call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
/// # Ok::<(), memory_tool_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    note = "a backend implements the three methods of `Store`: see \"Making your own backend\" in its documentation"
)]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Reads what is at `path`.
    ///
    /// # Behavior
    /// 1. A file comes back whole, with its [`Version`].
    /// 2. Two reads of one path that gave equal versions gave equal contents.
    /// 3. A path with a file somewhere beneath it is [`Node::Directory`]; so is the root, always.
    /// 4. Everything else is [`Node::Absent`], a path beneath a file included.
    ///
    /// # Errors
    /// [`StoreError::SymbolicLink`] and [`StoreError::NotARegularFile`] where another program put such a thing there or
    /// above (`[P4]`); [`StoreError::Refused`] for a file that is larger than the store reads, see
    /// [`DEFAULT_MAX_FILE_BYTES`](crate::DEFAULT_MAX_FILE_BYTES); [`StoreError::Failure`].
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError>;

    /// Lists every file strictly beneath `directory`, at any depth, with its size in bytes.
    ///
    /// # Behavior
    /// 1. The entries come in any order, each file once, all from one moment.
    /// 2. Where nothing lies beneath `directory`, or it is a file, the list is empty.
    /// 3. Names that are not legal in a [`MemoryPath`], links and special files, put there by other programs, are left
    ///    out and break nothing (`[P4]`).
    /// 4. A file that cannot be read because it is damaged is listed all the same: as [damaged](FileEntry::is_damaged), if the
    ///    store knows it without reading every file.
    ///
    /// # Errors
    /// [`StoreError::SymbolicLink`] and [`StoreError::NotARegularFile`] where such a thing stands at or above `directory`;
    /// [`StoreError::Failure`].
    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError>;

    /// Reads the file at `path`, or lists the directory that is there.
    ///
    /// # Behavior
    /// 1. A file comes as [`read`](Self::read) gives it, a directory as [`list`](Self::list) does, as of one moment between the call
    ///    and its end.
    /// 2. What is provided reads, then lists, and starts over where the directory has gone in between. A store that answers both
    ///    by one request does so here.
    ///
    /// # Errors
    /// Those of the two; [`StoreError::VersionMismatch`] where what is there went on changing.
    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        for _ in 0..MAX_LOOKS {
            // The root is always a directory (`[P5]`).
            let node = if path.is_root() { Node::Directory } else { self.read(path).await? };
            match node {
                Node::Absent => return Ok(Found::Absent),
                Node::File(file) => return Ok(Found::File(file)),
                Node::Directory => {
                    let files = self.list(path).await?;
                    if path.is_root() || !files.is_empty() {
                        return Ok(Found::Directory(files));
                    }
                }
            }
        }
        Err(StoreError::VersionMismatch { path: path.clone() })
    }

    /// Reads what is at `path`, where preconditions on other paths hold as well: for what belongs together and lies in several files.
    ///
    /// # Behavior
    /// 1. What is there comes as [`read`](Self::read) gives it.
    /// 2. Each precondition held at a moment between the reading and the end of the call. So one on a version that was read before
    ///    says that the file of it was the same at the moment of the reading, if no version of that file comes back.
    /// 3. What is provided is [`read_then_check`]. A store that can do both by one request does so here.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); [`StoreError::AlreadyExists`] and [`StoreError::VersionMismatch`] for a precondition that does
    /// not hold. A [`Capacity`], which depends on changes, is a [`StoreError::Failure`].
    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        read_then_check(self, path, preconditions).await
    }

    /// Applies all changes of the batch, or none.
    ///
    /// # Behavior
    /// 1. All preconditions are checked against the state before the batch, in order, then the changes are applied. The
    ///    first that fails is the error, and nothing changes.
    /// 2. [`Change::Write`] creates the file or replaces its contents, byte for byte, and makes its parents. A directory
    ///    there is [`StoreError::AlreadyExists`], a file among its parents [`StoreError::NotADirectory`] with that file.
    /// 3. [`Change::Remove`] removes the file, or the directory with all that is beneath it. Nothing there is
    ///    [`StoreError::NotFound`]. Removing the root empties the store, also an empty one.
    /// 4. [`Change::Rename`] moves the file, or the directory with all that is beneath it, and makes missing parents.
    ///    Checked in this order: nothing at `from` is [`StoreError::NotFound`]; a file among the parents of `to` is
    ///    [`StoreError::NotADirectory`]; anything at `to` is [`StoreError::AlreadyExists`]; a file whose new path would
    ///    be too long is [`StoreError::Path`].
    /// 5. Once it returns `Ok`, the changes survive the end of the process (`[X2]`).
    ///
    /// [`Batch::check_preconditions`] checks the preconditions, [`Change::check`] all of points 2 to 4 but the length of new paths.
    ///
    /// # Errors
    /// As above; [`StoreError::VersionMismatch`], [`StoreError::AlreadyExists`] and [`StoreError::OverCapacity`] for a precondition
    /// that does not hold;
    /// [`StoreError::SymbolicLink`], [`StoreError::NotARegularFile`] (`[P4]`); [`StoreError::Refused`] for a file that is larger than
    /// the store reads; [`StoreError::Failure`].
    async fn apply(&self, batch: Batch) -> Result<(), StoreError>;

    /// This store as one that calls hooks around its batches.
    ///
    /// # Behavior
    /// 1. What is provided is `None`: a store that works on a network, or over another store, calls none.
    fn hooked(&self) -> Option<&dyn HookedStore> {
        None
    }
}

macro_rules! forward_store {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
                (**self).read(path).await
            }

            async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
                (**self).list(directory).await
            }

            async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
                (**self).read_or_list(path).await
            }

            async fn read_if(
                &self,
                path: &MemoryPath,
                preconditions: &[(MemoryPath, Expected)],
            ) -> Result<Node, StoreError> {
                (**self).read_if(path, preconditions).await
            }

            async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
                (**self).apply(batch).await
            }

            fn hooked(&self) -> Option<&dyn HookedStore> {
                (**self).hooked()
            }
        }
    };
}

forward_store!(Arc);
forward_store!(Box);

/// Reads what is at `path`, and after it what the preconditions are about, one after another: [`Store::read_if`] for a store that has
/// no quicker way.
///
/// # Errors
/// Those of [`Store::read`] and of [`Expected::check`].
pub async fn read_then_check<S: Store + ?Sized>(
    store: &S,
    path: &MemoryPath,
    preconditions: &[(MemoryPath, Expected)],
) -> Result<Node, StoreError> {
    let node = store.read(path).await?;
    for (required, expected) in preconditions {
        expected.check(required, &store.read(required).await?)?;
    }
    Ok(node)
}

/// What is at a path.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a path holds a file, is a directory, or is free: there is no fourth")]
pub enum Node {
    /// Nothing.
    Absent,
    /// At least one file lies beneath the path, or it is the root.
    Directory,
    /// A file.
    File(StoredFile),
}

/// What is at a path, a directory with all that is beneath it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "as of `Node`")]
pub enum Found {
    /// Nothing.
    Absent,
    /// The files strictly beneath the directory, at any depth.
    Directory(Vec<FileEntry>),
    /// A file.
    File(StoredFile),
}

/// A file as it was read: its bytes and the version to name when writing it back.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoredFile {
    /// The bytes, as they were written.
    pub content: Vec<u8>,
    /// The version that these bytes are.
    pub version: Version,
}

impl StoredFile {
    /// A file of `content` at `version`.
    pub fn new(content: Vec<u8>, version: Version) -> Self {
        Self { content, version }
    }
}

/// Tells one state of a file from another. Its bytes mean something to the store alone: callers compare and return them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version(Box<[u8]>);

impl Version {
    /// A version made of whatever the store tells states apart by: a counter, a digest, an entity tag.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes that the store made it of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One file of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileEntry {
    /// The file's path.
    pub path: MemoryPath,
    /// Its size in bytes.
    pub size: u64,
    /// Whether its content is known to be lost or altered. It cannot be read; it can be removed, renamed and written anew.
    pub is_damaged: bool,
}

impl FileEntry {
    /// An entry for the file at `path`.
    pub fn new(path: MemoryPath, size: u64) -> Self {
        Self { path, size, is_damaged: false }
    }

    /// An entry for a damaged file at `path`, of which the store has `size` bytes.
    pub fn damaged(path: MemoryPath, size: u64) -> Self {
        Self { path, size, is_damaged: true }
    }
}

/// What a precondition asks of a path. A store calls [`Batch::check_preconditions`] rather than matching on it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Expected {
    /// Neither a file nor a directory is there.
    Absent,
    /// A file is there, at this version.
    Version(Version),
    /// No more than this is at or beneath the path once the batch is applied (`[X4]`).
    Capacity(Capacity),
}

impl Expected {
    /// Checks the precondition on what was found at `path`.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] where the path was to be free, [`StoreError::VersionMismatch`] where the file is
    /// another or gone. For a capacity, which depends on the whole batch, [`StoreError::Failure`]: a store that asks no more than
    /// this must not apply the batch.
    pub fn check(&self, path: &MemoryPath, found: &Node) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, Node::Absent) => Ok(()),
            (Self::Absent, _) => Err(StoreError::AlreadyExists { path: path.clone() }),
            (Self::Version(version), Node::File(file)) if file.version == *version => Ok(()),
            (Self::Version(_), _) => Err(StoreError::VersionMismatch { path: path.clone() }),
            (Self::Capacity(_), _) => {
                Err(StoreError::failure(FailureKind::Other, "checking a capacity", CapacityNotJudged))
            }
        }
    }
}

/// The store does not limit what it holds.
#[derive(Debug, thiserror::Error)]
#[error("the store judges no capacity: it has to call `Batch::check_preconditions`")]
struct CapacityNotJudged;

/// One change of a [`Batch`].
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
    /// Remove the file, or the directory with all that is beneath it.
    Remove {
        /// What to remove; the root empties the store.
        path: MemoryPath,
    },
    /// Move the file or the whole directory to a free path.
    Rename {
        /// What to move; never the root.
        from: MemoryPath,
        /// Its new path; never the root, nor above or beneath `from`.
        to: MemoryPath,
    },
}

impl Change {
    /// Checks that the change can be made, as points 2 to 4 of [`Store::apply`] say, for a store that has no quicker way. The
    /// length of new paths is left to [`MemoryPath::rebase`], which makes them.
    ///
    /// # Behavior
    /// 1. `node` tells what is at a path, as [`Store::read`] does. It is asked about the changed paths, and about all above
    ///    those that the change makes.
    /// 2. The changes of a batch are disjoint, so it is all the same whether those before this one are made yet.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotADirectory`] and [`StoreError::AlreadyExists`]; those of `node`.
    ///
    /// ```
    /// use memory_tool_core::{Change, MemoryPath, Node, StoreError};
    ///
    /// let (from, to): (MemoryPath, MemoryPath) = ("/memories/a".parse()?, "/memories/b".parse()?);
    /// let change = Change::Rename { from: from.clone(), to };
    /// let in_empty_store = change.check(|path| Ok(if path.is_root() { Node::Directory } else { Node::Absent }));
    /// assert!(matches!(in_empty_store, Err(StoreError::NotFound { path }) if path == from));
    /// # Ok::<(), memory_tool_core::PathError>(())
    /// ```
    pub fn check(&self, mut node: impl FnMut(&MemoryPath) -> Result<Node, StoreError>) -> Result<(), StoreError> {
        match self {
            Self::Write { path, .. } => {
                refuse_file_above(path, &mut node)?;
                match node(path)? {
                    Node::Directory => Err(StoreError::AlreadyExists { path: path.clone() }),
                    Node::Absent | Node::File(_) => Ok(()),
                }
            }
            Self::Remove { path } => require_something(path, &mut node),
            Self::Rename { from, to } => {
                require_something(from, &mut node)?;
                refuse_file_above(to, &mut node)?;
                Expected::Absent.check(to, &node(to)?)
            }
        }
    }

    fn written_bytes(&self) -> u64 {
        match self {
            Self::Write { content, .. } => content.len() as u64,
            Self::Remove { .. } | Self::Rename { .. } => 0,
        }
    }
}

type Lookup<'a> = &'a mut dyn FnMut(&MemoryPath) -> Result<Node, StoreError>;

fn require_something(path: &MemoryPath, node: Lookup<'_>) -> Result<(), StoreError> {
    match node(path)? {
        Node::Absent => Err(StoreError::NotFound { path: path.clone() }),
        Node::Directory | Node::File(_) => Ok(()),
    }
}

fn refuse_file_above(path: &MemoryPath, node: Lookup<'_>) -> Result<(), StoreError> {
    for path in path.parents() {
        if let Node::File(_) = node(&path)? {
            return Err(StoreError::NotADirectory { path });
        }
    }
    Ok(())
}

/// Changes to be applied together or not at all, under preconditions.
///
/// The paths that a batch changes are disjoint: none equals, contains or lies beneath another. So the order of the
/// changes does not matter, and a store may check everything against the state before the batch.
///
/// ```
/// use memory_tool_core::{Batch, Expected, MemoryPath};
///
/// let path: MemoryPath = "/memories/a.txt".parse()?;
/// let batch = Batch::new().require(path.clone(), Expected::Absent).write(path, b"Hello".to_vec())?;
/// assert!(batch.remove("/memories/a.txt".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Batch {
    preconditions: Vec<(MemoryPath, Expected)>,
    changes: Vec<Change>,
    changed_paths: BTreeSet<MemoryPath>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition on a path, whether or not the batch changes that path.
    #[must_use]
    pub fn require(mut self, path: MemoryPath, expected: Expected) -> Self {
        self.preconditions.push((path, expected));
        self
    }

    /// Adds a [`Change::Write`].
    ///
    /// # Errors
    /// [`InvalidBatch`] where `path` is the root or overlaps another change.
    pub fn write(mut self, path: MemoryPath, content: Vec<u8>) -> Result<Self, InvalidBatch> {
        refuse_root(&path)?;
        self.claim(&path)?;
        self.changes.push(Change::Write { path, content });
        Ok(self)
    }

    /// Adds a [`Change::Remove`].
    ///
    /// # Errors
    /// [`InvalidBatch`] where `path` overlaps another change.
    pub fn remove(mut self, path: MemoryPath) -> Result<Self, InvalidBatch> {
        self.claim(&path)?;
        self.changes.push(Change::Remove { path });
        Ok(self)
    }

    /// Adds a [`Change::Rename`].
    ///
    /// # Errors
    /// [`InvalidBatch`] where one of the paths is the root, or overlaps the other or another change.
    pub fn rename(mut self, from: MemoryPath, to: MemoryPath) -> Result<Self, InvalidBatch> {
        for path in [&from, &to] {
            refuse_root(path)?;
            self.claim(path)?;
        }
        self.changes.push(Change::Rename { from, to });
        Ok(self)
    }

    /// The preconditions, in the order in which they were added.
    pub fn preconditions(&self) -> &[(MemoryPath, Expected)] {
        &self.preconditions
    }

    /// The changes, in the order in which they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes by value, for a store that keeps their contents.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// The preconditions and the changes by value, for a store over a store that makes another batch of them.
    pub fn into_parts(self) -> (Vec<(MemoryPath, Expected)>, Vec<Change>) {
        (self.preconditions, self.changes)
    }

    /// Checks the preconditions in their order, as point 1 of [`Store::apply`] says.
    ///
    /// # Behavior
    /// 1. `node` tells what is at a path before the batch, as [`Store::read`] does. The content of a file does not matter.
    /// 2. `usage` tells how much is at or beneath a path before the batch, whatever is there: collected from the entry of the file
    ///    that is there, or from those that [`Store::list`] gives. It is asked only where a [`Capacity`] is required, and about the
    ///    whole directory only where the batch adds to it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`], [`StoreError::VersionMismatch`] and [`StoreError::OverCapacity`]; those of `node` and `usage`.
    pub fn check_preconditions(
        &self,
        mut node: impl FnMut(&MemoryPath) -> Result<Node, StoreError>,
        mut usage: impl FnMut(&MemoryPath) -> Result<Usage, StoreError>,
    ) -> Result<(), StoreError> {
        for (path, expected) in &self.preconditions {
            match expected {
                Expected::Absent | Expected::Version(_) => expected.check(path, &node(path)?)?,
                Expected::Capacity(capacity) => {
                    let sized = self.changes.iter().map(|change| (change, change.written_bytes()));
                    capacity.check(path, sized, &mut usage)?;
                }
            }
        }
        Ok(())
    }

    /// The batch with other preconditions than it had, for a store over a store that requires something else or more.
    #[must_use]
    pub fn with_preconditions(mut self, preconditions: Vec<(MemoryPath, Expected)>) -> Self {
        self.preconditions = preconditions;
        self
    }

    /// Notes that the batch changes `path`, unless it already changes something that overlaps it.
    fn claim(&mut self, path: &MemoryPath) -> Result<(), InvalidBatch> {
        // The claimed paths are disjoint and a directory sorts right before its contents, so an overlap is a neighbour.
        let before = self.changed_paths.range(..path).next_back();
        let after = self.changed_paths.range(path..).next();
        if let Some(other) = before.into_iter().chain(after).find(|other| other.overlaps(path)) {
            return Err(InvalidBatch::Overlap { path: path.clone(), other: other.clone() });
        }
        self.changed_paths.insert(path.clone());
        Ok(())
    }
}

fn refuse_root(path: &MemoryPath) -> Result<(), InvalidBatch> {
    if path.is_root() { Err(InvalidBatch::Root) } else { Ok(()) }
}

/// A mistake of the program that put a [`Batch`] together.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBatch {
    /// The root can be neither written nor renamed.
    #[error("a batch can neither write nor rename /memories itself")]
    Root,
    /// Two changes of one batch touch overlapping paths.
    #[error("a batch changes both {other} and {path}, which overlap")]
    Overlap {
        /// The path that was refused.
        path: MemoryPath,
        /// The path that the batch changes already.
        other: MemoryPath,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    #[test]
    fn a_batch_refuses_changes_that_overlap() {
        let batch = Batch::new().remove(path("/memories/a/b")).unwrap();
        let batch = batch.write(path("/memories/a-b"), Vec::new()).unwrap();
        let batch = batch.rename(path("/memories/c"), path("/memories/a/c")).unwrap();
        for overlapping in ["/memories/a/b", "/memories/a/b/x", "/memories/a", "/memories", "/memories/a/c/d"] {
            let refused = batch.clone().remove(path(overlapping));
            assert!(matches!(refused, Err(InvalidBatch::Overlap { .. })), "{overlapping}");
        }
        assert!(batch.remove(path("/memories/a/bc")).is_ok());
    }

    #[test]
    fn a_batch_refuses_a_rename_into_itself_and_changes_of_the_root() {
        let into_itself = Batch::new().rename(path("/memories/a"), path("/memories/a/b"));
        assert!(matches!(into_itself, Err(InvalidBatch::Overlap { .. })));
        assert_eq!(Batch::new().write(MemoryPath::root(), Vec::new()).unwrap_err(), InvalidBatch::Root);
        assert_eq!(Batch::new().rename(path("/memories/a"), MemoryPath::root()).unwrap_err(), InvalidBatch::Root);
        assert!(Batch::new().remove(MemoryPath::root()).is_ok());
    }
}
