//! The parts for Windows.

use std::io;
use std::time::Duration;

use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::Rule;
pub(crate) use super::portable_entries as entries;
use crate::name::Name;

pub(super) fn set_nonblocking(_: &mut OpenOptions) {}

/// Creates a file. Access rights are inherited from the directory above the store.
pub(super) fn create_private(directory: &Dir, name: Name<'_>, options: &mut OpenOptions) -> io::Result<File> {
    directory.open_with(name, options.create_new(true).follow(FollowSymlinks::No))
}

/// Creates a directory. Access rights are inherited from the directory above the store.
pub(crate) fn create_private_directory(directory: &Dir, name: Name<'_>) -> io::Result<()> {
    directory.create_dir(name)
}

/// Windows has no modes.
pub(crate) fn keeps_modes(_: &Dir) -> io::Result<bool> {
    Ok(true)
}

/// Windows has no modes. Access rights are inherited from the directory above the store.
pub(crate) fn refuse_other_users(_: &Dir, _: &str, _: Rule) -> io::Result<()> {
    Ok(())
}

pub(crate) fn rename_new(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    super::rename_after_check(from, from_name, to, to_name)
}

/// Windows cannot flush a directory; NTFS journals names itself.
pub(crate) fn sync_directory(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Windows cannot flush a file system by the handle of a directory.
pub(crate) fn sync_tree(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// This system cannot do so.
pub(crate) fn sync_file_system_of(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn flushes_together(_: &File) -> bool {
    false
}

/// This system cannot do so.
pub(crate) fn open_beneath(_: &Dir, _: &str) -> Option<Dir> {
    None
}

/// The identity of the file at a path.
pub(super) fn stat_identity(directory: &Dir, path: &str) -> io::Result<(u64, u64)> {
    let found = directory.symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Whether a file is read-only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileAccess {
    is_read_only: bool,
}

impl FileAccess {
    pub(super) fn of(found: &Metadata) -> Self {
        Self { is_read_only: found.permissions().readonly() }
    }

    pub(crate) fn is_write_protected(self) -> bool {
        self.is_read_only
    }

    /// The rights of a file are inherited from its directory.
    pub(super) fn is_private(self) -> bool {
        true
    }
}

pub(super) fn set_access(_: &File, _: FileAccess, _: impl FnOnce() -> io::Result<File>) -> io::Result<()> {
    Ok(())
}

/// Windows has no such time.
pub(super) fn change_time(_: &Metadata) -> Option<Duration> {
    None
}

/// Reads the beginning of a file. Returns the number of bytes read.
pub(crate) fn read_at(file: &std::fs::File, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, 0)
}

/// Writes a part of a file.
pub(crate) fn write_at(file: &std::fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::WriteZero)),
    }
}

pub(super) fn make_accessible(_: &Dir, _: Name<'_>) -> io::Result<()> {
    Ok(())
}

/// On Windows, only an attempt shows whether a directory is writable.
pub(super) fn check_writable(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Windows mounts on directories only, and lists them as links.
pub(crate) fn is_mount_point(_: &Dir, _: Name<'_>) -> io::Result<bool> {
    Ok(false)
}

/// Whether the file system does not support a name.
pub(crate) fn is_refused_name(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidFilename
}

/// Whether entries can be renamed between the two directories.
pub(crate) fn is_one_mount(left: &Dir, right: &Dir) -> io::Result<bool> {
    Ok(left.dir_metadata()?.dev() == right.dir_metadata()?.dev())
}

/// Whether the operating system supports the file name and does not change it. Windows drops trailing dots and
/// spaces, and reserves some characters and names.
pub(crate) fn can_hold(name: &str) -> bool {
    !name.ends_with(['.', ' ']) && !name.contains(['<', '>', ':', '"', '|', '?', '*']) && !crate::name::is_device(name)
}
