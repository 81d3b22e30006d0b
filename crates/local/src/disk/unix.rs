//! The parts for Unix, with the differences of Linux, Android and macOS.

use std::io;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{
    Dir, DirBuilder, DirBuilderExt, File, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt, Permissions,
    PermissionsExt,
};
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Uid, accessat, fchmod, fchown, openat};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::{DirectoryEntry, FileKind};
use super::{Rule, without_modes};
use crate::name::Name;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const OWNER_CAN_WRITE: u32 = 0o200;
/// The rights of the group, or the limit of the rights of others in an access control list.
const GROUP: u32 = 0o070;

/// The access rights of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileAccess {
    mode: u32,
    owner: u32,
    group: u32,
}

impl FileAccess {
    pub(super) fn of(found: &Metadata) -> Self {
        Self { mode: found.mode() & 0o777, owner: found.uid(), group: found.gid() }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn of_stat(found: &rustix::fs::Stat) -> Self {
        Self { mode: found.st_mode & 0o777, owner: found.st_uid, group: found.st_gid }
    }

    /// Whether the owner must not write to the file.
    pub(crate) fn is_write_protected(self) -> bool {
        self.mode & OWNER_CAN_WRITE == 0
    }

    /// Whether a new file has the same mode.
    pub(super) fn is_private(self) -> bool {
        self.mode == FILE_MODE
    }
}

/// Sets owner, group and mode. The rights of the group are dropped if the group, or the access control list that
/// limits them, cannot be set: the group of the new file may be another one.
pub(super) fn set_access(
    file: &File,
    access: FileAccess,
    open_replaced: impl FnOnce() -> io::Result<File>,
) -> io::Result<()> {
    let has_group = fchown(file, Some(Uid::from_raw(access.owner)), Some(Gid::from_raw(access.group)))
        .or_else(|_| fchown(file, None, Some(Gid::from_raw(access.group)))) // only root can set the owner
        .is_ok();
    let keeps_group = access.mode & GROUP != 0 && has_group && copy_access_list(file, &open_replaced()?);
    let mode = if keeps_group { access.mode } else { access.mode & !GROUP };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Copies the access control list of a file, if it has one. Returns whether that was possible.
#[cfg(target_os = "linux")]
fn copy_access_list(file: &File, replaced: &File) -> bool {
    use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
    use rustix::io::Errno;
    const NAME: &str = "system.posix_acl_access";
    let mut list = [0; 4096];
    match fgetxattr(replaced, NAME, &mut list) {
        Ok(length) => fsetxattr(file, NAME, &list[..length.min(list.len())], XattrFlags::empty()).is_ok(),
        Err(error) => matches!(error, Errno::NODATA | Errno::NOTSUP),
    }
}

/// Elsewhere, such a list does not change the meaning of the mode.
#[cfg(not(target_os = "linux"))]
fn copy_access_list(_: &File, _: &File) -> bool {
    true
}

/// Without this, opening a pipe would wait for its other end.
pub(super) fn set_nonblocking(options: &mut OpenOptions) {
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
}

/// Creates a file with a fixed mode, regardless of the umask.
pub(super) fn create_private(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<File> {
    let options = options.create_new(true).follow(FollowSymlinks::No).mode(FILE_MODE);
    let file = directory.open_with(name, options)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Creates a directory with a fixed mode, regardless of the umask. Only for places that others cannot access.
pub(crate) fn create_private_directory(directory: &Dir, name: Name<'_>) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    directory.create_dir_with(name, builder.mode(DIRECTORY_MODE))?;
    make_accessible(directory, name)
        .inspect_err(|_| drop(directory.remove_dir(name)))
        .map_err(|error| if error.kind() == io::ErrorKind::Unsupported { without_modes() } else { error })
}

/// Whether a directory that [`create_private_directory`] created has the mode that it got.
pub(crate) fn keeps_modes(directory: &Dir) -> io::Result<bool> {
    Ok(directory.dir_metadata()?.mode() & 0o777 == DIRECTORY_MODE)
}

/// Checks that no other user controls a directory of a store. `name` is for the error.
pub(crate) fn refuse_other_users(directory: &Dir, name: &str, rule: Rule) -> io::Result<()> {
    const ROOT: u32 = 0;
    /// In a directory with this bit, others can add entries, but not replace ours.
    const STICKY: u32 = 0o1000;
    const TRUST: &str = "if you trust these users, open `file:DIR?trust_other_users=true`";
    let found = rustix::fs::fstat(directory)?;
    let (owner, user) = (found.st_uid, rustix::process::geteuid().as_raw());
    #[allow(clippy::useless_conversion, reason = "the type differs between systems")]
    let mode = u32::from(found.st_mode) & 0o7777;
    let is_owner = owner == user || rule != Rule::Private && owner == ROOT;
    let is_protected = mode & 0o022 == 0 || rule == Rule::Base && mode & STICKY != 0;
    let message = match () {
        () if !is_owner => format!(
            "{name} belongs to user {owner}, but this process runs as user {user}: run as user {owner}, open the \
             store read-only, or run `chown -R {user}` on the directory; {TRUST}"
        ),
        () if !is_protected => {
            format!("other users can write to {name} (mode {mode:03o}): run `chmod go-w` on it; {TRUST}")
        }
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Renames an entry to a free name, atomically.
pub(crate) fn rename_new(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(from, from_name.as_os_str(), to, to_name.as_os_str(), flags) {
            // Not supported by this file system. The store lock keeps other users of the store out.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
    }
    super::rename_after_check(from, from_name, to, to_name)
}

/// Flushes the names in the directory to the disk.
pub(crate) fn sync_directory(directory: &Dir) -> io::Result<()> {
    #[cfg(target_vendor = "apple")] // the disk has a cache that only the standard library flushes
    let synced = directory.open(".")?.sync_all();
    #[cfg(not(target_vendor = "apple"))]
    let synced = match rustix::fs::fsync(directory) {
        // The handle is a path only.
        Err(rustix::io::Errno::BADF) => directory.open(".")?.sync_all(),
        synced => synced.map_err(io::Error::from),
    };
    match synced {
        // This file system cannot flush directories.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Flushes the files and the names under a directory. New contents have been flushed before they got their names.
pub(crate) fn sync_tree(directory: &Dir) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let opened = directory.open(".")?;
        if !passes_on_flushes(&opened)? {
            return sync_directories(directory);
        }
        rustix::fs::syncfs(opened)?;
    }
    #[cfg(not(target_os = "linux"))]
    {
        rustix::fs::sync();
        sync_directory(directory)?;
    }
    Ok(())
}

/// Flushes the directories at and under a directory, with one of them open at a time. No store changes directories
/// that it cannot open, or deeper ones.
#[cfg(target_os = "linux")]
fn sync_directories(directory: &Dir) -> io::Result<()> {
    const MAX_PATH_BYTES: usize = 2_000; // more than a path of the store has
    let mut pending = vec![PathBuf::from(".")];
    while let Some(path) = pending.pop() {
        match sync_one_directory(directory, &path) {
            Ok(below) => pending.extend(below.into_iter().filter(|path| path.as_os_str().len() <= MAX_PATH_BYTES)),
            Err(error) if is_foreign(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Flushes a directory. Returns the paths of its subdirectories.
#[cfg(target_os = "linux")]
fn sync_one_directory(base: &Dir, path: &Path) -> io::Result<Vec<PathBuf>> {
    let directory = base.open_dir(path)?;
    sync_directory(&directory)?;
    let entries = super::entries(&directory)?;
    Ok(entries.iter().filter(|entry| entry.is_directory()).map(|entry| path.join(&entry.name)).collect())
}

/// Whether another program removed or replaced a directory, or denies access to it.
#[cfg(target_os = "linux")]
fn is_foreign(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::NotFound | Kind::NotADirectory | Kind::PermissionDenied)
}

/// Whether `syncfs` reaches the disk. FUSE does not pass it on to the server of the file system.
#[cfg(target_os = "linux")]
fn passes_on_flushes(file: &File) -> io::Result<bool> {
    Ok(!memory_tool_core::FileSystem::is_served(file)?)
}

/// Flushes all files of the file system of `file`, and reports all errors since `file` was opened. Fails if this
/// system cannot do both.
pub(crate) fn sync_file_system_of(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if flushes_together(file) {
        return Ok(rustix::fs::syncfs(file)?);
    }
    let _ = file;
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether [`sync_file_system_of`] is possible.
pub(crate) fn flushes_together(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    if syncfs_reports_errors() {
        return passes_on_flushes(file).unwrap_or(false);
    }
    let _ = file;
    false
}

/// Since Linux 5.8.
#[cfg(target_os = "linux")]
fn syncfs_reports_errors() -> bool {
    let version = |release: &str| {
        let (major, rest) = release.split_once('.')?;
        let minor = rest.split(|character: char| !character.is_ascii_digit()).next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    rustix::system::uname().release().to_str().ok().and_then(version) >= Some((5, 8))
}

/// Opens a directory by its path under `directory`, in one step and without following links; `None` if that is not
/// possible.
#[cfg(target_os = "linux")]
pub(crate) fn open_beneath(directory: &Dir, path: &str) -> Option<Dir> {
    use rustix::fs::{ResolveFlags, openat2};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(directory, path, flags, Mode::empty(), resolve).ok().map(Dir::from)
}

/// This system cannot do so.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_beneath(_: &Dir, _: &str) -> Option<Dir> {
    None
}

/// When the metadata of a file last changed, since the Unix epoch.
pub(super) fn change_time(found: &Metadata) -> Option<Duration> {
    time_of(found.ctime(), found.ctime_nsec())
}

/// A time since the Unix epoch; `None` before it.
pub(super) fn time_of(seconds: impl TryInto<u64>, nanoseconds: impl TryInto<u32>) -> Option<Duration> {
    Some(Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?))
}

/// The identity of the file at a path.
#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn stat_identity(directory: &Dir, path: &str) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev as u64, found.st_ino as u64))
}

/// Reads the beginning of a file. Returns the number of bytes read.
pub(crate) fn read_at(file: &std::fs::File, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, 0)
}

/// Writes a part of a file.
pub(crate) fn write_at(file: &std::fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Grants the owner all rights on a directory, and revokes those of others.
pub(crate) fn make_accessible(directory: &Dir, name: Name<'_>) -> io::Result<()> {
    match openat(directory, name.as_os_str(), OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(opened) => Ok(fchmod(opened, Mode::RWXU)?),
        // The owner cannot open it. If another entry replaced it, that one is in `directory` too.
        Err(_) => directory.set_permissions(name, Permissions::from_mode(DIRECTORY_MODE)),
    }
}

/// Checks the right to create and remove names in a directory.
pub(crate) fn check_writable(directory: &Dir) -> io::Result<()> {
    Ok(accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Whether the directories are on the same mount and device. Entries cannot be renamed across bind mounts, nor
/// between the subvolumes of a mount.
pub(crate) fn is_one_mount(left: &Dir, right: &Dir) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    if let (Some(left), Some(right)) = (mount_id(left, "")?, mount_id(right, "")?)
        && left != right
    {
        return Ok(false);
    }
    Ok(left.dir_metadata()?.dev() == right.dir_metadata()?.dev())
}

/// Whether something is mounted on a name.
#[cfg(target_os = "linux")]
pub(crate) fn is_mount_point(directory: &Dir, name: Name<'_>) -> io::Result<bool> {
    match mount_id(directory, name.as_os_str()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(found? != mount_id(directory, "")?),
    }
}

/// Other systems have no mounts on files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_mount_point(_: &Dir, _: Name<'_>) -> io::Result<bool> {
    Ok(false)
}

/// The mount of a name, or of the directory itself; `None` if the system does not return it.
#[cfg(target_os = "linux")]
fn mount_id(directory: &Dir, name: impl rustix::path::Arg) -> io::Result<Option<u64>> {
    use rustix::fs::{StatxFlags, statx};
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let found = statx(directory, name, flags, StatxFlags::MNT_ID)?;
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Ok(is_known.then_some(found.stx_mnt_id))
}

/// Whether file systems return the error for an unsupported name.
pub(crate) fn is_refused_name(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::INVAL, Errno::ILSEQ, Errno::NAMETOOLONG, Errno::NOENT, Errno::PERM];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// The entries of a directory. Some file systems lose names if the buffer is short.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn entries(directory: &Dir) -> io::Result<Vec<DirectoryEntry>> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{FileType, RawDir};
    const BUFFER_BYTES: usize = 32 * 1024;
    let opened = openat(directory, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut raw = RawDir::new(opened, buffer.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let kind = match entry.file_type() {
            _ if name == "." || name == ".." => continue,
            FileType::Directory => FileKind::Directory,
            FileType::RegularFile => FileKind::File,
            FileType::Unknown => FileKind::look(directory, name)?,
            _ => FileKind::Other,
        };
        entries.push(DirectoryEntry { name: name.to_owned(), kind });
    }
    Ok(entries)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use super::portable_entries as entries;

/// Whether the operating system supports the file name.
pub(crate) fn can_hold(_: &str) -> bool {
    true
}
