//! The files under `memories/` as the contract defines them. Directories are implicit, and entries of other programs
//! that are not files with legal names are invisible.

use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{FileEntry, MemoryPath, Node, Stat, StoreError, StoredFile, Usage, Version};
use sha2::{Digest, Sha256};

use crate::disk::{self, Content, EntryKind};
use crate::failure::failed;
use crate::name::Name;
use crate::walk::Walk;

/// The directory `memories/`. `None` if it is missing, which is the same as empty.
pub(crate) struct Tree {
    root: Option<Dir>,
    ignores_case: bool,
    max_file_bytes: u64,
}

/// The result of looking up a path.
pub(crate) enum Location {
    /// Nothing, or a directory without files that another program created.
    Absent,
    /// A directory with a file at any depth.
    Directory,
    /// A file in the open directory `parent`.
    File { parent: Dir },
}

/// How much of a directory path exists.
pub(crate) enum Resolution {
    /// All of it. The last directory is open.
    Complete(Dir),
    /// The part down to the open directory `deepest`. The directories `missing` do not exist.
    Missing { deepest: Dir, missing: Vec<MemoryPath> },
    /// A file is where a directory would have to be.
    File { path: MemoryPath },
}

impl Tree {
    pub(crate) fn new(root: Option<Dir>, ignores_case: bool, max_file_bytes: u64) -> Self {
        Self { root, ignores_case, max_file_bytes }
    }

    /// Reads a path. The version of a file is the digest of its contents, so changes by other programs are detected
    /// even if the times are unchanged.
    pub(crate) fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        Ok(match self.look(path)? {
            Location::Absent => Node::Absent,
            Location::Directory => {
                let entries = self.files_under(path).collect::<Result<Vec<_>, _>>()?;
                if entries.is_empty() && !path.is_root() { Node::Absent } else { Node::Directory(entries) }
            }
            Location::File { parent } => match self.content(&parent, path)? {
                Some(Content::Whole(content)) => {
                    let version = version_of(&content);
                    Node::File(StoredFile::new(content, version))
                }
                Some(Content::TooLarge { size }) => {
                    return Err(StoreError::too_large_to_read(path, size, self.max_file_bytes));
                }
                None => Node::Absent,
            },
        })
    }

    /// Returns what is at `path`, without its contents. Files that are too large to read have a version that no read
    /// returns.
    pub(crate) fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        Ok(match self.find(path)? {
            Location::Absent => Stat::Absent,
            Location::Directory => Stat::Directory,
            Location::File { parent } => match self.content(&parent, path)? {
                Some(Content::Whole(content)) => Stat::File(version_of(&content)),
                Some(Content::TooLarge { .. }) => {
                    let found = disk::file_stamp(&parent, Name::of(path)?);
                    let found = found.map_err(|error| failed("reading file metadata", error))?;
                    found.map_or(Stat::Absent, |stamp| Stat::File(Version::new(stamp.to_bytes())))
                }
                None => Stat::Absent,
            },
        })
    }

    /// Reads the file in the open directory `parent`; `None` if another program removed it.
    fn content(&self, parent: &Dir, path: &MemoryPath) -> Result<Option<Content>, StoreError> {
        match disk::read_file(parent, Name::of(path)?, self.max_file_bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| failed("reading a file", error)),
        }
    }

    /// Finds what is at `path`.
    pub(crate) fn find(&self, path: &MemoryPath) -> Result<Location, StoreError> {
        match self.look(path)? {
            Location::Directory if !path.is_root() && !self.contains_file(path)? => Ok(Location::Absent),
            found => Ok(found),
        }
    }

    /// Finds what is at `path`, including directories without files.
    fn look(&self, path: &MemoryPath) -> Result<Location, StoreError> {
        let Some(parent) = path.parent() else { return Ok(Location::Directory) };
        let Some(parent) = self.open_directory(&parent)? else { return Ok(Location::Absent) };
        match self.look_up(&parent, path)? {
            PathEntry::File => Ok(Location::File { parent }),
            PathEntry::Directory(_) => Ok(Location::Directory),
            PathEntry::Absent => Ok(Location::Absent),
        }
    }

    /// Whether a file or directory can be created at `path`, where [`find`](Self::find) finds nothing. Empty
    /// directories are no obstacle; invisible entries may be.
    pub(crate) fn is_free(&self, path: &MemoryPath) -> Result<bool, StoreError> {
        const OPERATION: &str = "checking whether a path is free";
        let Some(parent) = path.parent() else { return Ok(false) };
        let Some(parent) = self.open_directory(&parent)? else { return Ok(true) };
        match disk::entry_kind(&parent, Name::of(path)?).map_err(|error| failed(OPERATION, error))? {
            EntryKind::Absent => Ok(true),
            EntryKind::Directory(directory) => {
                disk::contains_only_directories(&directory).map_err(|error| failed(OPERATION, error))
            }
            EntryKind::File | EntryKind::Link | EntryKind::Special => Ok(false),
        }
    }

    /// Opens the directory at `path`, with or without files; `None` if it does not exist.
    pub(crate) fn open_directory(&self, path: &MemoryPath) -> Result<Option<Dir>, StoreError> {
        match self.resolve(path)? {
            Some(Resolution::Complete(directory)) => Ok(Some(directory)),
            _ => Ok(None),
        }
    }

    /// Opens the directories of `path` one after another; `None` if `memories/` is missing.
    pub(crate) fn resolve(&self, path: &MemoryPath) -> Result<Option<Resolution>, StoreError> {
        let Some(root) = &self.root else { return Ok(None) };
        let mut deepest = root.try_clone().map_err(|error| failed("opening a directory", error))?;
        let mut remaining: Vec<_> = std::iter::successors(Some(path.clone()), MemoryPath::parent).collect();
        remaining.pop(); // the root
        while let Some(next) = remaining.pop() {
            match self.look_up(&deepest, &next)? {
                PathEntry::Directory(directory) => deepest = directory,
                PathEntry::File => return Ok(Some(Resolution::File { path: next })),
                PathEntry::Absent => {
                    let missing = std::iter::once(next).chain(remaining.into_iter().rev()).collect();
                    return Ok(Some(Resolution::Missing { deepest, missing }));
                }
            }
        }
        Ok(Some(Resolution::Complete(deepest)))
    }

    /// Iterates over the files strictly under `directory`, with their sizes and modification times.
    pub(crate) fn files_under(&self, directory: &MemoryPath) -> Walk<'_> {
        Walk::new(self, directory.clone())
    }

    /// The usage at and under `path`.
    pub(crate) fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        match self.find(path)? {
            Location::Absent => Ok(Usage::default()),
            Location::Directory => self.files_under(path).collect(),
            Location::File { parent } => {
                let found = disk::metadata(&parent, Name::of(path)?);
                let found = found.map_err(|error| failed("reading file metadata", error))?;
                Ok(found.into_iter().map(|metadata| FileEntry::new(path.clone(), metadata.len())).collect())
            }
        }
    }

    /// Looks up the last segment of `path` in its directory. Anything but a file or directory is an error (`[P4]`).
    fn look_up(&self, directory: &Dir, path: &MemoryPath) -> Result<PathEntry, StoreError> {
        const OPERATION: &str = "looking up a path";
        let name = Name::of(path)?;
        let found = match disk::entry_kind(directory, name).map_err(|error| failed(OPERATION, error))? {
            EntryKind::Absent => return Ok(PathEntry::Absent),
            EntryKind::Directory(directory) => PathEntry::Directory(directory),
            EntryKind::File => PathEntry::File,
            EntryKind::Link => return Err(StoreError::SymbolicLink { path: path.clone() }),
            EntryKind::Special => return Err(StoreError::NotARegularFile { path: path.clone() }),
        };
        // Case matters (`[P1]`): a different spelling is a different file, although the two cannot coexist here.
        let is_other = self.ignores_case && !disk::lists(directory, name).map_err(|error| failed(OPERATION, error))?;
        Ok(if is_other { PathEntry::Absent } else { found })
    }

    fn contains_file(&self, directory: &MemoryPath) -> Result<bool, StoreError> {
        self.files_under(directory).next().transpose().map(|file| file.is_some())
    }
}

/// The version of a file or record with these contents.
pub(crate) fn version_of(content: &[u8]) -> Version {
    Version::new(Sha256::digest(content).to_vec())
}

/// An entry with a legal name in a directory.
enum PathEntry {
    Absent,
    Directory(Dir),
    File,
}
