//! [`Listing`]: the files and directories in one directory. Links and special files are skipped (`[P4]`).

use std::ffi::OsStr;

use memory_tool_core::{FileEntry, StorePath, UnlistedItem, UnlistedReason};

#[cfg(target_os = "linux")]
pub(crate) use linux::{Handle, Listing};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Handle, Listing};

/// A file or directory.
pub(crate) enum Entry {
    Directory(StorePath),
    File(FileEntry),
    /// A file or directory that cannot be listed (`[V1]`).
    Unlisted(UnlistedItem),
}

/// The path of an entry, or the entry itself if no path can contain its name.
fn path_of(directory: &StorePath, name: &OsStr) -> Result<StorePath, Entry> {
    let path = name.to_str().and_then(|name| directory.join(name).ok());
    path.ok_or_else(|| unlisted(directory, name, UnlistedReason::IllegalName))
}

fn unlisted(directory: &StorePath, name: &OsStr, reason: UnlistedReason) -> Entry {
    Entry::Unlisted(UnlistedItem::new(directory.clone(), name.to_string_lossy(), reason))
}

/// Reads many names with one system call, and asks only for the metadata that a listing contains.
#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::io;
    use std::ops::Range;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use cap_std::fs::Dir;
    use memory_tool_core::{FileEntry, StorePath, UnlistedReason};
    use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, StatxTimestamp, openat, statx};
    use rustix::io::Errno;

    use super::{Entry, path_of, unlisted};
    use crate::name::{Name, is_remnant};

    pub(crate) type Handle = OwnedFd;

    /// The number of bytes that one system call reads: about 1,000 short names, or 100 of the longest.
    const BUFFER_BYTES: usize = 32 * 1024;

    pub(crate) struct Listing {
        directory: Arc<OwnedFd>,
        path: StorePath,
        buffer: Vec<u8>,
        /// The entries that were read and not yet returned: their types, and the positions of their names in `names`.
        found: Vec<(FileType, Range<usize>)>,
        names: Vec<u8>,
    }

    impl Listing {
        /// Lists an open directory; `None` if another program removed it.
        pub(crate) fn of(directory: &Arc<Dir>, path: StorePath) -> io::Result<Option<Self>> {
            match openat(&**directory, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
                Err(Errno::NOENT) => Ok(None),
                opened => Ok(Some(Self::new(opened?, path))),
            }
        }

        /// Lists the directory `name`; `None` if another program removed or replaced it.
        pub(crate) fn open(parent: &Handle, name: Name<'_>, path: StorePath) -> io::Result<Option<Self>> {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(parent, name.as_os_str(), flags, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
                opened => Ok(Some(Self::new(opened?, path))),
            }
        }

        fn new(directory: OwnedFd, path: StorePath) -> Self {
            let buffer = Vec::with_capacity(BUFFER_BYTES);
            Self { directory: Arc::new(directory), path, buffer, found: Vec::new(), names: Vec::new() }
        }

        /// The open directory.
        pub(crate) fn handle(&self) -> &Arc<Handle> {
            &self.directory
        }

        pub(crate) fn path(&self) -> &StorePath {
            &self.path
        }

        /// The next entry. Without the right to look names up in the directory, the error is `PermissionDenied`.
        pub(crate) fn next(&mut self) -> Option<io::Result<Entry>> {
            loop {
                let Some((kind, name)) = self.found.pop() else {
                    match self.read() {
                        Ok(true) => continue,
                        Ok(false) => return None,
                        Err(error) => return Some(Err(error)),
                    }
                };
                if let Some(entry) = self.entry(kind, OsStr::from_bytes(&self.names[name])).transpose() {
                    return Some(entry);
                }
            }
        }

        /// Reads the names that one system call returns; `false` at the end of the directory.
        fn read(&mut self) -> io::Result<bool> {
            self.names.clear();
            let mut entries = RawDir::new(&*self.directory, self.buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = match entry {
                    Err(Errno::NOENT) => return Ok(false), // another program removed the directory
                    entry => entry?,
                };
                let kind = entry.file_type();
                let may_be_listed = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Unknown);
                let name = entry.file_name().to_bytes();
                let is_remnant = kind != FileType::Directory && is_remnant(OsStr::from_bytes(name));
                if may_be_listed && !is_remnant && !matches!(name, b"." | b"..") {
                    let start = self.names.len();
                    self.names.extend_from_slice(name);
                    self.found.push((kind, start..self.names.len()));
                }
                if entries.is_buffer_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        }

        /// An entry of this type, or of an unknown type on file systems that do not return it.
        pub(super) fn entry(&self, kind: FileType, name: &OsStr) -> io::Result<Option<Entry>> {
            let path = path_of(&self.path, name);
            if kind == FileType::Directory {
                return Ok(Some(path.map_or_else(|unlisted| unlisted, Entry::Directory)));
            }
            let found = match self.metadata(name) {
                Err(Errno::NOENT) => return Ok(None), // another program removed it
                Err(Errno::ACCESS) if self.metadata(OsStr::new(".")).is_ok() => {
                    return Ok(Some(unlisted(&self.path, name, UnlistedReason::Unreadable)));
                }
                found => found?,
            };
            let is_directory = match FileType::from_raw_mode(found.stx_mode.into()) {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => return Ok(None),
            };
            Ok(Some(match path {
                Err(unlisted) => unlisted,
                Ok(path) if is_directory => Entry::Directory(path),
                // Each write creates a new file, so the file system has no useful time of creation.
                Ok(path) => Entry::File(FileEntry::new(path, found.stx_size).with_modified(time(found.stx_mtime))),
            }))
        }

        fn metadata(&self, name: &OsStr) -> rustix::io::Result<Statx> {
            let fields = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME;
            statx(&*self.directory, name, AtFlags::SYMLINK_NOFOLLOW, fields)
        }
    }

    /// The time of a timestamp; `None` if it is out of range.
    fn time(timestamp: StatxTimestamp) -> Option<SystemTime> {
        let seconds = Duration::from_secs(timestamp.tv_sec.unsigned_abs());
        let whole = if timestamp.tv_sec < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(Duration::from_nanos(timestamp.tv_nsec.into()))
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod portable {
    use std::io;
    use std::sync::Arc;

    use cap_std::fs::{Dir, DirEntry, ReadDir};
    use cap_std::time::SystemTime;
    use memory_tool_core::{FileEntry, StorePath};

    use super::{Entry, path_of};
    use crate::disk::{self, EntryKind};
    use crate::name::{Name, is_remnant};

    pub(crate) type Handle = Dir;

    pub(crate) struct Listing {
        entries: ReadDir,
        directory: Arc<Dir>,
        path: StorePath,
    }

    impl Listing {
        /// Lists an open directory; `None` if another program removed it.
        pub(crate) fn of(directory: &Arc<Dir>, path: StorePath) -> io::Result<Option<Self>> {
            match directory.entries() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                entries => Ok(Some(Self { entries: entries?, directory: Arc::clone(directory), path })),
            }
        }

        /// Lists the directory `name`; `None` if another program removed or replaced it.
        pub(crate) fn open(parent: &Handle, name: Name<'_>, path: StorePath) -> io::Result<Option<Self>> {
            match disk::entry_kind(parent, name)? {
                EntryKind::Directory(directory) => Self::of(&Arc::new(directory), path),
                EntryKind::Absent | EntryKind::File(_) | EntryKind::Link | EntryKind::Special => Ok(None),
            }
        }

        /// The open directory.
        pub(crate) fn handle(&self) -> &Arc<Handle> {
            &self.directory
        }

        pub(crate) fn path(&self) -> &StorePath {
            &self.path
        }

        /// The next entry. Without the right to look names up in the directory, the error is `PermissionDenied`.
        pub(crate) fn next(&mut self) -> Option<io::Result<Entry>> {
            loop {
                let entry = self.entries.next()?.and_then(|entry| self.entry(&entry));
                if let Some(entry) = entry.transpose() {
                    return Some(entry);
                }
            }
        }

        fn entry(&self, entry: &DirEntry) -> io::Result<Option<Entry>> {
            let path = path_of(&self.path, &entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                return Ok(Some(path.map_or_else(|unlisted| unlisted, Entry::Directory)));
            }
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None), // another program removed it
                metadata => metadata?,
            };
            if !metadata.is_file() || is_remnant(&entry.file_name()) {
                return Ok(None);
            }
            Ok(Some(path.map_or_else(
                |unlisted| unlisted,
                |path| {
                    // Each write creates a new file, so the file system has no useful time of creation.
                    let modified = metadata.modified().ok().map(SystemTime::into_std);
                    Entry::File(FileEntry::new(path, metadata.len()).with_modified(modified))
                },
            )))
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::io;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::name::Name;

    /// Defines a function that returns the files under a directory, as one of the modules lists them, and the names of
    /// the items that it cannot list.
    macro_rules! files_as_listed_by {
        ($module:ident) => {
            fn $module(directory: &Path) -> (Vec<FileEntry>, Vec<String>) {
                use super::$module::Listing;
                let mut pending = vec![Listing::of(&open(directory), StorePath::memories()).unwrap().unwrap()];
                let (mut files, mut unlisted) = (Vec::new(), Vec::new());
                while let Some(mut listing) = pending.pop() {
                    while let Some(entry) = listing.next() {
                        match entry {
                            Ok(Entry::File(file)) => files.push(file),
                            Ok(Entry::Unlisted(item)) => unlisted.push(item.to_string()),
                            Ok(Entry::Directory(path)) => {
                                match Listing::open(listing.handle(), Name::of(&path).unwrap(), path.clone()) {
                                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
                                    opened => pending.extend(opened.unwrap()),
                                }
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{}", listing.path());
                            }
                        }
                    }
                }
                files.sort_by(|left, right| left.path.cmp(&right.path));
                unlisted.sort();
                (files, unlisted)
            }
        };
    }
    files_as_listed_by!(linux);
    files_as_listed_by!(portable);

    fn open(directory: &Path) -> Arc<Dir> {
        Arc::new(Dir::open_ambient_dir(directory, ambient_authority()).unwrap())
    }

    /// Creates an entry of each kind.
    fn fill(directory: &Path) {
        fs::create_dir_all(directory.join("directory/nested/empty")).unwrap();
        for name in ["file", "directory/é b.txt", "directory/nested/.hidden", "tab\t", "back\\slash", "e\u{301}"] {
            fs::write(directory.join(name), name).unwrap();
        }
        fs::write(directory.join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
        symlink("file", directory.join("link")).unwrap();
        symlink("directory", directory.join("link to a directory")).unwrap();
        symlink("file", directory.join("link\t")).unwrap();
        fs::create_dir_all(directory.join("directory\t/nested")).unwrap();
        mknodat(CWD, directory.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[test]
    fn both_modules_list_the_same_files() {
        const ACCESSIBLE: u32 = 0o700;
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fill(directory);
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
        File::options().write(true).open(directory.join("file")).unwrap().set_modified(before_1970).unwrap();
        // More names than one system call reads.
        fs::create_dir(directory.join("large")).unwrap();
        for number in 0..300 {
            fs::write(directory.join(format!("large/{number:0>250}")), "x").unwrap();
        }
        // Without the right to list or to search, unless this user may do everything.
        for mode in [0o000, 0o100, 0o400] {
            let limited = directory.join(format!("mode {mode:03o}"));
            fs::create_dir_all(limited.join("nested")).unwrap();
            fs::write(limited.join("file"), "x").unwrap();
            fs::set_permissions(&limited, Permissions::from_mode(mode)).unwrap();
        }
        let ((listed, unlisted), (expected, expected_unlisted)) = (linux(directory), portable(directory));
        for mode in [0o000, 0o100, 0o400] {
            let limited = directory.join(format!("mode {mode:03o}"));
            fs::set_permissions(limited, Permissions::from_mode(ACCESSIBLE)).unwrap();
        }
        assert_eq!(listed, expected);
        assert_eq!(unlisted, expected_unlisted);
        assert_eq!(unlisted.len(), 5, "{unlisted:?}");
        let modified = |path: &str| listed.iter().find(|file| file.path.as_str() == path).unwrap().modified;
        assert_eq!(modified("/memories/file"), Some(before_1970));
        assert!(modified("/memories/directory/nested/.hidden").unwrap() > SystemTime::UNIX_EPOCH);
        let in_large = listed.iter().filter(|file| file.path.as_str().starts_with("/memories/large/"));
        assert_eq!(in_large.count(), 300);
        assert_eq!(linux(&directory.join("large")).0.len(), 300);
    }

    #[test]
    fn only_directories_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let listing = super::linux::Listing::of(&open(directory.path()), StorePath::memories()).unwrap().unwrap();
        let opens = |name: &str| {
            let path = StorePath::memories().join(name).unwrap();
            super::linux::Listing::open(listing.handle(), Name::of(&path).unwrap(), path.clone()).unwrap().is_some()
        };
        assert!(opens("directory"));
        for other in ["absent", "file", "link", "link to a directory", "pipe"] {
            assert!(!opens(other), "{other}");
        }
    }

    #[test]
    fn an_unknown_or_outdated_type_is_looked_up() {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let listing = super::linux::Listing::of(&open(directory.path()), StorePath::memories()).unwrap().unwrap();
        for kind in [FileType::Unknown, FileType::RegularFile] {
            let entry = |name: &str| listing.entry(kind, OsStr::new(name)).unwrap();
            assert!(matches!(entry("file"), Some(Entry::File(file)) if file.size == 4));
            assert!(matches!(entry("directory"), Some(Entry::Directory(_))));
            for unlisted in ["tab\t", "directory\t"] {
                assert!(matches!(entry(unlisted), Some(Entry::Unlisted(_))), "{unlisted}");
            }
            for other in ["absent", "link", "pipe", "link\t"] {
                assert!(entry(other).is_none(), "{other}");
            }
        }
    }
}
