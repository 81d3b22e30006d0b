//! [`Transaction`]: how a batch changes the files, in one step or through the journal.

use std::hash::{BuildHasher as _, Hasher as _};
use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{Batch, Change, MemoryPath, StoreError};

use crate::disk;
use crate::failure::{failed, unconfirmed};
use crate::journal::{self, Step};
use crate::layout::Layout;
use crate::tree::{Descent, Place, Tree, name_of};

/// The files of a store while its lock is held exclusively.
pub(crate) struct Transaction<'a> {
    layout: &'a Layout,
    private: Dir,
    staging: Dir,
    tree: Tree,
}

impl<'a> Transaction<'a> {
    /// Opens the files. Completes what a process that ended left decided, and sweeps up what it left undecided.
    pub(crate) fn begin(layout: &'a Layout) -> Result<Self, StoreError> {
        let open = || {
            let (private, staging) = (layout.private()?, layout.staging()?);
            Ok(Self { layout, private, staging, tree: layout.tree_or_create()? })
        };
        let transaction = open().map_err(|error| failed("opening the store", error))?;
        transaction.complete_journal()?;
        transaction.sweep_staging();
        Ok(transaction)
    }

    /// Applies the batch.
    pub(crate) fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let applied = self.check_and_perform(batch);
        if applied.is_err() && journal::is_pending(&self.private).is_ok_and(|is_pending| !is_pending) {
            self.sweep_staging();
        }
        applied
    }

    fn check_and_perform(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, expected) in batch.preconditions() {
            expected.check(path, &self.tree.read(path)?)?;
        }
        for change in batch.changes() {
            self.check(change)?;
        }
        let steps = batch.into_changes().into_iter().map(|change| self.stage(change));
        match steps.collect::<Result<Vec<_>, _>>()?.as_slice() {
            [] => Ok(()),
            [step] => self.perform(step),
            steps => self.perform_through_journal(steps),
        }
    }

    /// Checks that the change can be made. The changes of a batch are disjoint, so none depends on another.
    fn check(&self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, .. } => self.check_write(path),
            Change::Remove { path } => self.check_exists(path),
            Change::Rename { from, to } => self.check_rename(from, to),
        }
    }

    fn check_write(&self, path: &MemoryPath) -> Result<(), StoreError> {
        self.refuse_file_above(path)?;
        match self.tree.find(path)? {
            Place::Directory => Err(StoreError::AlreadyExists { path: path.clone() }),
            Place::Absent | Place::File { .. } => Ok(()),
        }
    }

    fn check_exists(&self, path: &MemoryPath) -> Result<(), StoreError> {
        match self.tree.find(path)? {
            Place::Absent => Err(StoreError::NotFound { path: path.clone() }),
            Place::Directory | Place::File { .. } => Ok(()),
        }
    }

    fn check_rename(&self, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        self.check_exists(from)?;
        self.refuse_file_above(to)?;
        if !matches!(self.tree.find(to)?, Place::Absent) {
            return Err(StoreError::AlreadyExists { path: to.clone() });
        }
        if to.as_str().len() > from.as_str().len() {
            for file in self.tree.files_beneath(from) {
                file?.path.rebase(from, to)?;
            }
        }
        Ok(())
    }

    fn refuse_file_above(&self, path: &MemoryPath) -> Result<(), StoreError> {
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.tree.descend(&parent)? {
            Some(Descent::File { path }) => Err(StoreError::NotADirectory { path }),
            _ => Ok(()),
        }
    }

    /// Turns a change into a step, with its new contents on the disk.
    fn stage(&self, change: Change) -> Result<Step, StoreError> {
        match change {
            Change::Write { path, content } => {
                let staged = temporary_name();
                let created = disk::create_file(&self.staging, &staged, &content);
                created.map_err(|error| failed("writing a file", error))?;
                Ok(Step::Write { path, staged })
            }
            Change::Remove { path } => Ok(Step::Remove { path }),
            Change::Rename { from, to } => Ok(Step::Rename { from, to }),
        }
    }

    fn perform_through_journal(&self, steps: &[Step]) -> Result<(), StoreError> {
        let decided = journal::decide(&self.private, &self.staging, steps);
        decided.map_err(|error| failed("writing the journal", error))?;
        let confirmed = disk::sync_directory(&self.private);
        confirmed.map_err(|error| unconfirmed("writing the journal", error))?;
        self.complete_journal().map_err(|error| unconfirmed("completing the journal", io::Error::other(error)))
    }

    fn complete_journal(&self) -> Result<(), StoreError> {
        let decided = journal::read(&self.private).map_err(|error| failed("reading the journal", error))?;
        let Some(steps) = decided else { return Ok(()) };
        for step in &steps {
            match self.perform(step) {
                // Another program took the free path: the file stays where it was, and nothing is lost.
                Err(StoreError::AlreadyExists { .. }) => {}
                performed => performed?,
            }
        }
        journal::remove(&self.private).map_err(|error| failed("removing the journal", error))
    }

    /// Makes the change. A step that was made before is left alone, so a journal can be completed again and again.
    fn perform(&self, step: &Step) -> Result<(), StoreError> {
        match step {
            Step::Write { path, staged } => self.perform_write(path, staged),
            Step::Remove { path } => self.perform_remove(path),
            Step::Rename { from, to } => self.perform_rename(from, to),
        }
    }

    fn perform_write(&self, path: &MemoryPath, staged: &str) -> Result<(), StoreError> {
        const OPERATION: &str = "moving a file into place";
        let is_staged = disk::metadata(&self.staging, staged).map_err(|error| failed(OPERATION, error))?.is_some();
        if !is_staged {
            return Ok(());
        }
        let replaces = matches!(self.tree.find(path)?, Place::File { .. });
        let parent = self.make_room(path)?;
        let moved = if replaces {
            disk::rename_over(&self.staging, staged, &parent, name_of(path))
        } else {
            disk::rename_new(&self.staging, staged, &parent, name_of(path))
        };
        moved.map_err(|error| refused(path, OPERATION, error))?;
        disk::sync_directory(&parent).map_err(|error| unconfirmed(OPERATION, error))
    }

    fn perform_remove(&self, path: &MemoryPath) -> Result<(), StoreError> {
        match self.tree.find(path)? {
            Place::Absent => Ok(()),
            Place::Directory => self.remove_directory(path),
            Place::File { parent } => self.remove_file(path, &parent),
        }
    }

    fn remove_file(&self, path: &MemoryPath, parent: &Dir) -> Result<(), StoreError> {
        const OPERATION: &str = "removing a file";
        parent.remove_file(name_of(path)).map_err(|error| failed(OPERATION, error))?;
        disk::sync_directory(parent).map_err(|error| unconfirmed(OPERATION, error))?;
        self.prune_above(path)
    }

    /// Takes the directory out of sight in one step, and then removes it at leisure.
    fn remove_directory(&self, path: &MemoryPath) -> Result<(), StoreError> {
        const OPERATION: &str = "removing a directory";
        let removed = temporary_name();
        match path.parent() {
            None => {
                let replaced = self.layout.replace_memories(&self.staging, &removed);
                replaced.map_err(|error| failed(OPERATION, error))?;
            }
            Some(parent) => {
                let Some(parent) = self.tree.open_directory(&parent)? else { return Ok(()) };
                let moved = disk::rename_new(&parent, name_of(path), &self.staging, &removed);
                moved.map_err(|error| failed(OPERATION, error))?;
                disk::sync_directory(&parent).map_err(|error| unconfirmed(OPERATION, error))?;
                self.prune_above(path)?;
            }
        }
        let _ = disk::remove_all(&self.staging, &removed); // else the next transaction sweeps it up
        Ok(())
    }

    fn perform_rename(&self, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        const OPERATION: &str = "renaming";
        let Some(from_directory) = from.parent() else { return Ok(()) };
        let from_directory = match (self.tree.find(from)?, self.tree.open_directory(&from_directory)?) {
            (Place::Directory | Place::File { .. }, Some(from_directory)) => from_directory,
            _ => return Ok(()),
        };
        let to_directory = self.make_room(to)?;
        let moved = disk::rename_new(&from_directory, name_of(from), &to_directory, name_of(to));
        moved.map_err(|error| refused(to, OPERATION, error))?;
        disk::sync_directory(&to_directory).map_err(|error| unconfirmed(OPERATION, error))?;
        disk::sync_directory(&from_directory).map_err(|error| unconfirmed(OPERATION, error))?;
        self.prune_above(from)
    }

    /// Opens the directory that `path` is to be made in. Makes the missing ones above it, and clears empty directories of
    /// other programs out of its way; until the path itself is made, nobody sees any of that.
    fn make_room(&self, path: &MemoryPath) -> Result<Dir, StoreError> {
        const OPERATION: &str = "making a directory";
        let parent = path.parent().unwrap_or_else(MemoryPath::root);
        let parent = match self.tree.descend(&parent)? {
            Some(Descent::Complete(parent)) => parent,
            Some(Descent::Missing { deepest, missing }) => {
                let made = self.make_directories(deepest, &missing);
                made.map_err(|error| refused(path, OPERATION, error))?
            }
            Some(Descent::File { path }) => return Err(StoreError::NotADirectory { path }),
            None => return Err(failed(OPERATION, io::Error::from(io::ErrorKind::NotFound))),
        };
        if matches!(self.tree.find(path)?, Place::Absent) {
            disk::remove_empty_directories(&parent, name_of(path)).map_err(|error| failed(OPERATION, error))?;
        }
        Ok(parent)
    }

    fn make_directories(&self, deepest: Dir, missing: &[MemoryPath]) -> io::Result<Dir> {
        missing.iter().try_fold(deepest, |parent, path| {
            disk::create_directory(&self.staging, &parent, name_of(path), &temporary_name())?;
            disk::sync_directory(&parent)?;
            disk::open_directory(&parent, name_of(path))
        })
    }

    /// Removes the directories above `path` that it leaves empty (`[P5]`).
    fn prune_above(&self, path: &MemoryPath) -> Result<(), StoreError> {
        for directory in path.parents() {
            let Some(parent) = directory.parent() else { break };
            let Some(parent) = self.tree.open_directory(&parent)? else { break };
            // It fails where something is left in it. An empty directory that stays is nothing, for the contract.
            if parent.remove_dir(name_of(&directory)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes what was left in the staging directory. What cannot be removed now is tried again by the next transaction.
    fn sweep_staging(&self) {
        for entry in self.staging.entries().into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str() {
                let _ = disk::remove_all(&self.staging, name);
            }
        }
    }
}

/// A name that no other file in the staging directory has. It is random: in a container the next process has the same id.
fn temporary_name() -> String {
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{random:016x}")
}

/// Why a path that was to be made could not be: another program may have taken it just before.
fn refused(path: &MemoryPath, operation: &'static str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
            StoreError::AlreadyExists { path: path.clone() }
        }
        _ => failed(operation, error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memory_tool_core::Node;

    use super::*;

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    fn store(base: &Path) -> Layout {
        let layout = Layout::open(base).unwrap();
        for name in ["edited", "removed/a/b", "moved/c"] {
            let batch = Batch::new().write(path(&format!("/memories/{name}")), b"old".to_vec()).unwrap();
            Transaction::begin(&layout).unwrap().apply(batch).unwrap();
        }
        layout
    }

    fn batch() -> Batch {
        let batch = Batch::new().remove(path("/memories/removed")).unwrap();
        let batch = batch.write(path("/memories/edited"), b"new".to_vec()).unwrap();
        let batch = batch.write(path("/memories/made/d"), b"new".to_vec()).unwrap();
        batch.rename(path("/memories/moved"), path("/memories/to/moved")).unwrap()
    }

    fn contents(layout: &Layout) -> Vec<(String, Vec<u8>)> {
        let tree = layout.tree().unwrap();
        let files = tree.files_beneath(&MemoryPath::root()).map(|file| file.unwrap().path);
        let mut contents: Vec<_> = files.map(|path| (path.to_string(), content(&tree, &path))).collect();
        contents.sort();
        contents
    }

    fn content(tree: &Tree, path: &MemoryPath) -> Vec<u8> {
        match tree.read(path).unwrap() {
            Node::File(file) => file.content,
            other => panic!("{path} is {other:?}"),
        }
    }

    fn staging_is_empty(layout: &Layout) -> bool {
        layout.staging().unwrap().entries().unwrap().next().is_none()
    }

    #[test]
    fn x1_a_decided_batch_is_completed_from_wherever_it_stopped() {
        let changed = [
            ("/memories/edited".to_owned(), b"new".to_vec()),
            ("/memories/made/d".to_owned(), b"new".to_vec()),
            ("/memories/to/moved/c".to_owned(), b"old".to_vec()),
        ];
        for done in 0..=4 {
            let base = tempfile::tempdir().unwrap();
            let layout = store(base.path());
            let interrupted = Transaction::begin(&layout).unwrap();
            let steps: Vec<_> =
                batch().into_changes().into_iter().map(|step| interrupted.stage(step).unwrap()).collect();
            journal::decide(&interrupted.private, &interrupted.staging, &steps).unwrap();
            for step in &steps[..done] {
                interrupted.perform(step).unwrap();
            }
            drop(interrupted);
            Transaction::begin(&layout).unwrap();
            assert_eq!(contents(&layout), changed, "after {done} steps");
            assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
        }
    }

    #[test]
    fn x1_a_batch_that_was_not_decided_never_happened() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let interrupted = Transaction::begin(&layout).unwrap();
        for change in batch().into_changes() {
            interrupted.stage(change).unwrap();
        }
        drop(interrupted);
        Transaction::begin(&layout).unwrap();
        assert_eq!(contents(&layout), before);
        assert!(staging_is_empty(&layout));
    }

    #[test]
    fn a_decided_rename_to_a_path_that_another_program_took_loses_nothing() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let interrupted = Transaction::begin(&layout).unwrap();
        let steps: Vec<_> = batch().into_changes().into_iter().map(|step| interrupted.stage(step).unwrap()).collect();
        journal::decide(&interrupted.private, &interrupted.staging, &steps).unwrap();
        std::fs::create_dir(base.path().join("memories/to")).unwrap();
        std::fs::write(base.path().join("memories/to/moved"), "theirs").unwrap();
        Transaction::begin(&layout).unwrap();
        let kept = contents(&layout);
        assert!(kept.contains(&("/memories/moved/c".to_owned(), b"old".to_vec())), "{kept:?}");
        assert!(kept.contains(&("/memories/to/moved".to_owned(), b"theirs".to_vec())), "{kept:?}");
    }

    #[test]
    fn an_empty_batch_leaves_no_journal() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        Transaction::begin(&layout).unwrap().apply(Batch::new()).unwrap();
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap());
    }

    #[test]
    fn a_batch_of_which_one_change_cannot_be_made_changes_nothing() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let refused = batch().remove(path("/memories/missing")).unwrap();
        let error = Transaction::begin(&layout).unwrap().apply(refused).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
        assert_eq!(contents(&layout), before);
    }
}
