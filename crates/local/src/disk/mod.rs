//! Operations on directories. Each is relative to an open handle and to one name in it.
//!
//! A [`Name`] is a single path component: it contains no separator and is never `.` or `..`. Therefore no operation
//! leaves the directory of the handle or follows a symbolic link.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_std::time::SystemClock;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use crate::name::{Name, TemporaryName, is_remnant};
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The kind of entry that a name refers to.
pub(crate) enum EntryKind {
    Absent,
    Directory(Dir),
    File(FileStamp),
    Link,
    /// A pipe, socket or device.
    Special,
}

/// Returns the kind of an entry. Only directories are opened.
pub(crate) fn entry_kind(directory: &Dir, name: Name<'_>) -> io::Result<EntryKind> {
    let Some(found) = metadata(directory, name)? else { return Ok(EntryKind::Absent) };
    if !found.is_dir() {
        return Ok(match () {
            () if found.is_file() => EntryKind::File(FileStamp::of(&found)),
            () if found.is_symlink() => EntryKind::Link,
            () => EntryKind::Special,
        });
    }
    match directory.open_dir_nofollow(name) {
        Ok(opened) => Ok(EntryKind::Directory(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(EntryKind::Absent),
        // Another program replaced the directory in the meantime.
        Err(error) => match metadata(directory, name)? {
            Some(replacement) if replacement.is_symlink() => Ok(EntryKind::Link),
            _ => Err(error),
        },
    }
}

/// Whether the directory lists a name in exactly this spelling. Case-insensitive file systems also find it by other
/// spellings.
pub(crate) fn lists(directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    Ok(entries(directory)?.iter().any(|entry| entry.name == name.as_os_str()))
}

/// An entry of a directory.
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    kind: FileKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FileKind {
    Directory,
    File,
    /// A link or a special file.
    Other,
}

impl DirectoryEntry {
    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether FUSE or NFS keeps a removed file under this name.
    pub(crate) fn is_remnant(&self) -> bool {
        !self.is_directory() && is_remnant(&self.name)
    }
}

impl FileKind {
    /// The kind of an entry on a system or file system that does not list it.
    fn look(directory: &Dir, name: &OsStr) -> io::Result<Self> {
        Ok(match metadata(directory, Name::parse(name)?)? {
            Some(found) if found.is_dir() => Self::Directory,
            Some(found) if found.is_file() => Self::File,
            _ => Self::Other,
        })
    }
}

/// Opens a directory that was found before.
pub(crate) fn open_directory(directory: &Dir, name: Name<'_>) -> io::Result<Dir> {
    directory.open_dir_nofollow(name)
}

/// The metadata of a name, without following links; `None` if it does not exist.
pub(crate) fn metadata(directory: &Dir, name: Name<'_>) -> io::Result<Option<Metadata>> {
    match directory.symlink_metadata(name) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A name that the file system rejects cannot exist.
        Err(error) if !name.is_portable() && is_refused_name(&error) && !is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The identity of the file at a path of constant names; `None` if the path leads to no file.
pub(crate) fn identity_at(directory: &Dir, path: &str) -> io::Result<Option<(u64, u64)>> {
    match stat_identity(directory, path) {
        Err(error) if is_elsewhere(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// The identity of an open directory.
pub(crate) fn identity(directory: &Dir) -> io::Result<(u64, u64)> {
    let found = directory.dir_metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Whether a path leads to no file, perhaps through a file or a link.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
}

/// Identifies a state of a file without reading it: by file number, size, and the times of the last changes of its
/// contents and of its metadata.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FileStamp {
    identity: (u64, u64),
    pub(crate) size: u64,
    /// Times since the Unix epoch; `None` if the system has no such time.
    modified: Option<Duration>,
    changed: Option<Duration>,
    pub(crate) access: FileAccess,
}

impl FileStamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        let modified = found.modified().ok().and_then(|time| time.duration_since(SystemClock::UNIX_EPOCH).ok());
        let identity = (found.dev(), found.ino());
        Self { identity, size: found.len(), modified, changed: change_time(found), access: FileAccess::of(found) }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn of_stat(found: &rustix::fs::Stat) -> Self {
        Self {
            identity: (found.st_dev, found.st_ino),
            size: u64::try_from(found.st_size).unwrap_or_default(),
            modified: time_of(found.st_mtime, found.st_mtime_nsec),
            changed: time_of(found.st_ctime, found.st_ctime_nsec),
            access: FileAccess::of_stat(found),
        }
    }

    /// The stamp as bytes. Different stamps have different bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        format!("{:?} {} {:?}", self.identity, self.size, self.modified).into_bytes()
    }

    /// Whether a change after `now` gives the file another stamp. A change in the same tick of the file system's clock
    /// may not, nor the end of a write that has begun before.
    pub(crate) fn is_settled(&self, now: std::time::SystemTime) -> bool {
        /// Longer than a tick, which takes up to 2 s, and than a write.
        const MARGIN: Duration = Duration::from_secs(3);
        let now = now.duration_since(std::time::UNIX_EPOCH).ok();
        self.changed.zip(now).is_some_and(|(changed, now)| changed.saturating_add(MARGIN) < now)
    }
}

/// The stamp of a file; `None` if it does not exist.
pub(crate) fn file_stamp(directory: &Dir, name: Name<'_>) -> io::Result<Option<FileStamp>> {
    Ok(metadata(directory, name)?.map(|found| FileStamp::of(&found)))
}

/// Checks that an entry of the staging directory is a regular file, if it exists.
pub(crate) fn check_regular(staging: &Dir, name: Name<'_>) -> io::Result<()> {
    match metadata(staging, name)? {
        Some(found) if !found.is_file() => {
            let message = format!("`.memory-tool/staging/{name}` is not a regular file");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        _ => Ok(()),
    }
}

/// Whether a file exists in one of the private directories. A copied store may contain anything there, so a file must
/// be regular and have a single hard link. `directory_name` is for the error.
pub(crate) fn has_private_file(directory: &Dir, name: Name<'_>, directory_name: &str) -> io::Result<bool> {
    match metadata(directory, name)? {
        Some(found) if !found.is_file() || found.nlink() > 1 => {
            let message = format!("`.memory-tool/{directory_name}/{name}` is not a regular file with a single link");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        found => Ok(found.is_some()),
    }
}

/// The result of reading a file.
pub(crate) enum Content {
    Whole(Vec<u8>),
    TooLarge { size: u64 },
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_file(directory: &Dir, name: Name<'_>, limit: u64) -> io::Result<Content> {
    Ok(read_stamped_file(directory, name, limit)?.0)
}

/// Reads a file of at most `limit` bytes. Also returns its stamp before it was read.
pub(crate) fn read_stamped_file(directory: &Dir, name: Name<'_>, limit: u64) -> io::Result<(Content, FileStamp)> {
    let (file, found) = open_regular(directory, name, OpenOptions::new().read(true))?;
    let (size, stamp) = (found.len(), FileStamp::of(&found));
    if size > limit {
        return Ok((Content::TooLarge { size }, stamp));
    }
    let mut content = Vec::new();
    // One byte more than the size, so that the end of the file is found without another read.
    content.try_reserve_exact(usize::try_from(size).unwrap_or_default().saturating_add(1))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?; // the file may have grown
    let size = content.len() as u64;
    Ok((if size > limit { Content::TooLarge { size } } else { Content::Whole(content) }, stamp))
}

/// Reads a file in parts. Returns whether it has at most `limit` bytes, and its stamp before it was read.
pub(crate) fn read_parts(
    directory: &Dir,
    name: Name<'_>,
    limit: u64,
    mut read: impl FnMut(&[u8]),
) -> io::Result<(bool, FileStamp)> {
    const PART_BYTES: u64 = 64 * 1024;
    let (file, found) = open_regular(directory, name, OpenOptions::new().read(true))?;
    let (stamp, mut rest) = (FileStamp::of(&found), limit.saturating_add(1));
    let mut part = Vec::new();
    let size = found.len().saturating_add(1); // finds the end of a small file without another read
    part.try_reserve_exact(usize::try_from(size.min(PART_BYTES)).unwrap_or_default())?;
    while found.len() <= limit && rest > 0 {
        part.clear();
        let length = (part.capacity() as u64).min(rest);
        let count = (&file).take(length).read_to_end(&mut part)? as u64;
        read(&part);
        rest -= count;
        if count < length {
            break;
        }
    }
    Ok((found.len() <= limit && rest > 0, stamp))
}

/// Opens a regular file. Anything else is an error, including an entry that replaced the file after it was found.
fn open_regular(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    set_nonblocking(options.follow(FollowSymlinks::No));
    let file = directory.open_with(name, options)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, found))
}

/// Creates a file that only its owner can read, and flushes it to the disk.
pub(crate) fn create_file(directory: &Dir, name: Name<'_>, content: &[u8]) -> io::Result<()> {
    write_new_file(directory, name, content)?.sync_all()
}

/// Creates a file that only its owner can read.
pub(crate) fn write_new_file(directory: &Dir, name: Name<'_>, content: &[u8]) -> io::Result<File> {
    let mut file = create_private(directory, name, OpenOptions::new().write(true))?;
    file.write_all(content)?;
    Ok(file)
}

/// Gives a new file the access rights of the file at `replaced` in `directory`, which have been read before.
pub(crate) fn copy_access(file: &File, access: FileAccess, directory: &Dir, replaced: Name<'_>) -> io::Result<()> {
    if access.is_private() {
        return Ok(());
    }
    set_access(file, access, || open_regular(directory, replaced, OpenOptions::new().read(true)).map(|(file, _)| file))
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// Opens a lock file and creates it if it does not exist. The file is opened for writing, as network file systems
/// require, or read-only if write access is denied. It is never written, so it may have several hard links, as in some
/// backups.
pub(crate) fn open_lock_file(directory: &Dir, name: Name<'_>) -> io::Result<File> {
    loop {
        match open_existing_file(directory, name, Access::ReadWrite) {
            Ok(None) => {}
            Err(error) if is_refusal(&error) => {
                return open_regular(directory, name, OpenOptions::new().read(true)).map(|(file, _)| file);
            }
            Ok(Some(opened)) => return Ok(opened),
            Err(error) => return Err(error),
        }
        match create_private(directory, name, OpenOptions::new().read(true).write(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {} // another process was faster
            created => return created,
        }
    }
}

/// Opens a regular file; `None` if it does not exist.
pub(crate) fn open_existing_file(directory: &Dir, name: Name<'_>, access: Access) -> io::Result<Option<File>> {
    let writes = matches!(access, Access::ReadWrite);
    match open_regular(directory, name, OpenOptions::new().read(true).write(writes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(|(file, _)| Some(file)),
    }
}

/// Keeps the file at a name in the staging directory under `kept` too. On file systems without hard links, moves it
/// there.
pub(crate) fn keep_file(directory: &Dir, name: Name<'_>, staging: &Dir, kept: Name<'_>) -> io::Result<()> {
    match directory.hard_link(name, staging, kept) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()), // an interrupted change kept it
        Err(_) => rename_new(directory, name, staging, kept),
        linked => linked,
    }
}

/// Checks that the file system takes a new name, without a file that others would see. Some take a name and then hide
/// what has it. Most names need no look.
pub(crate) fn prove_name(staging: &Dir, directory: &Dir, name: Name<'_>) -> io::Result<()> {
    if name.is_portable() {
        return Ok(());
    }
    clear_empty_directories(staging, directory, name)?;
    let is_taken =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty);
    match create_directory(staging, directory, name) {
        // An earlier check left a hidden directory.
        Err(error) if is_taken(&error) && metadata(directory, name)?.is_none() => {
            Err(io::ErrorKind::InvalidFilename.into())
        }
        created => created.and_then(|()| directory.remove_dir(name)),
    }
}

/// Whether access is denied or the disk is read-only.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The error for a file system without access rights.
pub(crate) fn without_modes() -> io::Error {
    let message = "this file system keeps no access rights: mount it with `permissions` (ntfs-3g) or `umask=077`, or \
                   open `file:DIR?trust_other_users=true` if no other user can reach the directory";
    io::Error::new(io::ErrorKind::Unsupported, message)
}

/// Creates a directory that only its owner can enter. It gets its mode in `staging`, which others cannot access and
/// which is on the same file system as `directory`, and is then moved into place.
pub(crate) fn create_directory(staging: &Dir, directory: &Dir, name: Name<'_>) -> io::Result<()> {
    let temporary = TemporaryName::random();
    create_private_directory(staging, temporary.as_name())?;
    let moved = rename_new(staging, temporary.as_name(), directory, name);
    if moved.is_err() {
        staging.remove_dir(temporary.as_name())?;
    }
    moved
}

/// Makes a name free if it leads to directories without files. Returns whether it is free. Moves remnants of removed
/// files to `staging`.
pub(crate) fn clear_empty_directories(staging: &Dir, directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    let is_free = remove_empty_directories(directory, name)?;
    match entry_kind(directory, name)? {
        EntryKind::Directory(opened) if !is_free && contains_only_directories(&opened)? => {
            let temporary = TemporaryName::random();
            rename_new(directory, name, staging, temporary.as_name())?;
            let _ = remove_all(staging, temporary.as_name()); // possible when the other program has closed the file
            Ok(true)
        }
        _ => Ok(is_free),
    }
}

/// Removes the empty directories at and under a name. Returns whether nothing is left.
fn remove_empty_directories(directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    let EntryKind::Directory(opened) = entry_kind(directory, name)? else { return Ok(false) };
    for entry in entries(&opened)? {
        if !entry.is_directory() || !remove_empty_directories(&opened, Name::parse(&entry.name)?)? {
            return Ok(false);
        }
    }
    drop(opened); // Windows cannot remove an open directory
    match directory.remove_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Whether a directory contains only directories, at any depth, apart from remnants of removed files.
pub(crate) fn contains_only_directories(directory: &Dir) -> io::Result<bool> {
    for entry in entries(directory)?.iter().filter(|entry| !entry.is_remnant()) {
        if !entry.is_directory() || !contains_only_directories(&open_directory(directory, Name::parse(&entry.name)?)?)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an entry is the remnant of a removed file, or a directory with one.
pub(crate) fn holds_remnant(directory: &Dir, name: &OsStr) -> io::Result<bool> {
    match entry_kind(directory, Name::parse(name)?)? {
        EntryKind::Directory(opened) => Ok(entries(&opened)?.iter().any(DirectoryEntry::is_remnant)),
        _ => Ok(is_remnant(name)),
    }
}

/// Whether a directory contains a link or a special file, at any depth.
pub(crate) fn contains_special(directory: &Dir) -> io::Result<bool> {
    for entry in entries(directory)? {
        let is_special = match entry.kind {
            FileKind::Directory => contains_special(&open_directory(directory, Name::parse(&entry.name)?)?)?,
            FileKind::File => false,
            FileKind::Other => true,
        };
        if is_special {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes a file, or a directory with its contents, from a private directory. A link is removed, never its target.
///
/// Subdirectories are moved up one after another, so the depth of the tree does not matter. After an error, the other
/// entries are removed nevertheless, and the first error is returned.
pub(crate) fn remove_all(private: &Dir, name: Name<'_>) -> io::Result<()> {
    let mut pending = Vec::new();
    let mut removed = remove_one(private, name, &mut pending);
    while let Some(name) = pending.pop() {
        removed = removed.and(remove_one(private, name.as_name(), &mut pending));
    }
    removed
}

/// Removes one entry. Subdirectories are moved to `private`, and their new names are added to `moved`.
fn remove_one(private: &Dir, name: Name<'_>, moved: &mut Vec<TemporaryName>) -> io::Result<()> {
    if !private.symlink_metadata(name)?.is_dir() {
        return private.remove_file_or_symlink(name);
    }
    loop {
        // Some file systems list a part of the names.
        let has_progress = empty_directory(private, name, moved)?;
        match private.remove_dir(name) {
            Err(error) if has_progress && error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
}

/// Removes the files in the directory `name` and moves its subdirectories to `private`. Returns whether there was
/// anything but remnants, which get another name.
fn empty_directory(private: &Dir, name: Name<'_>, moved: &mut Vec<TemporaryName>) -> io::Result<bool> {
    let _ = make_accessible(private, name); // another program may have revoked access
    let directory = private.open_dir_nofollow(name)?;
    let entries = entries(&directory)?;
    let mut emptied = Ok(());
    for entry in &entries {
        let removed = Name::parse(&entry.name).and_then(|name| remove_or_move(&directory, name, private, moved));
        emptied = emptied.and(removed);
    }
    emptied.map(|()| entries.iter().any(|entry| !entry.is_remnant()))
}

/// Removes a file or an empty directory, or moves a directory to `private`.
fn remove_or_move(directory: &Dir, name: Name<'_>, private: &Dir, moved: &mut Vec<TemporaryName>) -> io::Result<()> {
    if !directory.symlink_metadata(name)?.is_dir() {
        return directory.remove_file_or_symlink(name);
    }
    // A directory of another user can be removed, but not moved.
    if directory.remove_dir(name).is_ok() {
        return Ok(());
    }
    let _ = make_accessible(directory, name);
    let temporary = TemporaryName::random();
    rename_over(directory, name, private, temporary.as_name())?;
    moved.push(temporary);
    Ok(())
}

/// The rights of other users that are refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// Own it, unless they are root, or replace its entries.
    Base,
    /// Own it, unless they are root, or write to it.
    Memories,
    /// Own it or write to it.
    Private,
}

/// Checks that entries can be renamed between the two directories.
pub(crate) fn check_movable(directory: &Dir, other: &Dir) -> io::Result<()> {
    if !is_one_mount(directory, other)? {
        return Err(io::Error::new(io::ErrorKind::CrossesDevices, "the directory is a separate mount"));
    }
    check_writable(directory)
}

/// Renames an entry and replaces an existing file.
pub(crate) fn rename_over(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    from.rename(from_name, to, to_name)
}

/// Moves an entry to a name that is free except for empty directories, which are removed.
pub(crate) fn move_to_free(
    staging: &Dir,
    from: &Dir,
    from_name: Name<'_>,
    to: &Dir,
    to_name: Name<'_>,
) -> io::Result<()> {
    match rename_new(from, from_name, to, to_name) {
        Err(error)
            if error.kind() == io::ErrorKind::AlreadyExists && clear_empty_directories(staging, to, to_name)? =>
        {
            rename_new(from, from_name, to, to_name)
        }
        moved => moved,
    }
}

/// The entries of a directory.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn portable_entries(directory: &Dir) -> io::Result<Vec<DirectoryEntry>> {
    let entry = |entry: io::Result<cap_std::fs::DirEntry>| {
        let name = entry?.file_name();
        Ok(DirectoryEntry { kind: FileKind::look(directory, &name)?, name })
    };
    directory.entries()?.map(entry).collect()
}

/// Renames an entry to a free name on systems that cannot do so atomically.
fn rename_after_check(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    if metadata(to, to_name)?.is_some() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    rename_over(from, from_name, to, to_name)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn lists_matches_the_exact_spelling() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("Notes.txt"), "").unwrap();
        let directory = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        let lists = |name: &str| lists(&directory, Name::parse(OsStr::new(name)).unwrap()).unwrap();
        assert!(lists("Notes.txt"));
        for other in ["notes.txt", "NOTES.TXT", "Notes", "Notes.txt2"] {
            assert!(!lists(other), "{other}");
        }
    }
}
