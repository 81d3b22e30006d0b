//! [`undo`]: undoes the steps of a committed batch after one of them failed permanently.
//!
//! Contents of another program are never overwritten. If they are in the way, the old contents go to
//! `.memory-tool/conflicts`.

use std::io;

use memory_tool_core::{StoreError, StorePath};

use crate::applying::{is_in_staging, is_present, open_or_create_parent};
use crate::disk::{self, move_to_free};
use crate::failure::{failed, taken_or_failed};
use crate::locked_files::LockedFiles;
use crate::name::{Name, TemporaryName};
use crate::step::{Step, UndoWrite};

const OPERATION: &str = "undoing a change";

/// Undoes a step if it was done, also in part. This can be repeated.
pub(crate) fn undo(step: &Step, files: &LockedFiles<'_>) -> Result<(), StoreError> {
    files.tree.forget();
    match step {
        Step::Write { path, staged, replaces, undo: Some(undo), .. } => {
            take_back(files, path, staged, undo)?;
            match replaces {
                Some(replaced) if !is_at_version(files, path, replaced)? => put_back(files, path, &undo.kept),
                _ => Ok(()), // a new file, or the replaced one is still in place
            }
        }
        Step::Remove { path, removed: Some(removed) } => put_back(files, path, removed),
        Step::Rename { from, to } => rename_back(files, from, to),
        // Never part of a journal.
        Step::Write { undo: None, .. } | Step::Remove { removed: None, .. } => Ok(()),
    }
}

/// Moves the new contents back to the staging directory, unless another program changed them since.
fn take_back(
    files: &LockedFiles<'_>,
    path: &StorePath,
    staged: &TemporaryName,
    undo: &UndoWrite,
) -> Result<(), StoreError> {
    if is_in_staging(files, staged, OPERATION)? || !is_at_version(files, path, &undo.written)? {
        return Ok(());
    }
    let directory = path.parent().unwrap_or_else(|| path.root_above());
    let Some(parent) = files.tree.open_directory(&directory)? else { return Ok(()) };
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    let moved = disk::rename_new(&parent, Name::of(path)?, staging, staged.as_name());
    moved.map_err(|error| failed(OPERATION, error))?;
    files.clear_later(staged);
    files.tree.forget();
    files.tree.forget_version(path);
    files.flush_later(directory, parent);
    files.prune_later(path);
    Ok(())
}

/// Whether a file has a version. Another program may have put anything in its place.
pub(crate) fn is_at_version(files: &LockedFiles<'_>, path: &StorePath, version: &[u8]) -> Result<bool, StoreError> {
    match files.tree.is_at_version(path, version, None) {
        Err(error) if is_conflict(&error) => Ok(false),
        checked => checked,
    }
}

/// Moves an entry from the staging directory to its path, or sets it aside if another program took the path.
fn put_back(files: &LockedFiles<'_>, path: &StorePath, name: &TemporaryName) -> Result<(), StoreError> {
    if !is_in_staging(files, name, OPERATION)? {
        return Ok(());
    }
    match move_back(files, path, name) {
        Err(error) if is_conflict(&error) => set_aside(files, name).map_err(|error| failed(OPERATION, error))?,
        moved => moved?,
    }
    files.note_moved(name);
    files.tree.forget();
    files.tree.forget_version(path);
    files.layout.forget_flushed();
    Ok(())
}

fn move_back(files: &LockedFiles<'_>, path: &StorePath, name: &TemporaryName) -> Result<(), StoreError> {
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    if path.is_root() {
        return files.layout.put_root_back(path, staging, name.as_name());
    }
    let (directory, parent) = open_or_create_parent(files, path)?;
    let moved = move_to_free(staging, staging, name.as_name(), &parent, Name::of(path)?);
    moved.map_err(|error| taken_or_failed(path, OPERATION, error))?;
    files.flush_later(directory, parent);
    Ok(())
}

/// Moves what cannot be put back to a directory for the operator.
fn set_aside(files: &LockedFiles<'_>, name: &TemporaryName) -> io::Result<()> {
    let conflicts = files.layout.conflicts()?;
    disk::rename_new(files.staging()?, name.as_name(), &conflicts, name.as_name())?;
    disk::sync_directory(&conflicts)
}

/// Moves a renamed file or directory back. If another program took its old path, it stays.
fn rename_back(files: &LockedFiles<'_>, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
    match try_rename_back(files, from, to) {
        Err(error) if is_conflict(&error) => Ok(()),
        renamed => renamed,
    }
}

fn try_rename_back(files: &LockedFiles<'_>, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
    let Some(to_directory) = to.parent() else { return Ok(()) };
    if is_present(files, from)? || !is_present(files, to)? {
        return Ok(());
    }
    let Some(to_parent) = files.tree.open_directory(&to_directory)? else { return Ok(()) };
    let (from_directory, from_parent) = open_or_create_parent(files, from)?;
    let staging = files.staging().map_err(|error| failed(OPERATION, error))?;
    let moved = move_to_free(staging, &to_parent, Name::of(to)?, &from_parent, Name::of(from)?);
    moved.map_err(|error| taken_or_failed(from, OPERATION, error))?;
    files.tree.forget();
    files.layout.forget_flushed();
    files.flush_later(from_directory, from_parent);
    files.flush_later(to_directory, to_parent);
    files.prune_later(to);
    Ok(())
}

/// Whether another program changed the files of the batch.
pub(crate) fn is_conflict(error: &StoreError) -> bool {
    !matches!(error, StoreError::Failure { .. })
}
