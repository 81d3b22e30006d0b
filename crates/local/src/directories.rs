//! The directories of the files and of the records, relative to the base directory.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use memory_tool_core::StorePath;

use crate::disk::{self, EntryKind};
use crate::name::Name;

pub(crate) const MEMORIES: Name<'_> = Name::constant("memories");
pub(crate) const PRIVATE: Name<'_> = Name::constant(".memory-tool");
pub(crate) const RECORDS: Name<'_> = Name::constant("records");

/// The path of a file or directory relative to the base directory.
pub(crate) fn relative_path(path: &StorePath) -> Cow<'_, str> {
    if path.is_record() {
        Cow::Owned(format!("{PRIVATE}{path}"))
    } else {
        Cow::Borrowed(path.as_str().trim_start_matches('/'))
    }
}

pub(crate) fn refuse_mount(staging: &Dir, memories: &Dir) -> io::Result<()> {
    if disk::is_one_mount(staging, memories)? {
        return Ok(());
    }
    let message = "`memories` is a separate mount or subvolume, so files cannot be moved into it";
    Err(io::Error::new(io::ErrorKind::CrossesDevices, message))
}

pub(crate) fn directory_or_create(parent: &Dir, name: Name<'_>) -> io::Result<Dir> {
    if let Some(found) = directory(parent, name)? {
        return Ok(found);
    }
    match disk::create_private_directory(parent, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => disk::sync_directory(parent)?,
    }
    directory(parent, name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The directory of the root of a path; `None` if it does not exist.
pub(crate) fn root_of(base: &Dir, path: &StorePath) -> io::Result<Option<Dir>> {
    above_root(base, path)?.map_or(Ok(None), |(parent, name)| directory(&parent, name))
}

/// The directory that contains the root of a path, and the root's name in it; `None` if it does not exist.
pub(crate) fn above_root(base: &Dir, path: &StorePath) -> io::Result<Option<(Dir, Name<'static>)>> {
    if path.is_record() {
        Ok(directory(base, PRIVATE)?.map(|private| (private, RECORDS)))
    } else {
        Ok(Some((base.try_clone()?, MEMORIES)))
    }
}

pub(crate) fn directory(parent: &Dir, name: Name<'_>) -> io::Result<Option<Dir>> {
    let found = match disk::entry_kind(parent, name)? {
        EntryKind::Directory(found) => return Ok(Some(found)),
        EntryKind::Absent => return Ok(None),
        EntryKind::Link => "a symbolic link",
        EntryKind::File(_) | EntryKind::Special => "not a directory",
    };
    Err(io::Error::new(io::ErrorKind::NotADirectory, format!("`{name}` is {found}")))
}

/// Creates the base directory and its missing ancestors with access for the owner only. Returns whether it was missing.
pub(crate) fn create_base(base: &Path) -> io::Result<bool> {
    let missing = base.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
    let mut missing: Vec<_> = missing.collect();
    missing.reverse();
    let mut is_new = false;
    for directory in missing {
        is_new = match create_ambient(directory) {
            // Created by another process, or by the previous step: `new/..` exists once `new` does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            created => created.map(|()| true)?,
        };
    }
    Ok(is_new)
}

fn create_ambient(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return std::fs::create_dir(path); // `..`, or the root of the file system
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
    disk::create_private_directory(&parent, Name::parse(name)?)?;
    disk::sync_directory(&parent)
}
