//! The files that SQLite keeps beside a database, and their states. Hostile ones are refused before SQLite opens them.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory_tool_core::ErrorKind;

use crate::failure::{ConnectError, OpenFailure};

/// The suffixes of the files.
pub(crate) const JOURNAL: &str = "-journal";
pub(crate) const LOG: &str = "-wal";
pub(crate) const SHARED_MEMORY: &str = "-shm";

/// The end of a journal that names another file. After undoing the change, SQLite removes that file. Older versions
/// remove any file, newer ones only if it is named like a journal.
const NAMES_A_SUPER_JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The file with this suffix beside the database.
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Resolves links: the other files are beside the database, not beside a link to it.
#[cfg(unix)]
pub(crate) fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Not on Windows, where a path with resolved links has a form that SQLite does not accept in a URL.
#[cfg(not(unix))]
pub(crate) fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    Ok(path.to_owned())
}

/// The metadata of a file; `None` if it does not exist.
pub(crate) fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Identifies a state of a file.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct FileStamp {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    /// The status-change time is not used: as root, SQLite sets the owner of the log.
    number: FileNumber,
    /// Whether the file was removed. It may be open.
    is_removed: bool,
}

impl FileStamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            size: found.len(),
            modified: found.modified().ok(),
            number: FileNumber::of(found),
            is_removed: links(found) == 0,
        }
    }
}

/// The stamp of a file; `None` if it does not exist.
pub(crate) fn file_stamp(path: &Path) -> io::Result<Option<FileStamp>> {
    Ok(metadata(path)?.map(|found| FileStamp::of(&found)))
}

/// Identifies a file. All files are equal on Windows, where an open one cannot be removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct FileNumber {
    device: u64,
    inode: u64,
}

#[cfg(unix)]
impl FileNumber {
    pub(crate) fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;

        Self { device: found.dev(), inode: found.ino() }
    }
}

#[cfg(not(unix))]
impl FileNumber {
    pub(crate) fn of(_: &Metadata) -> Self {
        Self::default()
    }
}

/// Refuses files that would make SQLite change or remove files outside the database. Returns the resolved path.
pub(crate) fn refuse_hostile(database: &Path) -> Result<PathBuf, ConnectError> {
    let database = resolve_links(database)?;
    for ending in ["", JOURNAL, LOG, SHARED_MEMORY] {
        let path = beside(&database, ending);
        if is_mounted(&path) {
            return Err(refused(
                &path,
                "is a separate mount, so programs outside would have another log and lose changes: mount its directory",
            ));
        }
        if metadata(&path)?.is_some_and(|found| found.is_file() && links(&found) > 1) {
            return Err(refused(
                &path,
                "has more than one hard link: writing to it would also change the file under its other name",
            ));
        }
    }
    let journal = beside(&database, JOURNAL);
    if names_a_super_journal(&journal)? {
        return Err(refused(
            &journal,
            "is a journal that names another file, which SQLite may remove: no memory store writes such a journal",
        ));
    }
    Ok(database)
}

/// Whether a file itself is a mount, as with `docker -v FILE` and `subPath` of Kubernetes.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_: &Path) -> bool {
    false
}

fn refused(path: &Path, why: &str) -> ConnectError {
    let source = format!("{} {why}", path.display()).into();
    OpenFailure::Failed { kind: ErrorKind::AccessDenied, source }.into()
}

fn names_a_super_journal(journal: &Path) -> io::Result<bool> {
    if metadata(journal)?.is_none_or(|found| !found.is_file()) {
        return Ok(false);
    }
    let mut file = match File::open(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false), // its change is complete
        file => file?,
    };
    let mut end = [0; NAMES_A_SUPER_JOURNAL.len()];
    if file.metadata()?.len() < end.len() as u64 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-(end.len() as i64)))?;
    match file.read_exact(&mut end) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false), // it is being removed
        read => read.map(|()| end == NAMES_A_SUPER_JOURNAL),
    }
}

/// The number of names of a file.
#[cfg(unix)]
fn links(found: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    found.nlink()
}

#[cfg(not(unix))]
fn links(_: &Metadata) -> u64 {
    1
}
