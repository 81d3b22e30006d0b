//! The files and records as the contract defines them. Directories are implicit, and entries of other programs
//! that are not files with legal names are invisible.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use cap_std::fs::Dir;
use memory_tool_core::{
    FileEntry, Listing, Node, NodeKind, Stat, StoreError, StorePath, StoreState, StoredFile, Usage, Version,
};
use sha2::{Digest, Sha256};

use crate::directories;
use crate::disk::{self, Content, EntryKind, FileAccess, FileStamp};
use crate::failure::failed;
use crate::name::{Name, is_remnant};
use crate::version_cache::VersionCache;
use crate::walk::Walk;

/// The directories of the files and of the records. If one is missing, it is empty.
///
/// The last lookups are remembered until [`forget`](Self::forget), so that the steps of a batch do not repeat them.
pub(crate) struct Tree<'a> {
    base: Arc<Dir>,
    versions: &'a VersionCache,
    ignores_case: bool,
    max_file_bytes: u64,
    last_directory: RefCell<Option<(StorePath, Arc<Dir>)>>,
    /// Files and absent paths, never a directory.
    last_entries: Memo<Location>,
    last_versions: Memo<Version>,
}

/// The result of looking up a path.
#[derive(Clone)]
pub(crate) enum Location {
    /// Nothing, or a directory without files that another program created.
    Absent,
    /// A directory with a file, or an item that cannot be listed, at any depth.
    Directory,
    /// A file in the open directory `parent`.
    File { parent: Arc<Dir>, stamp: FileStamp },
}

/// The last values that were looked up. Two are kept, because a rename has two paths.
struct Memo<T>(RefCell<[Option<(StorePath, T)>; 2]>);

/// How much of a directory path exists.
pub(crate) enum Resolution {
    /// All of it. The last directory is open.
    Complete(Arc<Dir>),
    /// The part down to the open directory `deepest`. The directories `missing` do not exist.
    Missing { deepest: Arc<Dir>, missing: Vec<StorePath> },
    /// A file is where a directory would have to be.
    File { path: StorePath },
}

impl<'a> Tree<'a> {
    pub(crate) fn new(base: Arc<Dir>, versions: &'a VersionCache, ignores_case: bool, max_file_bytes: u64) -> Self {
        let last_directory = RefCell::default();
        let (last_entries, last_versions) = (Memo::default(), Memo::default());
        Self { base, versions, ignores_case, max_file_bytes, last_directory, last_entries, last_versions }
    }

    /// Forgets the last lookups, because they may be outdated.
    pub(crate) fn forget(&self) {
        self.last_directory.take();
        self.forget_entries();
    }

    /// Forgets what was found in directories, but not the directory that was looked up last.
    pub(crate) fn forget_entries(&self) {
        self.last_entries.clear();
        self.last_versions.clear();
    }

    /// Assumes until [`forget_entries`](Self::forget_entries) that a file still has its last known version, if it is
    /// this one. Saves a look at a file that [`is_at_version`](Self::is_at_version) looks at again before it is
    /// changed.
    pub(crate) fn presume(&self, path: &StorePath, version: &Version) {
        if let Some(stamp) = self.versions.stamp(path, version)
            && let Some(parent) = path.parent()
            && let Ok(Some(parent)) = self.open_directory(&parent)
        {
            self.last_entries.put(path, Location::File { parent, stamp });
            self.last_versions.put(path, version.clone());
        }
    }

    /// Notes that the version of a file is no longer known, because it is changed.
    pub(crate) fn forget_version(&self, path: &StorePath) {
        self.versions.forget(path);
    }

    /// Reads a path. The version of a file is the digest of its contents, so changes by other programs are detected
    /// even if the times are unchanged.
    pub(crate) fn read(&self, path: &StorePath) -> Result<Node, StoreError> {
        Ok(match self.look(path)? {
            Location::Absent => Node::Absent,
            Location::Directory => {
                let mut walk = self.files_under(path);
                let files = walk.by_ref().collect::<Result<Listing, _>>()?;
                let listing = files.with_unlisted(walk.into_unlisted());
                let is_absent = listing.files.is_empty() && listing.unlisted.is_empty() && !path.is_root();
                if is_absent { Node::Absent } else { Node::Directory(listing) }
            }
            Location::File { parent, .. } => match self.content(&parent, path)? {
                Some((Content::Whole(content), version)) => Node::File(StoredFile::new(content, version)),
                Some((Content::TooLarge { size }, _)) => {
                    return Err(StoreError::too_large_to_read(path, size, self.max_file_bytes));
                }
                None => Node::Absent,
            },
        })
    }

    /// Returns what is at `path`, without its contents. Files that are too large to read have a version that no read
    /// returns.
    pub(crate) fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        if let Some(version) = self.last_versions.get(path) {
            return Ok(Stat::File(version));
        }
        let (parent, stamp) = match self.find(path)? {
            Location::Absent => return Ok(Stat::Absent),
            Location::Directory => return Ok(Stat::Directory),
            Location::File { parent, stamp } => (parent, stamp),
        };
        let version = match self.versions.get(path, &stamp) {
            Some(version) => version,
            None => match self.version(&parent, path)? {
                Some(version) => version,
                None => return Ok(Stat::Absent),
            },
        };
        self.last_versions.put(path, version.clone());
        Ok(Stat::File(version))
    }

    /// Whether the file has the version now, and the access rights if they are known. Reading takes time, so the stamp
    /// is compared before and after it.
    pub(crate) fn is_at_version(
        &self,
        path: &StorePath,
        version: &[u8],
        access: Option<FileAccess>,
    ) -> Result<bool, StoreError> {
        self.forget_entries();
        let Location::File { parent, stamp } = self.look(path)? else { return Ok(false) };
        if access.is_some_and(|access| access != stamp.access) {
            return Ok(false);
        }
        if let Some(found) = self.versions.get(path, &stamp) {
            return Ok(found.as_bytes() == version);
        }
        let Some(found) = self.version(&parent, path)? else { return Ok(false) };
        let now = disk::file_stamp(&parent, Name::of(path)?);
        let now = now.map_err(|error| failed("reading file metadata", error))?;
        Ok(found.as_bytes() == version && now == Some(stamp))
    }

    /// Reads the file in the open directory `parent`; `None` if another program removed it.
    fn content(&self, parent: &Dir, path: &StorePath) -> Result<Option<(Content, Version)>, StoreError> {
        let now = SystemTime::now();
        let (content, stamp) = match disk::read_stamped_file(parent, Name::of(path)?, self.max_file_bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| failed("reading a file", error))?,
        };
        let version = match &content {
            Content::Whole(content) => version_of(content),
            Content::TooLarge { .. } => Version::new(stamp.to_bytes()),
        };
        self.versions.note(path, stamp, now, version.clone());
        Ok(Some((content, version)))
    }

    /// The version of the file in the open directory `parent`; `None` if another program removed it.
    fn version(&self, parent: &Dir, path: &StorePath) -> Result<Option<Version>, StoreError> {
        let now = SystemTime::now();
        let mut digest = Sha256::new();
        let found = disk::read_parts(parent, Name::of(path)?, self.max_file_bytes, |part| digest.update(part));
        let (is_whole, stamp) = match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| failed("reading a file", error))?,
        };
        let version = if is_whole { digest.finalize().to_vec() } else { stamp.to_bytes() };
        self.versions.note(path, stamp, now, Version::new(version.clone()));
        Ok(Some(Version::new(version)))
    }

    /// Finds what is at `path`.
    pub(crate) fn find(&self, path: &StorePath) -> Result<Location, StoreError> {
        match self.look(path)? {
            Location::Directory if !path.is_root() && !self.files_under(path).finds_anything()? => Ok(Location::Absent),
            found => Ok(found),
        }
    }

    /// Finds what is at `path`, including directories without files.
    fn look(&self, path: &StorePath) -> Result<Location, StoreError> {
        let Some(parent) = path.parent() else { return Ok(Location::Directory) };
        if let Some(found) = self.last_entries.get(path) {
            return Ok(found);
        }
        let Some(parent) = self.open_directory(&parent)? else { return Ok(Location::Absent) };
        let found = match self.look_up(&parent, path)? {
            PathEntry::File(stamp) => Location::File { parent, stamp },
            PathEntry::Directory(_) => return Ok(Location::Directory),
            PathEntry::Absent => Location::Absent,
        };
        self.last_entries.put(path, found.clone());
        Ok(found)
    }

    /// Whether a file or directory can be created at `path`, where [`find`](Self::find) finds nothing. Empty
    /// directories are no obstacle; invisible entries may be.
    pub(crate) fn is_free(&self, path: &StorePath) -> Result<bool, StoreError> {
        const OPERATION: &str = "checking whether a path is free";
        // If the file system ignores case, another spelling may exist.
        if !self.ignores_case && matches!(self.last_entries.get(path), Some(Location::Absent)) {
            return Ok(true);
        }
        let Some(parent) = path.parent() else { return Ok(false) };
        let Some(parent) = self.open_directory(&parent)? else { return Ok(true) };
        match disk::entry_kind(&parent, Name::of(path)?).map_err(|error| failed(OPERATION, error))? {
            EntryKind::Absent => Ok(true),
            EntryKind::Directory(directory) => {
                disk::contains_only_directories(&directory).map_err(|error| failed(OPERATION, error))
            }
            EntryKind::File(_) | EntryKind::Link | EntryKind::Special => Ok(false),
        }
    }

    /// Opens the directory at `path`, with or without files; `None` if it does not exist.
    pub(crate) fn open_directory(&self, path: &StorePath) -> Result<Option<Arc<Dir>>, StoreError> {
        match self.resolve(path)? {
            Some(Resolution::Complete(directory)) => Ok(Some(directory)),
            _ => Ok(None),
        }
    }

    /// Opens the directory at `path`, or the part of it that exists; `None` if its root is missing.
    pub(crate) fn resolve(&self, path: &StorePath) -> Result<Option<Resolution>, StoreError> {
        if let Some((_, directory)) = self.last_directory.borrow().as_ref().filter(|(last, _)| last == path) {
            return Ok(Some(Resolution::Complete(Arc::clone(directory))));
        }
        let resolved = match self.open_in_one_step(path) {
            Some(directory) => Some(Resolution::Complete(Arc::new(directory))),
            None => self.open_by_name(path)?,
        };
        if let Some(Resolution::Complete(directory)) = &resolved {
            self.last_directory.replace(Some((path.clone(), Arc::clone(directory))));
        }
        Ok(resolved)
    }

    /// Opens a directory in one step where the system can do so without following links.
    fn open_in_one_step(&self, path: &StorePath) -> Option<Dir> {
        if self.ignores_case { None } else { disk::open_beneath(&self.base, &directories::relative_path(path)) }
    }

    /// Opens the directories of `path` one after another.
    fn open_by_name(&self, path: &StorePath) -> Result<Option<Resolution>, StoreError> {
        let root = directories::root_of(&self.base, path).map_err(|error| failed("opening a directory", error))?;
        let Some(root) = root else { return Ok(None) };
        let mut deepest = root;
        let mut remaining: Vec<_> = std::iter::successors(Some(path.clone()), StorePath::parent).collect();
        remaining.pop(); // the root
        while let Some(next) = remaining.pop() {
            match self.look_up(&deepest, &next)? {
                PathEntry::Directory(directory) => deepest = directory,
                PathEntry::File(_) => return Ok(Some(Resolution::File { path: next })),
                PathEntry::Absent => {
                    let missing = std::iter::once(next).chain(remaining.into_iter().rev()).collect();
                    return Ok(Some(Resolution::Missing { deepest: Arc::new(deepest), missing }));
                }
            }
        }
        Ok(Some(Resolution::Complete(Arc::new(deepest))))
    }

    /// Iterates over the files strictly under `directory`, with their sizes and modification times.
    pub(crate) fn files_under(&self, directory: &StorePath) -> Walk<'_> {
        Walk::new(Box::new(|path| self.open_directory(path)), directory.clone())
    }

    /// The files under a directory that is moved one file at a time. Refused if it contains links or other items, which
    /// would stay behind.
    pub(crate) fn files_to_move(&self, directory: &StorePath) -> Result<Vec<StorePath>, StoreError> {
        let mut walk = self.files_under(directory);
        let files = walk.by_ref().map(|file| file.map(|file| file.path)).collect::<Result<Vec<_>, _>>()?;
        let has_special = || match self.open_directory(directory)? {
            Some(opened) => disk::contains_special(&opened).map_err(|error| failed("listing a directory", error)),
            None => Ok(false),
        };
        if walk.into_unlisted().is_empty() && !has_special()? {
            return Ok(files);
        }
        let reason = format!(
            "The directory {directory} cannot be moved or deleted as a whole here, because it contains items that are \
             not files. Move or delete its files one by one."
        );
        Err(StoreError::refused(directory, "file-system", reason))
    }

    /// The usage at and under `path`.
    pub(crate) fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        match self.find(path)? {
            Location::Absent => Ok(Usage::default()),
            Location::Directory => self.files_under(path).collect(),
            Location::File { stamp, .. } => Ok(std::iter::once(FileEntry::new(path.clone(), stamp.size)).collect()),
        }
    }

    /// Looks up the last segment of `path` in its directory. Anything but a file or directory is an error (`[P4]`).
    fn look_up(&self, directory: &Dir, path: &StorePath) -> Result<PathEntry, StoreError> {
        const OPERATION: &str = "looking up a path";
        let name = Name::of(path)?;
        let found = match disk::entry_kind(directory, name).map_err(|error| failed(OPERATION, error))? {
            EntryKind::Absent => return Ok(PathEntry::Absent),
            EntryKind::Directory(directory) => PathEntry::Directory(directory),
            EntryKind::File(_) if is_remnant(name.as_os_str()) => return Ok(PathEntry::Absent),
            EntryKind::File(stamp) => PathEntry::File(stamp),
            EntryKind::Link => return Err(StoreError::SymbolicLink { path: path.clone() }),
            EntryKind::Special => return Err(StoreError::NotARegularFile { path: path.clone() }),
        };
        // Case matters (`[P1]`): a different spelling is a different file, although the two cannot coexist here.
        let is_other = self.ignores_case && !disk::lists(directory, name).map_err(|error| failed(OPERATION, error))?;
        Ok(if is_other { PathEntry::Absent } else { found })
    }
}

impl StoreState for Tree<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        self.stat(path)
    }

    /// Reads no file.
    fn kind(&self, path: &StorePath) -> Result<NodeKind, StoreError> {
        Ok(match self.find(path)? {
            Location::Absent => NodeKind::Absent,
            Location::Directory => NodeKind::Directory,
            Location::File { .. } => NodeKind::File,
        })
    }

    /// Opens the directories without looking into them.
    fn file_above(&self, path: &StorePath) -> Result<Option<StorePath>, StoreError> {
        let Some(parent) = path.parent() else { return Ok(None) };
        match self.resolve(&parent)? {
            Some(Resolution::File { path }) => Ok(Some(path)),
            _ => Ok(None),
        }
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        self.usage(path)
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Clone> Memo<T> {
    fn get(&self, path: &StorePath) -> Option<T> {
        let kept = self.0.borrow();
        kept.iter().flatten().find(|(known, _)| known == path).map(|(_, value)| value.clone())
    }

    /// Remembers a value instead of the older one.
    fn put(&self, path: &StorePath, value: T) {
        let mut kept = self.0.borrow_mut();
        kept.swap(0, 1);
        kept[0] = Some((path.clone(), value));
    }

    fn clear(&self) {
        self.0.take();
    }
}

/// The version of a file with these contents.
pub(crate) fn version_of(content: &[u8]) -> Version {
    Version::new(Sha256::digest(content).to_vec())
}

/// An entry with a legal name in a directory.
enum PathEntry {
    Absent,
    Directory(Dir),
    File(FileStamp),
}
