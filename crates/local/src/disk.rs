//! The few things this crate does to a directory, each relative to an open handle and to one name in it.
//!
//! A [`Name`] is a single component: it holds no separator and is never `.` or `..`. So nothing here can leave the directory
//! of the handle, and nothing follows a symbolic link.

use std::io::{self, Read as _, Write as _};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_std::time::{SystemClock, SystemTime};

use crate::name::{Name, TemporaryName};

/// What a name in a directory stands for.
pub(crate) enum EntryKind {
    Absent,
    Directory(Dir),
    File,
    Link,
    /// A pipe, socket, device or the like.
    Special,
}

/// Looks a name up without opening anything but a directory.
pub(crate) fn entry_kind(directory: &Dir, name: Name<'_>) -> io::Result<EntryKind> {
    let Some(found) = metadata(directory, name)? else { return Ok(EntryKind::Absent) };
    if !found.is_dir() {
        return Ok(match () {
            () if found.is_file() => EntryKind::File,
            () if found.is_symlink() => EntryKind::Link,
            () => EntryKind::Special,
        });
    }
    match directory.open_dir_nofollow(name) {
        Ok(opened) => Ok(EntryKind::Directory(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(EntryKind::Absent),
        // Something else took the directory's place since.
        Err(error) => match metadata(directory, name)? {
            Some(replacement) if replacement.is_symlink() => Ok(EntryKind::Link),
            _ => Err(error),
        },
    }
}

/// Whether the directory lists a name in just this spelling: a file system that ignores case, or rewrites names, finds
/// others by it too.
pub(crate) fn lists(directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    for entry in directory.entries()? {
        if entry?.file_name() == name.as_os_str() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Opens a directory that was looked up before.
pub(crate) fn open_directory(directory: &Dir, name: Name<'_>) -> io::Result<Dir> {
    directory.open_dir_nofollow(name)
}

/// The metadata of a name itself, not of what it links to; `None` where there is no such name.
pub(crate) fn metadata(directory: &Dir, name: Name<'_>) -> io::Result<Option<Metadata>> {
    match directory.symlink_metadata(name) {
        Ok(metadata) => Ok(Some(metadata)),
        // No file can have a name that the file system refuses.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What tells one state of a file from another without reading it: which file it is, its size and its last change.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct FileStamp {
    identity: (u64, u64),
    size: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// The same in bytes, which tell states apart as the stamp does.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let since_epoch = self.modified.and_then(|modified| modified.duration_since(SystemClock::UNIX_EPOCH).ok());
        format!("{:?} {} {since_epoch:?}", self.identity, self.size).into_bytes()
    }
}

/// The stamp of a file; `None` where there is none.
pub(crate) fn file_stamp(directory: &Dir, name: Name<'_>) -> io::Result<Option<FileStamp>> {
    let found = metadata(directory, name)?;
    Ok(found.map(|found| FileStamp {
        identity: (found.dev(), found.ino()),
        size: found.len(),
        modified: found.modified().ok(),
    }))
}

/// Whether a file is there. Only a regular file with a single link may be: a copy of a store may hold anything in the directories that
/// are ours. `directory_name` is for the error.
pub(crate) fn has_own_file(directory: &Dir, name: Name<'_>, directory_name: &str) -> io::Result<bool> {
    match metadata(directory, name)? {
        Some(found) if !found.is_file() || found.nlink() > 1 => {
            let message = format!("`.memory-tool/{directory_name}/{name}` is not a regular file with a single link");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        found => Ok(found.is_some()),
    }
}

/// What reading a file gave.
pub(crate) enum Content {
    Whole(Vec<u8>),
    /// More than was to be read.
    TooLarge {
        size: u64,
    },
}

/// Reads a file whole, if it has no more than `limit` bytes.
pub(crate) fn read_file(directory: &Dir, name: Name<'_>, limit: u64) -> io::Result<Content> {
    let file = open_regular(directory, name, OpenOptions::new().read(true))?;
    let size = file.metadata()?.len();
    if size > limit {
        return Ok(Content::TooLarge { size });
    }
    let mut content = Vec::new();
    content.try_reserve_exact(usize::try_from(size).unwrap_or_default())?;
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?; // it may have grown
    let size = content.len() as u64;
    Ok(if size > limit { Content::TooLarge { size } } else { Content::Whole(content) })
}

/// Opens a regular file, and nothing else: what was put in its place since it was looked up is refused.
fn open_regular(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<File> {
    do_not_wait_for_a_pipe(options.follow(FollowSymlinks::No));
    let file = directory.open_with(name, options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Writes a new file that its owner alone may read, and waits until the disk has it.
pub(crate) fn create_file(directory: &Dir, name: Name<'_>, content: &[u8]) -> io::Result<()> {
    write_new_file(directory, name, content)?.sync_all()
}

/// Writes a new file that its owner alone may read.
pub(crate) fn write_new_file(directory: &Dir, name: Name<'_>, content: &[u8]) -> io::Result<File> {
    let mut file = create_private(directory, name, OpenOptions::new().write(true))?;
    file.write_all(content)?;
    Ok(file)
}

/// Opens the lock file of this name, made if need be. It is opened for writing, which network file systems ask for, but
/// where that is refused the right to read it is enough. Nothing is ever written to it, so it may have other names, as in a
/// backup that was made with hard links.
pub(crate) fn open_lock_file(directory: &Dir, name: Name<'_>) -> io::Result<File> {
    loop {
        match open_regular(directory, name, OpenOptions::new().read(true).write(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if is_refusal(&error) => return open_regular(directory, name, OpenOptions::new().read(true)),
            opened => return opened,
        }
        match create_private(directory, name, OpenOptions::new().read(true).write(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {} // another process was faster
            created => return created,
        }
    }
}

/// Opens the lock file of this name to read it; `None` where there is none.
pub(crate) fn open_lock_file_if_there(directory: &Dir, name: Name<'_>) -> io::Result<Option<File>> {
    match open_regular(directory, name, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Makes a directory that its owner alone may enter. `workshop` must be out of others' reach, and on the same file system
/// as `directory`: the new directory gets its mode there before it is moved into place.
pub(crate) fn create_directory(workshop: &Dir, directory: &Dir, name: Name<'_>) -> io::Result<()> {
    let temporary = TemporaryName::random();
    create_private_directory(workshop, temporary.as_name())?;
    let moved = rename_new(workshop, temporary.as_name(), directory, name);
    if moved.is_err() {
        workshop.remove_dir(temporary.as_name())?;
    }
    moved
}

/// Removes the empty directories at and beneath a name; whether nothing is left there.
pub(crate) fn remove_empty_directories(directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    let EntryKind::Directory(opened) = entry_kind(directory, name)? else { return Ok(false) };
    for entry in opened.entries()? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || !remove_empty_directories(&opened, Name::parse(&entry.file_name())?)? {
            return Ok(false);
        }
    }
    drop(opened); // Windows removes no directory that is open
    match directory.remove_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Whether a directory holds nothing but directories of which the same is true.
pub(crate) fn holds_only_directories(directory: &Dir) -> io::Result<bool> {
    for entry in directory.entries()? {
        let entry = entry?;
        if !entry.file_type()?.is_dir()
            || !holds_only_directories(&open_directory(directory, Name::parse(&entry.file_name())?)?)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a file, or a directory with all that is in it, from a directory that is ours alone. A link is removed, never its
/// target.
///
/// The directories beneath are moved up one after another, so that the depth of the tree does not matter.
pub(crate) fn remove_all(ours: &Dir, name: Name<'_>) -> io::Result<()> {
    let mut pending = remove_one(ours, name)?;
    while let Some(name) = pending.pop() {
        pending.extend(remove_one(ours, name.as_name())?);
    }
    Ok(())
}

/// Removes a file, or a directory, and moves the directories in that up into `ours`, under the names given back.
fn remove_one(ours: &Dir, name: Name<'_>) -> io::Result<Vec<TemporaryName>> {
    if !ours.symlink_metadata(name)?.is_dir() {
        return ours.remove_file_or_symlink(name).map(|()| Vec::new());
    }
    let moved = empty_directory(ours, name)?;
    ours.remove_dir(name).map(|()| moved)
}

/// Removes the files in the directory `name` and moves the directories in it up into `ours`.
fn empty_directory(ours: &Dir, name: Name<'_>) -> io::Result<Vec<TemporaryName>> {
    let _ = make_accessible(ours, name); // another program may have taken the rights away
    let directory = ours.open_dir_nofollow(name)?;
    let entries = directory.entries()?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut moved = Vec::new();
    for entry in entries.collect::<io::Result<Vec<_>>>()? {
        let name = Name::parse(&entry)?;
        if directory.symlink_metadata(name)?.is_dir() {
            let _ = make_accessible(&directory, name);
            let temporary = TemporaryName::random();
            rename_over(&directory, name, ours, temporary.as_name())?;
            moved.push(temporary);
        } else {
            directory.remove_file_or_symlink(name)?;
        }
    }
    Ok(moved)
}

/// Checks that names can be moved from one directory to the other and back.
pub(crate) fn check_movable(directory: &Dir, other: &Dir) -> io::Result<()> {
    if !is_one_mount(directory, other)? {
        return Err(io::Error::new(io::ErrorKind::CrossesDevices, "the directory is a separate mount"));
    }
    check_writable(directory)
}

/// Moves a name, replacing a file that is there.
pub(crate) fn rename_over(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    from.rename(from_name, to, to_name)
}

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

#[cfg(unix)]
mod unix {
    use std::io;

    use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
    use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
    use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, fchmod, openat};

    use crate::name::Name;

    const FILE_MODE: u32 = 0o600;
    const DIRECTORY_MODE: u32 = 0o700;

    /// Opening a pipe would otherwise wait for its other end.
    pub(super) fn do_not_wait_for_a_pipe(options: &mut OpenOptions) {
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }

    /// Makes a file, with its mode set whatever the umask.
    pub(super) fn create_private(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<File> {
        let options = options.create_new(true).follow(FollowSymlinks::No).mode(FILE_MODE);
        let file = directory.open_with(name, options)?;
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        Ok(file)
    }

    /// Makes a directory in a place that nobody else reaches, with its mode set whatever the umask.
    pub(crate) fn create_private_directory(directory: &Dir, name: Name<'_>) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        directory.create_dir_with(name, builder.mode(DIRECTORY_MODE))?;
        make_accessible(directory, name)
    }

    /// Checks that the directory of the lock and the journal is this user's alone: whoever can write there can have files moved.
    pub(crate) fn refuse_other_users(directory: &Dir, name: Name<'_>) -> io::Result<()> {
        let found = rustix::fs::fstat(directory)?;
        let (owner, user) = (found.st_uid, rustix::process::geteuid().as_raw());
        let mode = found.st_mode & 0o777;
        let message = match () {
            () if owner != user => format!(
                "`{name}` belongs to user {owner}, but this process runs as user {user}: run as user {owner}, open the store \
                 read-only, or run `chown -R {user}` on the directory"
            ),
            () if mode & 0o022 != 0 => {
                format!("other users can write to `{name}` (mode {mode:03o}): run `chmod go-w` on it")
            }
            () => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }

    /// Moves a name to one that must be free, in one step.
    pub(crate) fn rename_new(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(from, from_name.as_os_str(), to, to_name.as_os_str(), flags) {
                // A file system that cannot do it in one step: the store's lock keeps other users of the store out.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {}
                renamed => return Ok(renamed?),
            }
        }
        super::rename_after_check(from, from_name, to, to_name)
    }

    /// Waits until the disk has the names in the directory.
    pub(crate) fn sync_directory(directory: &Dir) -> io::Result<()> {
        match directory.open(".")?.sync_all() {
            // A file system that has no such call for directories.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            synced => synced,
        }
    }

    /// Gives the owner all rights on a directory, and others none.
    pub(super) fn make_accessible(directory: &Dir, name: Name<'_>) -> io::Result<()> {
        match openat(directory, name.as_os_str(), OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        {
            Ok(opened) => Ok(fchmod(opened, Mode::RWXU)?),
            // The owner has no right to open it. What may have taken its place since is in `directory` too.
            Err(_) => directory.set_permissions(name, Permissions::from_mode(DIRECTORY_MODE)),
        }
    }

    /// Checks the right to make and remove names in a directory.
    pub(super) fn check_writable(directory: &Dir) -> io::Result<()> {
        Ok(accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// Whether a name can be moved from one directory to the other: a bind mount is in the way as another disk is.
    pub(crate) fn is_one_mount(left: &Dir, right: &Dir) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        if let (Some(left), Some(right)) = (mount_id(left)?, mount_id(right)?) {
            return Ok(left == right);
        }
        Ok(left.dir_metadata()?.dev() == right.dir_metadata()?.dev())
    }

    #[cfg(target_os = "linux")]
    fn mount_id(directory: &Dir) -> io::Result<Option<u64>> {
        use rustix::fs::{StatxFlags, statx};
        let found = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        Ok(is_known.then_some(found.stx_mnt_id))
    }

    /// Whether the system can hold a file of this name.
    pub(crate) fn can_hold(_: &str) -> bool {
        true
    }
}

#[cfg(windows)]
mod windows {
    use std::io;

    use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
    use cap_std::fs::{Dir, File, OpenOptions};

    use crate::name::Name;

    pub(super) fn do_not_wait_for_a_pipe(_: &mut OpenOptions) {}

    /// Makes a file. Who may read it is inherited from the directory above the store.
    pub(super) fn create_private(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<File> {
        directory.open_with(name, options.create_new(true).follow(FollowSymlinks::No))
    }

    /// Makes a directory. Who may enter it is inherited from the directory above the store.
    pub(crate) fn create_private_directory(directory: &Dir, name: Name<'_>) -> io::Result<()> {
        directory.create_dir(name)
    }

    /// Windows has no owner's mode: who may write there is inherited from the directory above the store.
    pub(crate) fn refuse_other_users(_: &Dir, _: Name<'_>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn rename_new(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
        super::rename_after_check(from, from_name, to, to_name)
    }

    /// Windows has no call that flushes a directory; NTFS journals its names itself.
    pub(crate) fn sync_directory(_: &Dir) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn make_accessible(_: &Dir, _: Name<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Windows tells this by trying.
    pub(super) fn check_writable(_: &Dir) -> io::Result<()> {
        Ok(())
    }

    /// Whether a name can be moved from one directory to the other.
    pub(crate) fn is_one_mount(left: &Dir, right: &Dir) -> io::Result<bool> {
        Ok(left.dir_metadata()?.dev() == right.dir_metadata()?.dev())
    }

    /// Whether the system can hold a file of this name, and under no other: it drops dots and blanks from the end, and
    /// gives some characters and names a meaning of their own.
    pub(crate) fn can_hold(name: &str) -> bool {
        const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
        let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
        let is_port = (stem.starts_with("COM") || stem.starts_with("LPT")) && stem.chars().count() == 4;
        !name.ends_with(['.', ' '])
            && !name.contains(['<', '>', ':', '"', '|', '?', '*'])
            && !DEVICES.contains(&stem.as_str())
            && !is_port
    }
}

/// Moves a name to one that must be free, where the system has no single step for it.
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
    fn a_name_is_listed_in_its_own_spelling_alone() {
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
