//! Results of reading a store: [`Node`], [`Stat`], [`StoredFile`], [`Version`], [`Listing`] and [`FileEntry`].

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::store::path_rules::PathError;
use crate::store::quote::quote;
use crate::store::store_path::StorePath;

/// The file or directory at a path.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a path is a file, a directory or absent")]
pub enum Node {
    /// The path does not exist.
    Absent,
    /// A directory. Only the root can be empty (`[P5]`).
    Directory(Listing),
    /// A file.
    File(StoredFile),
}

impl Node {
    /// Returns the file, or `None` if this is not a file.
    pub fn into_file(self) -> Option<StoredFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Absent | Self::Directory(_) => None,
        }
    }

    /// Returns the contents of the directory. The listing is empty if this is not a directory.
    pub fn into_listing(self) -> Listing {
        match self {
            Self::Directory(listing) => listing,
            Self::Absent | Self::File(_) => Listing::default(),
        }
    }

    /// The same node without its contents.
    pub fn stat(&self) -> Stat {
        match self {
            Self::Absent => Stat::Absent,
            Self::Directory(_) => Stat::Directory,
            Self::File(file) => Stat::File(file.version.clone()),
        }
    }
}

/// A [`Node`] without its contents, for checking [preconditions](crate::Precondition).
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the same variants as `Node`")]
pub enum Stat {
    /// The path does not exist.
    Absent,
    /// A directory.
    Directory,
    /// A file with this version.
    File(Version),
}

impl Stat {
    /// The same without the version.
    pub fn kind(&self) -> NodeKind {
        match self {
            Self::Absent => NodeKind::Absent,
            Self::Directory => NodeKind::Directory,
            Self::File(_) => NodeKind::File,
        }
    }
}

/// The kind of a [`Node`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the same variants as `Node`")]
pub enum NodeKind {
    /// The path does not exist.
    Absent,
    /// A directory.
    Directory,
    /// A file.
    File,
}

/// The contents and the version of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoredFile {
    /// The contents.
    pub content: Vec<u8>,
    /// The version of these contents, for a [`Precondition`](crate::Precondition).
    pub version: Version,
}

impl StoredFile {
    /// Creates a file from its contents and version.
    pub fn new(content: Vec<u8>, version: Version) -> Self {
        Self { content, version }
    }
}

/// Identifies one state of a file. The bytes are opaque to callers, who compare versions and pass them back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version(Box<[u8]>);

impl Version {
    /// Creates a version from bytes that the store chooses, such as a counter, a digest or an entity tag.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the version.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The contents of a directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// Every file under the directory, at any depth, in any order.
    pub files: Vec<FileEntry>,
    /// The items under the directory that another program created and that cannot be listed, in any order (`[V1]`).
    pub unlisted: Vec<UnlistedItem>,
}

impl Listing {
    /// Sets `unlisted`.
    #[must_use]
    pub fn with_unlisted(mut self, unlisted: Vec<UnlistedItem>) -> Self {
        self.unlisted = unlisted;
        self
    }
}

impl From<Vec<FileEntry>> for Listing {
    fn from(files: Vec<FileEntry>) -> Self {
        Self { files, unlisted: Vec::new() }
    }
}

impl FromIterator<FileEntry> for Listing {
    fn from_iter<I: IntoIterator<Item = FileEntry>>(files: I) -> Self {
        Vec::from_iter(files).into()
    }
}

/// An item that another program created and that cannot be listed.
///
/// `Display` returns a line for the operator, with unprintable characters escaped.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct UnlistedItem {
    /// The directory that contains the item.
    pub directory: StorePath,
    /// The name in the storage. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The reason.
    pub reason: UnlistedReason,
}

impl UnlistedItem {
    /// Creates an item.
    pub fn new(directory: StorePath, name: impl Into<String>, reason: UnlistedReason) -> Self {
        Self { directory, name: name.into(), reason }
    }

    /// The item for a path in a database that no store writes: its first illegal name, in the directory above it.
    pub fn of_illegal_path(path: &str) -> Self {
        let mut directory = if path.starts_with("/records") { StorePath::records() } else { StorePath::memories() };
        for name in path.split('/').skip(2) {
            match directory.join(name) {
                Ok(path) => directory = path,
                Err(_) => return Self::new(directory, name, UnlistedReason::IllegalName),
            }
        }
        let name = directory.file_name().unwrap_or_default().to_owned();
        Self::new(directory.parent().unwrap_or(directory), name, UnlistedReason::IllegalName) // not UTF-8
    }

    /// The directory and the name, with unprintable characters escaped.
    pub fn location(&self) -> String {
        format!("{}/{}", self.directory, quote(&self.name))
    }

    /// The reason in words.
    pub fn explanation(&self) -> &'static str {
        match (self.reason, self.directory.join(&self.name)) {
            (UnlistedReason::Unreadable, _) => "it cannot be read",
            (UnlistedReason::IllegalName, Err(PathError::NotNormalized { .. })) => {
                "its name is not in Unicode Normalization Form C (NFC)"
            }
            (UnlistedReason::IllegalName, Err(_)) => "its name is not legal in a path of the memory",
            (UnlistedReason::IllegalName, Ok(_)) => "its name is not UTF-8",
        }
    }
}

impl fmt::Display for UnlistedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be listed: {}", self.location(), self.explanation())
    }
}

/// The reason why an item cannot be listed (`[V1]`).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum UnlistedReason {
    /// The storage refused to read it.
    Unreadable,
    /// A [`StorePath`] cannot contain its name, for example because the name is not in Unicode normalization form C.
    IllegalName,
}

/// The times that a written file gets instead of the present time, for copies. A store ignores a time that it cannot
/// keep.
///
/// ```
/// use std::time::SystemTime;
///
/// use memory_tool_core::FileTimes;
///
/// let times = FileTimes::new().modified(SystemTime::UNIX_EPOCH);
/// assert_eq!((times.created, times.modified), (None, Some(SystemTime::UNIX_EPOCH)));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileTimes {
    /// The time of creation. By default, the file keeps its own, or a new file is created now.
    pub created: Option<SystemTime>,
    /// The time of the last write. The default is now.
    pub modified: Option<SystemTime>,
}

impl FileTimes {
    /// The times of an ordinary write.
    pub fn new() -> Self {
        Self::default()
    }

    /// The times of creation and of the last write in milliseconds since 1970, for a database.
    pub fn to_millis(self) -> (Option<i64>, i64) {
        let millis = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        };
        (self.created.map(millis), millis(self.modified.unwrap_or_else(SystemTime::now)))
    }

    /// The time in a database. `None` if another program wrote one that is out of range.
    pub fn of_millis(millis: i64) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_millis(millis.try_into().ok()?))
    }

    /// Sets `created`.
    #[must_use]
    pub fn created(mut self, created: impl Into<Option<SystemTime>>) -> Self {
        self.created = created.into();
        self
    }

    /// Sets `modified`.
    #[must_use]
    pub fn modified(mut self, modified: impl Into<Option<SystemTime>>) -> Self {
        self.modified = modified.into();
        self
    }
}

/// A file in a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileEntry {
    /// The path.
    pub path: StorePath,
    /// The size in bytes.
    pub size: u64,
    /// The time of creation, if known. Writing or renaming the file does not change it.
    pub created: Option<SystemTime>,
    /// The time of the last write, if known.
    pub modified: Option<SystemTime>,
    /// Whether the contents are known to be damaged. A damaged file cannot be read, but can be removed, renamed and
    /// replaced.
    pub is_damaged: bool,
}

impl FileEntry {
    /// Creates an entry without times.
    pub fn new(path: StorePath, size: u64) -> Self {
        Self { path, size, created: None, modified: None, is_damaged: false }
    }

    /// Creates an entry for a damaged file that occupies `size` bytes.
    pub fn damaged(path: StorePath, size: u64) -> Self {
        Self { is_damaged: true, ..Self::new(path, size) }
    }

    /// The times, to write a copy of the file with them.
    pub fn times(&self) -> FileTimes {
        FileTimes { created: self.created, modified: self.modified }
    }

    /// Sets `created`.
    #[must_use]
    pub fn with_created(mut self, created: impl Into<Option<SystemTime>>) -> Self {
        self.created = created.into();
        self
    }

    /// Sets `modified`.
    #[must_use]
    pub fn with_modified(mut self, modified: impl Into<Option<SystemTime>>) -> Self {
        self.modified = modified.into();
        self
    }
}
