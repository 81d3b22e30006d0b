//! Applying a [`Step`].

use std::io;
use std::sync::Arc;

use cap_std::fs::Dir;
use memory_tool_core::{ErrorKind, StoreError, StorePath};

use crate::disk::{self, FileAccess, move_to_free};
use crate::failure::{failed, taken_or_failed};
use crate::locked_files::LockedFiles;
use crate::name::{Name, TemporaryName};
use crate::removal;
use crate::step::Step;
use crate::tree::{Location, Resolution};

impl Step {
    /// Applies the change. An error after it took effect has an unknown outcome; after any other error, nothing has
    /// changed.
    pub(crate) fn perform(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        if self.is_of_record() {
            files.layout.check_records().map_err(|error| failed("changing a record", error))?;
        }
        match self {
            Self::Write { path, staged, replaces, undo, access } => {
                let kept = undo.as_ref().map(|undo| &undo.kept);
                write(files, path, staged, replaces.as_deref().map(|version| (version, kept)), *access)
            }
            Self::Remove { path, removed: Some(removed) } => remove(files, path, removed),
            Self::Remove { path, removed: None } => remove_file(files, path),
            Self::Rename { from, to } => rename(files, from, to),
        }
    }

    /// Checks that the staged contents and the kept file are regular files, if they exist.
    pub(crate) fn check_staged(&self, files: &LockedFiles<'_>) -> io::Result<()> {
        let Self::Write { staged, undo, .. } = self else { return Ok(()) };
        disk::has_private_file(files.staging()?, staged.as_name(), "staging")?;
        undo.as_ref().map_or(Ok(()), |undo| disk::check_regular(files.staging()?, undo.kept.as_name()))
    }

    /// Checks that a file or directory that is moved to the staging directory can be removed there.
    pub(crate) fn check_removable(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        let Self::Remove { path, removed: Some(_) } = self else { return Ok(()) };
        let checked = match path.parent() {
            None => files.layout.check_root_removable(path),
            Some(parent) => match files.tree.open_directory(&parent)? {
                Some(directory) => removal::check(&directory, Name::of(path)?),
                None => Ok(()),
            },
        };
        checked.map_err(|error| failed("checking what is removed", error))
    }

    /// Creates what the change needs and detects obstacles, so that little can fail after the commit. This is
    /// invisible, because a directory without files does not exist.
    pub(crate) fn prepare(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        match self {
            Self::Write { path, replaces: None, .. } => prepare_new(files, path),
            Self::Write { path, .. } | Self::Remove { path, .. } => check_old(files, path),
            Self::Rename { from, to } => {
                check_old(files, from)?;
                prepare_new(files, to)
            }
        }
    }
}

fn write(
    files: &LockedFiles<'_>,
    path: &StorePath,
    staged: &TemporaryName,
    replaces: Option<(&[u8], Option<&TemporaryName>)>,
    access: Option<FileAccess>,
) -> Result<(), StoreError> {
    const OPERATION: &str = "moving a file into place";
    if files.is_recovering.get() && !is_in_staging(files, staged, OPERATION)? {
        return Ok(()); // moved by an earlier process
    }
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    let (directory, parent) = match replaces {
        Some((version, kept)) => {
            let Some((directory, parent)) = parent_at_version(files, path, version, access)? else {
                return Err(StoreError::VersionMismatch { path: path.clone() });
            };
            kept.map_or(Ok(()), |kept| keep(files, path, &parent, kept))?;
            let moved = disk::rename_over(staging, staged.as_name(), &parent, Name::of(path)?);
            moved.map_err(|error| unmovable(&parent, path, OPERATION, error))?;
            (directory, parent)
        }
        None => {
            let (directory, parent) = open_or_create_parent(files, path)?;
            let name = Name::of(path)?;
            let moved = disk::prove_name(staging, &parent, name)
                .and_then(|()| move_to_free(staging, staging, staged.as_name(), &parent, name));
            moved.map_err(|error| refused(path, OPERATION, error))?;
            (directory, parent)
        }
    };
    files.note_moved(staged);
    files.tree.forget_version(path);
    files.flush_later(directory, parent);
    Ok(())
}

/// Keeps a file that is about to be replaced.
fn keep(files: &LockedFiles<'_>, path: &StorePath, parent: &Dir, kept: &TemporaryName) -> Result<(), StoreError> {
    const OPERATION: &str = "keeping the replaced file";
    files.clear_later(kept);
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    let done = disk::keep_file(parent, Name::of(path)?, staging, kept.as_name());
    done.map_err(|error| unmovable(parent, path, OPERATION, error))
}

/// The parent directory of a file; `None` if the file does not have the version or other access rights.
fn parent_at_version(
    files: &LockedFiles<'_>,
    path: &StorePath,
    version: &[u8],
    access: Option<FileAccess>,
) -> Result<Option<(StorePath, Arc<Dir>)>, StoreError> {
    let directory = path.parent().unwrap_or_else(|| path.root_above());
    let Some(parent) = files.tree.open_directory(&directory)? else { return Ok(None) };
    files.flush_above(&directory).map_err(|error| failed("flushing a directory", error))?;
    Ok(files.tree.is_at_version(path, version, access)?.then_some((directory, parent)))
}

pub(crate) fn is_in_staging(
    files: &LockedFiles<'_>,
    name: &TemporaryName,
    operation: &'static str,
) -> Result<bool, StoreError> {
    let found = files.staging().and_then(|staging| disk::metadata(staging, name.as_name()));
    Ok(found.map_err(|error| failed(operation, error))?.is_some())
}

/// Whether there is a file or directory that is about to be moved.
pub(crate) fn is_present(files: &LockedFiles<'_>, path: &StorePath) -> Result<bool, StoreError> {
    let found = files.tree.find(path)?;
    files.tree.forget_entries();
    if matches!(found, Location::Directory) {
        files.layout.forget_flushed();
    }
    Ok(!matches!(found, Location::Absent))
}

fn remove(files: &LockedFiles<'_>, path: &StorePath, removed: &TemporaryName) -> Result<(), StoreError> {
    const OPERATION: &str = "removing a file or directory";
    let is_removed = files.is_recovering.get() && is_in_staging(files, removed, OPERATION)?;
    if is_removed || !is_present(files, path)? {
        return Ok(());
    }
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    files.clear_later(removed);
    let Some(parent) = path.parent() else {
        files.tree.forget();
        return files.layout.remove_root(path, staging, removed.as_name());
    };
    if let Some(directory) = files.tree.open_directory(&parent)? {
        let moved = disk::rename_new(&directory, Name::of(path)?, staging, removed.as_name());
        moved.map_err(|error| unmovable(&directory, path, OPERATION, error))?;
        files.flush_later(parent, directory);
    }
    files.prune_later(path);
    Ok(())
}

/// Removes a file in place, which takes fewer calls than moving it away. It cannot be repeated: a file that another
/// program creates there later would be removed.
fn remove_file(files: &LockedFiles<'_>, path: &StorePath) -> Result<(), StoreError> {
    let missing = || StoreError::NotFound { path: path.clone() }; // a program without the lock removed it
    let parent = path.parent().unwrap_or_else(|| path.root_above());
    let directory = files.tree.open_directory(&parent)?.ok_or_else(missing)?;
    directory.remove_file(Name::of(path)?).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(),
        _ => unmovable(&directory, path, "removing a file", error),
    })?;
    files.tree.forget_entries();
    files.flush_later(parent, directory);
    files.prune_later(path);
    Ok(())
}

fn rename(files: &LockedFiles<'_>, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
    const OPERATION: &str = "renaming";
    let Some(parent) = from.parent() else { return Ok(()) };
    if !is_present(files, from)? {
        return Ok(()); // already moved
    }
    if let Some(from_directory) = files.tree.open_directory(&parent)? {
        let (directory, to_directory) = open_or_create_parent(files, to)?;
        let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
        let (old, new) = (Name::of(from)?, Name::of(to)?);
        let moved = disk::prove_name(staging, &to_directory, new)
            .and_then(|()| move_to_free(staging, &from_directory, old, &to_directory, new));
        moved.map_err(|error| {
            if is_mounted(&from_directory, from, &error) { mounted(from) } else { refused(to, OPERATION, error) }
        })?;
        files.flush_later(directory, to_directory);
        files.flush_later(parent.clone(), from_directory);
    }
    if !to.is_under(&parent) {
        files.prune_later(from);
    }
    Ok(())
}

/// Opens the parent directory of a new path or creates it, removes empty directories at the path, and checks that the
/// file system takes it. This is invisible until the path exists.
fn prepare_new(files: &LockedFiles<'_>, path: &StorePath) -> Result<(), StoreError> {
    const OPERATION: &str = "preparing a path";
    let (_, parent) = open_or_create_parent(files, path)?;
    let name = Name::of(path)?;
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    disk::clear_empty_directories(staging, &parent, name).map_err(|error| failed(OPERATION, error))?;
    check_usable(files, &parent)?;
    let proved = disk::prove_name(staging, &parent, name);
    proved.map_err(|error| refused(path, OPERATION, error))
}

/// Opens the parent directory of `path`, and returns its path too. Creates missing directories.
pub(crate) fn open_or_create_parent(
    files: &LockedFiles<'_>,
    path: &StorePath,
) -> Result<(StorePath, Arc<Dir>), StoreError> {
    const OPERATION: &str = "creating a directory";
    let directory = path.parent().unwrap_or_else(|| path.root_above());
    let opened = match resolve_or_create_root(files, &directory)? {
        Some(Resolution::Complete(opened)) => opened,
        Some(Resolution::Missing { deepest, missing }) => missing.iter().try_fold(deepest, |parent, missing| {
            let made = make_directory(files, parent, missing);
            made.map_err(|error| refused(path, OPERATION, error))
        })?,
        Some(Resolution::File { path }) => return Err(StoreError::NotADirectory { path }),
        None => return Err(failed(OPERATION, io::Error::from(io::ErrorKind::NotFound))),
    };
    files.flush_above(&directory).map_err(|error| failed(OPERATION, error))?;
    Ok((directory, opened))
}

fn resolve_or_create_root(files: &LockedFiles<'_>, path: &StorePath) -> Result<Option<Resolution>, StoreError> {
    if let Some(resolved) = files.tree.resolve(path)? {
        return Ok(Some(resolved));
    }
    files.layout.root_or_create(path).map_err(|error| failed("creating a directory", error))?;
    files.tree.resolve(path)
}

/// Creates a directory, and flushes its name before anything is moved into it.
fn make_directory(files: &LockedFiles<'_>, parent: Arc<Dir>, path: &StorePath) -> io::Result<Arc<Dir>> {
    let name = Name::of(path).map_err(io::Error::other)?;
    disk::create_directory(files.staging()?, &parent, name)?;
    disk::sync_directory(&parent)?;
    files.tree.forget();
    disk::open_directory(&parent, name).map(Arc::new)
}

/// Checks that an entry can be moved away.
fn check_old(files: &LockedFiles<'_>, path: &StorePath) -> Result<(), StoreError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let Some(directory) = files.tree.open_directory(&parent)? else { return Ok(()) };
    check_usable(files, &directory)?;
    match disk::is_mount_point(&directory, Name::of(path)?) {
        Ok(false) => Ok(()),
        Ok(true) => Err(mounted(path)),
        Err(error) => Err(failed("checking what is changed", error)),
    }
}

/// Checks that entries can be renamed between the directory and the staging directory.
fn check_usable(files: &LockedFiles<'_>, directory: &Dir) -> Result<(), StoreError> {
    let checked = files.staging().and_then(|staging| disk::check_movable(directory, staging));
    checked.map_err(|error| failed("checking a directory", error))
}

/// The error for an entry that could not be moved or replaced.
fn unmovable(directory: &Dir, path: &StorePath, operation: &'static str, error: io::Error) -> StoreError {
    if is_mounted(directory, path, &error) { mounted(path) } else { taken_or_failed(path, operation, error) }
}

/// Whether the entry could not be moved because something is mounted on it.
fn is_mounted(directory: &Dir, path: &StorePath, error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy)
        && Name::of(path).is_ok_and(|name| disk::is_mount_point(directory, name).unwrap_or(false))
}

fn mounted(path: &StorePath) -> StoreError {
    let reason = format!("{path} is a separate mount, so it cannot be edited, renamed or deleted here.");
    StoreError::refused(path, "mount", reason)
}

/// The error for a path that could not be created.
fn refused(path: &StorePath, operation: &'static str, error: io::Error) -> StoreError {
    if disk::is_refused_name(&error) && !Name::of(path).is_ok_and(Name::is_portable) {
        return StoreError::failure(ErrorKind::UnsupportedName, operation, error);
    }
    taken_or_failed(path, operation, error)
}
