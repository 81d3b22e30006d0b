//! [`Step`]: one change of a batch, and how it is applied.

use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{Batch, FailureKind, MemoryPath, RecordName, Stat, StoreError};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::failure::{failed, unconfirmed};
use crate::name::{Name, RecordFileName, TemporaryName};
use crate::transaction::Transaction;
use crate::tree::{Location, Resolution};

/// A change whose new contents, if any, are already on the disk.
///
/// A step can be repeated: parts that are already done are skipped. Files that another program wrote in the meantime
/// are detected and never overwritten. Only a removal applies to any version.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Move the file `staged` from the staging directory to `path`, which must be free or have the version `replaces`.
    Write { path: MemoryPath, staged: TemporaryName, replaces: Option<Vec<u8>> },
    /// Move the file or directory to `removed` in the staging directory.
    Remove { path: MemoryPath, removed: TemporaryName },
    /// Move the file or directory to a free path.
    Rename { from: MemoryPath, to: MemoryPath },
    /// Move the file `staged` from the staging directory to the record.
    WriteRecord { record: RecordName, staged: TemporaryName },
    /// Remove the record if it exists.
    RemoveRecord { record: RecordName },
}

impl Step {
    /// Applies the change. An error after it took effect has an unknown outcome; after any other error, nothing has
    /// changed.
    pub(crate) fn perform(&self, files: &Transaction<'_>) -> Result<(), StoreError> {
        match self {
            Self::Write { path, staged, replaces } => write(files, path, staged, replaces.as_deref()),
            Self::Remove { path, removed } => remove(files, path, removed),
            Self::Rename { from, to } => rename(files, from, to),
            Self::WriteRecord { record, staged } => write_record(files, record, staged),
            Self::RemoveRecord { record } => remove_record(files, record),
        }
    }

    /// The name of the step in the staging directory, if it has one.
    pub(crate) fn temporary_name(&self) -> Option<&TemporaryName> {
        match self {
            Self::Write { staged: name, .. }
            | Self::Remove { removed: name, .. }
            | Self::WriteRecord { staged: name, .. } => Some(name),
            Self::Rename { .. } | Self::RemoveRecord { .. } => None,
        }
    }

    /// The name of the new contents in the staging directory, if there are any.
    pub(crate) fn staged(&self) -> Option<&TemporaryName> {
        match self {
            Self::Write { staged, .. } | Self::WriteRecord { staged, .. } => Some(staged),
            Self::Remove { .. } | Self::Rename { .. } | Self::RemoveRecord { .. } => None,
        }
    }

    pub(crate) fn is_of_record(&self) -> bool {
        matches!(self, Self::WriteRecord { .. } | Self::RemoveRecord { .. })
    }

    /// Adds the change to a batch, without contents.
    pub(crate) fn add_to(&self, batch: Batch) -> Batch {
        match self {
            Self::Write { path, .. } => batch.write(path.clone(), Vec::new()),
            Self::Remove { path, .. } => batch.remove(path.clone()),
            Self::Rename { from, to } => batch.rename(from.clone(), to.clone()),
            Self::WriteRecord { record, .. } => batch.write_record(record.clone(), Vec::new()),
            Self::RemoveRecord { record } => batch.remove_record(record.clone()),
        }
    }

    /// Checks that the staged contents are a regular file. They are missing if the step was already done.
    pub(crate) fn check_staged(&self, files: &Transaction<'_>) -> io::Result<()> {
        self.staged()
            .map_or(Ok(true), |staged| disk::has_private_file(&files.staging, staged.as_name(), "staging"))
            .map(drop)
    }

    /// Creates what the change needs and detects obstacles, so that little can fail after the commit. This is
    /// invisible, because a directory without files does not exist.
    pub(crate) fn prepare(&self, files: &Transaction<'_>) -> Result<(), StoreError> {
        match self {
            Self::Write { path, .. } => check_usable(files, &prepare_parent(files, path)?),
            Self::Remove { path, .. } => check_directory_of(files, path),
            Self::Rename { from, to } => {
                check_directory_of(files, from)?;
                check_usable(files, &prepare_parent(files, to)?)
            }
            Self::WriteRecord { record, .. } => {
                let records = files.layout.records().map_err(|error| failed("creating a directory", error))?;
                check_usable(files, &records)?;
                refuse_directory(&records, record)
            }
            Self::RemoveRecord { record } => match open_records(files)? {
                Some(records) => check_usable(files, &records).and_then(|()| refuse_directory(&records, record)),
                None => Ok(()),
            },
        }
    }

    /// Flushes the directories of the change, even if another process made it. Directories that another program
    /// replaced are skipped.
    pub(crate) fn sync(&self, files: &Transaction<'_>) -> Result<(), StoreError> {
        let paths = match self {
            Self::Write { path, .. } | Self::Remove { path, .. } => [Some(path), None],
            Self::Rename { from, to } => [Some(from), Some(to)],
            Self::WriteRecord { .. } | Self::RemoveRecord { .. } => {
                let Some(records) = open_records(files)? else { return Ok(()) };
                return disk::sync_directory(&records).map_err(|error| failed("flushing a directory", error));
            }
        };
        paths.into_iter().flatten().flat_map(MemoryPath::parents).try_for_each(|directory| {
            match files.tree.open_directory(&directory) {
                Ok(Some(directory)) => {
                    disk::sync_directory(&directory).map_err(|error| failed("flushing a directory", error))
                }
                Err(error) if is_transient(&error) => Err(error),
                Ok(None) | Err(_) => Ok(()),
            }
        })
    }
}

/// Whether the failure is temporary, such as a full disk, so that the step can be retried later.
pub(crate) fn is_transient(error: &StoreError) -> bool {
    matches!(error, StoreError::Failure { kind, .. } if *kind != FailureKind::AccessDenied)
}

fn write(
    files: &Transaction<'_>,
    path: &MemoryPath,
    staged: &TemporaryName,
    replaces: Option<&[u8]>,
) -> Result<(), StoreError> {
    const OPERATION: &str = "moving a file into place";
    let waiting = disk::metadata(&files.staging, staged.as_name()).map_err(|error| failed(OPERATION, error))?;
    if waiting.is_none() {
        return Ok(()); // already moved
    }
    let parent = prepare_parent(files, path)?;
    let moved = match replaces {
        None => disk::rename_new(&files.staging, staged.as_name(), &parent, Name::of(path)?),
        Some(version) if has_version(files, path, &parent, version)? => {
            disk::rename_over(&files.staging, staged.as_name(), &parent, Name::of(path)?)
        }
        Some(_) => return Err(StoreError::VersionMismatch { path: path.clone() }),
    };
    moved.map_err(|error| refused(path, OPERATION, error))?;
    sync_above(files, path)
}

/// Whether the file has the version. Reading takes time, so the stamp is compared before and after it.
fn has_version(files: &Transaction<'_>, path: &MemoryPath, parent: &Dir, version: &[u8]) -> Result<bool, StoreError> {
    let name = Name::of(path)?;
    let stamp = || disk::file_stamp(parent, name).map_err(|error| failed("reading file metadata", error));
    let before = stamp()?;
    let is_at_version = matches!(files.tree.stat(path)?, Stat::File(found) if found.as_bytes() == version);
    Ok(is_at_version && before == stamp()?)
}

fn remove(files: &Transaction<'_>, path: &MemoryPath, removed: &TemporaryName) -> Result<(), StoreError> {
    const OPERATION: &str = "removing a file or directory";
    let gone = disk::metadata(&files.staging, removed.as_name()).map_err(|error| failed(OPERATION, error))?;
    if gone.is_some() || matches!(files.tree.find(path)?, Location::Absent) {
        return Ok(());
    }
    let Some(parent) = path.parent() else {
        return files.layout.remove_memories(&files.staging, removed.as_name());
    };
    if let Some(directory) = files.tree.open_directory(&parent)? {
        let moved = disk::rename_new(&directory, Name::of(path)?, &files.staging, removed.as_name());
        moved.map_err(|error| failed(OPERATION, error))?;
        disk::sync_directory(&directory).map_err(|error| unconfirmed(OPERATION, error))?;
    }
    prune_above(files, path);
    Ok(())
}

fn rename(files: &Transaction<'_>, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
    const OPERATION: &str = "renaming";
    let Some(parent) = from.parent() else { return Ok(()) };
    if matches!(files.tree.find(from)?, Location::Absent) {
        return Ok(()); // already moved
    }
    if let Some(from_directory) = files.tree.open_directory(&parent)? {
        let to_directory = prepare_parent(files, to)?;
        let moved = disk::rename_new(&from_directory, Name::of(from)?, &to_directory, Name::of(to)?);
        moved.map_err(|error| refused(to, OPERATION, error))?;
        sync_above(files, to)?;
        disk::sync_directory(&from_directory).map_err(|error| unconfirmed(OPERATION, error))?;
    }
    prune_above(files, from);
    Ok(())
}

fn write_record(files: &Transaction<'_>, record: &RecordName, staged: &TemporaryName) -> Result<(), StoreError> {
    const OPERATION: &str = "writing a record";
    let waiting = disk::metadata(&files.staging, staged.as_name()).map_err(|error| failed(OPERATION, error))?;
    if waiting.is_none() {
        return Ok(()); // already moved
    }
    let records = files.layout.records().map_err(|error| failed(OPERATION, error))?;
    let file = RecordFileName::of(record);
    let moved = disk::rename_over(&files.staging, staged.as_name(), &records, file.as_name());
    moved.map_err(|error| failed(OPERATION, error))?;
    disk::sync_directory(&records).map_err(|error| unconfirmed(OPERATION, error))
}

fn remove_record(files: &Transaction<'_>, record: &RecordName) -> Result<(), StoreError> {
    const OPERATION: &str = "removing a record";
    let Some(records) = open_records(files)? else { return Ok(()) };
    match records.remove_file(RecordFileName::of(record).as_name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(OPERATION, error)),
        Ok(()) => disk::sync_directory(&records).map_err(|error| unconfirmed(OPERATION, error)),
    }
}

fn open_records(files: &Transaction<'_>) -> Result<Option<Dir>, StoreError> {
    files.layout.existing_records().map_err(|error| failed("opening a directory", error))
}

/// Refuses a directory at the path of a record, because renaming and removing a file would fail there.
fn refuse_directory(records: &Dir, record: &RecordName) -> Result<(), StoreError> {
    let file = RecordFileName::of(record);
    let found = disk::metadata(records, file.as_name()).map_err(|error| failed("checking a record", error))?;
    if found.is_some_and(|found| found.is_dir()) {
        let message = format!("`.memory-tool/records/{}` is a directory", file.as_name());
        return Err(failed("checking a record", io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    Ok(())
}

/// Opens the parent directory of `path`. Creates missing directories and removes empty ones at `path` itself. This is
/// invisible until `path` exists.
fn prepare_parent(files: &Transaction<'_>, path: &MemoryPath) -> Result<Dir, StoreError> {
    const OPERATION: &str = "creating a directory";
    let parent = path.parent().unwrap_or_else(MemoryPath::root);
    let parent = match files.tree.resolve(&parent)? {
        Some(Resolution::Complete(parent)) => parent,
        Some(Resolution::Missing { deepest, missing }) => missing.iter().try_fold(deepest, |parent, missing| {
            let made = make_directory(files, &parent, Name::of(missing)?);
            made.map_err(|error| refused(path, OPERATION, error))
        })?,
        Some(Resolution::File { path }) => return Err(StoreError::NotADirectory { path }),
        None => return Err(failed(OPERATION, io::Error::from(io::ErrorKind::NotFound))),
    };
    if matches!(files.tree.find(path)?, Location::Absent) {
        disk::remove_empty_directories(&parent, Name::of(path)?).map_err(|error| failed(OPERATION, error))?;
    }
    Ok(parent)
}

fn make_directory(files: &Transaction<'_>, parent: &Dir, name: Name<'_>) -> io::Result<Dir> {
    disk::create_directory(&files.staging, parent, name)?;
    disk::sync_directory(parent)?;
    disk::open_directory(parent, name)
}

/// Removes the directories above `path` that became empty (`[P5]`). Stops at the first error, because an empty
/// directory is invisible.
fn prune_above(files: &Transaction<'_>, path: &MemoryPath) {
    for directory in path.parents() {
        let (Some(parent), Ok(name)) = (directory.parent(), Name::of(&directory)) else { return };
        match files.tree.open_directory(&parent) {
            Ok(Some(parent)) if parent.remove_dir(name).is_ok() => {}
            _ => return,
        }
    }
}

/// Flushes the directories above a new path, up to `memories/`. A process that ended before it could flush may have
/// created one of them.
fn sync_above(files: &Transaction<'_>, path: &MemoryPath) -> Result<(), StoreError> {
    const OPERATION: &str = "flushing a directory";
    for directory in path.parents() {
        let opened = files.tree.open_directory(&directory);
        if let Some(directory) = opened.map_err(|error| unconfirmed(OPERATION, io::Error::other(error)))? {
            disk::sync_directory(&directory).map_err(|error| unconfirmed(OPERATION, error))?;
        }
    }
    Ok(())
}

fn check_directory_of(files: &Transaction<'_>, path: &MemoryPath) -> Result<(), StoreError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    match files.tree.open_directory(&parent)? {
        Some(directory) => check_usable(files, &directory),
        None => Ok(()),
    }
}

/// Checks that entries can be renamed between the directory and the staging directory.
fn check_usable(files: &Transaction<'_>, directory: &Dir) -> Result<(), StoreError> {
    disk::check_movable(directory, &files.staging).map_err(|error| failed("checking a directory", error))
}

/// The error for a path that could not be created. Another program may have just created it.
fn refused(path: &MemoryPath, operation: &'static str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
            StoreError::AlreadyExists { path: path.clone() }
        }
        _ => failed(operation, error),
    }
}
