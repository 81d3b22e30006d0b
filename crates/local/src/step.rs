//! [`Step`]: one change of a batch, and how it is applied.

use std::io;
use std::sync::Arc;

use cap_std::fs::Dir;
use memory_tool_core::{Batch, ErrorKind, StoreError, StorePath};
use serde::{Deserialize, Serialize};

use crate::disk::{self, FileAccess};
use crate::failure::failed;
use crate::locked_files::LockedFiles;
use crate::name::{Name, TemporaryName};
use crate::removal;
use crate::tree::{Location, Resolution};

/// A change whose new contents, if any, are already on the disk.
///
/// A step can be repeated: parts that are already done are skipped. Files that another program wrote in the meantime
/// are detected and never overwritten. Only a removal applies to any version.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Move the file `staged` from the staging directory to `path`, which must be free or have the version `replaces`.
    Write {
        path: StorePath,
        staged: TemporaryName,
        replaces: Option<Vec<u8>>,
        /// The access rights of the replaced file, which the staged file has too.
        #[serde(skip)]
        access: Option<FileAccess>,
    },
    /// Move the file or directory to `removed` in the staging directory. Without that name, remove the file in place.
    Remove { path: StorePath, removed: Option<TemporaryName> },
    /// Move the file or directory to a free path.
    Rename { from: StorePath, to: StorePath },
}

impl Step {
    /// Applies the change. An error after it took effect has an unknown outcome; after any other error, nothing has
    /// changed.
    pub(crate) fn perform(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        if self.is_of_record() {
            files.layout.check_records().map_err(|error| failed("changing a record", error))?;
        }
        match self {
            Self::Write { path, staged, replaces, access } => write(files, path, staged, replaces.as_deref(), *access),
            Self::Remove { path, removed: Some(removed) } => remove(files, path, removed),
            Self::Remove { path, removed: None } => remove_file(files, path),
            Self::Rename { from, to } => rename(files, from, to),
        }
    }

    /// The name of the step in the staging directory, if it has one.
    pub(crate) fn temporary_name(&self) -> Option<&TemporaryName> {
        match self {
            Self::Write { staged, .. } => Some(staged),
            Self::Remove { removed, .. } => removed.as_ref(),
            Self::Rename { .. } => None,
        }
    }

    /// The name of the new contents in the staging directory, if there are any.
    pub(crate) fn staged(&self) -> Option<&TemporaryName> {
        match self {
            Self::Write { staged, .. } => Some(staged),
            Self::Remove { .. } | Self::Rename { .. } => None,
        }
    }

    pub(crate) fn is_of_record(&self) -> bool {
        let (Self::Write { path, .. } | Self::Remove { path, .. } | Self::Rename { from: path, .. }) = self;
        path.is_record()
    }

    /// Adds the change to a batch, without contents.
    pub(crate) fn add_to(&self, batch: Batch) -> Batch {
        match self {
            Self::Write { path, .. } => batch.write(path.clone(), Vec::new()),
            Self::Remove { path, .. } => batch.remove(path.clone()),
            Self::Rename { from, to } => batch.rename(from.clone(), to.clone()),
        }
    }

    /// Checks that the staged contents are a regular file. They are missing if the step was already done.
    pub(crate) fn check_staged(&self, files: &LockedFiles<'_>) -> io::Result<()> {
        self.staged()
            .map_or(Ok(true), |staged| disk::has_private_file(files.staging()?, staged.as_name(), "staging"))
            .map(drop)
    }

    /// Checks that a file or directory that is moved to the staging directory can be removed there.
    pub(crate) fn check_removable(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        match self {
            Self::Remove { path, removed: Some(_) } => check_removable(files, path),
            _ => Ok(()),
        }
    }

    /// Creates what the change needs and detects obstacles, so that little can fail after the commit. This is
    /// invisible, because a directory without files does not exist.
    pub(crate) fn prepare(&self, files: &LockedFiles<'_>) -> Result<(), StoreError> {
        match self {
            Self::Write { path, .. } => check_usable(files, prepare_parent(files, path)?.as_ref()),
            Self::Remove { path, .. } => check_directory_of(files, path),
            Self::Rename { from, to } => {
                check_directory_of(files, from)?;
                check_usable(files, prepare_parent(files, to)?.as_ref())
            }
        }
    }
}

/// Whether the failure is temporary, such as a full disk, so that the step can be retried later.
pub(crate) fn is_transient(error: &StoreError) -> bool {
    matches!(error, StoreError::Failure { kind, .. } if *kind != ErrorKind::AccessDenied)
}

fn write(
    files: &LockedFiles<'_>,
    path: &StorePath,
    staged: &TemporaryName,
    replaces: Option<&[u8]>,
    access: Option<FileAccess>,
) -> Result<(), StoreError> {
    const OPERATION: &str = "moving a file into place";
    if is_already_moved(files, staged, OPERATION)? {
        return Ok(());
    }
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    let (directory, parent, moved) = match replaces {
        Some(version) => {
            let Some((directory, parent)) = parent_at_version(files, path, version, access)? else {
                return Err(StoreError::VersionMismatch { path: path.clone() });
            };
            let moved = disk::rename_over(staging, staged.as_name(), &parent, Name::of(path)?);
            (directory, parent, moved)
        }
        None => {
            let (directory, parent) = open_or_create_parent(files, path)?;
            let moved = move_to_free(staging, staged.as_name(), &parent, Name::of(path)?);
            (directory, parent, moved)
        }
    };
    moved.map_err(|error| refused(path, OPERATION, error))?;
    files.note_moved(staged);
    files.tree.forget_version(path);
    files.flush_later(directory, parent);
    Ok(())
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

/// Whether an earlier process moved the file out of the staging directory.
fn is_already_moved(
    files: &LockedFiles<'_>,
    staged: &TemporaryName,
    operation: &'static str,
) -> Result<bool, StoreError> {
    Ok(files.is_recovering.get() && !is_in_staging(files, staged, operation)?)
}

fn is_in_staging(files: &LockedFiles<'_>, name: &TemporaryName, operation: &'static str) -> Result<bool, StoreError> {
    let found = files.staging().and_then(|staging| disk::metadata(staging, name.as_name()));
    Ok(found.map_err(|error| failed(operation, error))?.is_some())
}

/// Whether there is a file or directory that is about to be moved.
fn is_present(files: &LockedFiles<'_>, path: &StorePath) -> Result<bool, StoreError> {
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
        moved.map_err(|error| failed(OPERATION, error))?;
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
        _ => failed("removing a file", error),
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
        let moved = move_to_free(&from_directory, Name::of(from)?, &to_directory, Name::of(to)?);
        moved.map_err(|error| refused(to, OPERATION, error))?;
        files.flush_later(directory, to_directory);
        files.flush_later(parent.clone(), from_directory);
    }
    if !to.is_under(&parent) {
        files.prune_later(from);
    }
    Ok(())
}

/// Moves an entry to a name that is free except for empty directories, which are removed.
fn move_to_free(from: &Dir, from_name: Name<'_>, to: &Dir, to_name: Name<'_>) -> io::Result<()> {
    match disk::rename_new(from, from_name, to, to_name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && disk::remove_empty_directories(to, to_name)? => {
            disk::rename_new(from, from_name, to, to_name)
        }
        moved => moved,
    }
}

/// Opens the parent directory of `path` or creates it, and removes empty directories at `path`. This is invisible until
/// `path` exists.
fn prepare_parent(files: &LockedFiles<'_>, path: &StorePath) -> Result<Arc<Dir>, StoreError> {
    let (_, parent) = open_or_create_parent(files, path)?;
    let removed = disk::remove_empty_directories(&parent, Name::of(path)?);
    removed.map_err(|error| failed("removing an empty directory", error))?;
    Ok(parent)
}

/// Opens the parent directory of `path`, and returns its path too. Creates missing directories.
fn open_or_create_parent(files: &LockedFiles<'_>, path: &StorePath) -> Result<(StorePath, Arc<Dir>), StoreError> {
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

fn check_directory_of(files: &LockedFiles<'_>, path: &StorePath) -> Result<(), StoreError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    match files.tree.open_directory(&parent)? {
        Some(directory) => check_usable(files, &directory),
        None => Ok(()),
    }
}

fn check_removable(files: &LockedFiles<'_>, path: &StorePath) -> Result<(), StoreError> {
    let checked = match path.parent() {
        None => files.layout.check_root_removable(path),
        Some(parent) => match files.tree.open_directory(&parent)? {
            Some(directory) => removal::check(&directory, Name::of(path)?),
            None => Ok(()),
        },
    };
    checked.map_err(|error| failed("checking what is removed", error))
}

/// Checks that entries can be renamed between the directory and the staging directory.
fn check_usable(files: &LockedFiles<'_>, directory: &Dir) -> Result<(), StoreError> {
    let checked = files.staging().and_then(|staging| disk::check_movable(directory, staging));
    checked.map_err(|error| failed("checking a directory", error))
}

/// The error for a path that could not be created. Another program may have just created it.
fn refused(path: &StorePath, operation: &'static str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
            StoreError::AlreadyExists { path: path.clone() }
        }
        _ => failed(operation, error),
    }
}
