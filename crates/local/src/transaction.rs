//! [`Transaction`]: checks and applies a batch, either as one step or through the journal.

use std::cell::RefCell;
use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{
    Batch, Change, MemoryPath, Quota, RecordChange, RecordName, Stat, StoreError, StoreState, Usage, Version,
};

use crate::disk;
use crate::failure::{failed, unconfirmed};
use crate::journal;
use crate::layout::Layout;
use crate::name::{Name, TemporaryName};
use crate::state::State;
use crate::step::{Step, is_transient};
use crate::tree::{Location, Resolution, Tree};
use crate::usage_cache::UsageCache;

/// The files of a store while its lock is held exclusively.
pub(crate) struct Transaction<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) staging: Dir,
    pub(crate) tree: Tree,
    private: Dir,
}

impl<'a> Transaction<'a> {
    /// Opens the files. Completes committed changes of a process that ended, and removes its uncommitted ones.
    pub(crate) fn begin(layout: &'a Layout) -> Result<Self, StoreError> {
        let open = || {
            let (private, staging) = (layout.private()?, layout.staging()?);
            Ok(Self { layout, staging, tree: layout.tree_or_create()?, private })
        };
        let transaction = open().map_err(|error| failed("opening the store", error))?;
        transaction.complete_journal()?;
        transaction.remove_leftovers().map_err(|error| failed("removing leftovers", error))?;
        Ok(transaction)
    }

    /// Applies the batch.
    pub(crate) fn apply(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        cache.refresh(&self.private);
        let applied = self.check_and_perform(batch, cache);
        if applied.is_err() {
            cache.forget();
        }
        if journal::is_pending(&self.private).is_ok_and(|is_pending| !is_pending) {
            self.clear_staging();
        }
        applied
    }

    fn check_and_perform(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        batch.validate()?;
        let mut steps = batch.changes().iter().map(|change| self.plan(change)).collect::<Result<Vec<_>, _>>()?;
        steps.extend(batch.record_changes().iter().map(plan_record));
        self.check(batch, cache)?;
        steps.iter().zip(contents(batch)).try_for_each(|(step, content)| self.stage(step, content))?;
        match steps.as_slice() {
            [] => Ok(()),
            [step] => {
                cache.note(&self.private, &self.tree, batch.changes())?;
                step.perform(self)
            }
            steps => {
                // Programs that take no lock may have changed the files while the contents were flushed. A single step
                // detects that itself.
                self.check(batch, cache)?;
                cache.note(&self.private, &self.tree, batch.changes())?;
                self.perform_through_journal(steps)
            }
        }
    }

    /// Checks that the batch can be applied. Its changes do not overlap, so they are independent.
    fn check(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        batch.check_file_sizes(self.layout.max_file_bytes)?;
        match self.check_requirements(batch, cache) {
            // Another program may have freed space.
            Err(StoreError::OverQuota { .. }) if cache.forget() => self.check_requirements(batch, cache)?,
            checked => checked?,
        }
        batch.changes().iter().try_for_each(|change| match change {
            Change::Write { path, .. } => self.check_write(path),
            Change::Remove { path } => self.check_exists(path),
            Change::Rename { from, to } => self.check_rename(from, to),
        })
    }

    fn check_requirements(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        let state = State { layout: self.layout, tree: &self.tree };
        batch.check(&CachingState { state, quotas: batch.quotas(), cache: RefCell::new(cache) })
    }

    fn check_write(&self, path: &MemoryPath) -> Result<(), StoreError> {
        self.check_name(path)?;
        match self.tree.find(path)? {
            Location::File { .. } => Ok(()),
            Location::Directory => Err(StoreError::AlreadyExists { path: path.clone() }),
            Location::Absent => self.check_free(path),
        }
    }

    fn check_exists(&self, path: &MemoryPath) -> Result<(), StoreError> {
        match self.tree.find(path)? {
            Location::Absent => Err(StoreError::NotFound { path: path.clone() }),
            Location::Directory | Location::File { .. } => Ok(()),
        }
    }

    fn check_rename(&self, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        self.check_exists(from)?;
        self.check_name(to)?;
        match self.tree.find(to)? {
            Location::Absent => self.check_free(to)?,
            Location::Directory | Location::File { .. } => return Err(StoreError::AlreadyExists { path: to.clone() }),
        }
        if to.as_str().len() > from.as_str().len() {
            for file in self.tree.files_under(from) {
                file?.path.replace_prefix(from, to)?;
            }
        }
        Ok(())
    }

    /// Checks that a path can be created: its name is supported, and no file is above it.
    fn check_name(&self, path: &MemoryPath) -> Result<(), StoreError> {
        if !path.segments().all(disk::can_hold) {
            let message = "the operating system reserves a name in the path";
            let error = io::Error::new(io::ErrorKind::InvalidFilename, message);
            return Err(failed("checking a name", error));
        }
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.tree.resolve(&parent)? {
            Some(Resolution::File { path }) => Err(StoreError::NotADirectory { path }),
            _ => Ok(()),
        }
    }

    /// Checks that an absent path is free. It may be taken by an entry that is not part of the memory.
    fn check_free(&self, path: &MemoryPath) -> Result<(), StoreError> {
        if self.tree.is_free(path)? { Ok(()) } else { Err(StoreError::AlreadyExists { path: path.clone() }) }
    }

    /// Records the version that a change replaces, so that it does not apply to any other.
    fn plan(&self, change: &Change) -> Result<Step, StoreError> {
        Ok(match change {
            Change::Write { path, .. } => {
                let replaces = match self.tree.stat(path)? {
                    Stat::File(version) => Some(version.as_bytes().to_vec()),
                    Stat::Absent | Stat::Directory => None,
                };
                Step::Write { path: path.clone(), staged: TemporaryName::random(), replaces }
            }
            Change::Remove { path } => Step::Remove { path: path.clone(), removed: TemporaryName::random() },
            Change::Rename { from, to } => Step::Rename { from: from.clone(), to: to.clone() },
        })
    }

    /// Writes the new contents of a step, if any, to the disk.
    fn stage(&self, step: &Step, content: Option<&[u8]>) -> Result<(), StoreError> {
        if let (Some(staged), Some(content)) = (step.staged(), content) {
            let created = disk::create_file(&self.staging, staged.as_name(), content);
            created.map_err(|error| failed("writing a file", error))?;
        }
        Ok(())
    }

    fn perform_through_journal(&self, steps: &[Step]) -> Result<(), StoreError> {
        steps.iter().try_for_each(|step| step.prepare(self))?;
        let committed = journal::commit(&self.private, &self.staging, steps);
        committed.map_err(|error| failed("writing the journal", error))?;
        let flushed = disk::sync_directory(&self.private);
        flushed.map_err(|error| unconfirmed("writing the journal", error))?;
        let completed = self.complete_journal();
        match completed.map(|set_aside| set_aside.into_iter().next()) {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(unconfirmed("completing the journal", io::Error::other(error))),
        }
    }

    /// Applies the committed steps. Returns the errors of steps that another program made impossible; their contents
    /// are set aside.
    fn complete_journal(&self) -> Result<Vec<StoreError>, StoreError> {
        let committed = journal::read(&self.private).map_err(|error| failed("reading the journal", error))?;
        let Some(steps) = committed else { return Ok(Vec::new()) };
        let staged = steps.iter().try_for_each(|step| step.check_staged(self));
        staged.map_err(|error| failed("reading the journal", error))?;
        let mut impossible = Vec::new();
        for step in &steps {
            match step.perform(self) {
                Ok(()) => {}
                // Other programs do not write records. The step is retried once the operator has fixed the cause.
                Err(error) if is_transient(&error) || step.is_of_record() => return Err(error),
                Err(error) => {
                    let set_aside = self.set_aside(step);
                    set_aside.map_err(|error| failed("moving contents to `.memory-tool/conflicts`", error))?;
                    impossible.push(error);
                }
            }
        }
        steps.iter().try_for_each(|step| step.sync(self))?;
        journal::remove(&self.private).map_err(|error| failed("removing the journal", error))?;
        Ok(impossible)
    }

    /// Moves the new contents of a failed step to a directory for the operator.
    fn set_aside(&self, step: &Step) -> io::Result<()> {
        let Step::Write { staged, .. } = step else { return Ok(()) };
        let conflicts = self.layout.conflicts()?;
        disk::rename_new(&self.staging, staged.as_name(), &conflicts, staged.as_name())?;
        disk::sync_directory(&conflicts)
    }

    /// Removes the leftovers of a process that ended. The removal of its journal must be on the disk first: after a
    /// loss of power it could reappear without the evidence that its steps were done.
    fn remove_leftovers(&self) -> io::Result<()> {
        if self.staging.entries()?.next().is_some() {
            disk::sync_directory(&self.private)?;
            self.clear_staging();
        }
        Ok(())
    }

    /// Empties the staging directory. The next transaction retries what cannot be removed.
    fn clear_staging(&self) {
        for entry in self.staging.entries().into_iter().flatten().flatten() {
            let _ = Name::parse(&entry.file_name()).and_then(|name| disk::remove_all(&self.staging, name));
        }
    }
}

fn plan_record(change: &RecordChange) -> Step {
    match change {
        RecordChange::Write { name, .. } => Step::WriteRecord { record: name.clone(), staged: TemporaryName::random() },
        RecordChange::Remove { name } => Step::RemoveRecord { record: name.clone() },
    }
}

/// The new contents of all changes, in the order of their steps.
fn contents(batch: &Batch) -> impl Iterator<Item = Option<&[u8]>> {
    let of_files = batch.changes().iter().map(|change| match change {
        Change::Write { content, .. } => Some(content.as_slice()),
        Change::Remove { .. } | Change::Rename { .. } => None,
    });
    let of_records = batch.record_changes().iter().map(|change| match change {
        RecordChange::Write { content, .. } => Some(content.as_slice()),
        RecordChange::Remove { .. } => None,
    });
    of_files.chain(of_records)
}

/// The state of the store, with the usage of limited directories from the cache.
struct CachingState<'a> {
    state: State<'a>,
    quotas: &'a [(MemoryPath, Quota)],
    cache: RefCell<&'a mut UsageCache>,
}

impl StoreState for CachingState<'_> {
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        self.state.stat(path)
    }

    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        if self.quotas.iter().any(|(limited, _)| limited == path) {
            self.cache.borrow_mut().usage(self.state.tree, path)
        } else {
            self.state.usage(path)
        }
    }

    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError> {
        self.state.record(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memory_tool_core::{Node, OpenOptions};

    use super::*;
    use crate::records;

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    fn store(base: &Path) -> Layout {
        let layout = Layout::open(base, OpenOptions::new(), false).unwrap();
        for name in ["edited", "removed/a/b", "moved/c"] {
            let batch = Batch::new().write(path(&format!("/memories/{name}")), b"old".to_vec());
            Transaction::begin(&layout).unwrap().apply(&batch, &mut UsageCache::default()).unwrap();
        }
        let batch = Batch::new().write_record(record("written"), "old").write_record(record("removed"), "old");
        Transaction::begin(&layout).unwrap().apply(&batch, &mut UsageCache::default()).unwrap();
        layout
    }

    fn batch() -> Batch {
        Batch::new()
            .remove(path("/memories/removed"))
            .write(path("/memories/edited"), "new")
            .write(path("/memories/made/d"), "new")
            .rename(path("/memories/moved"), path("/memories/to/moved"))
            .write_record(record("written"), "new")
            .remove_record(record("removed"))
    }

    fn record(name: &str) -> RecordName {
        name.parse().unwrap()
    }

    /// The contents of the records `written` and `removed`.
    fn records(layout: &Layout) -> [Option<Vec<u8>>; 2] {
        ["written", "removed"].map(|name| records::read(layout, &record(name)).unwrap().map(|record| record.content))
    }

    /// The steps of the batch, with staged contents.
    fn steps(transaction: &Transaction<'_>) -> Vec<Step> {
        let batch = batch();
        let mut steps: Vec<_> = batch.changes().iter().map(|change| transaction.plan(change).unwrap()).collect();
        steps.extend(batch.record_changes().iter().map(plan_record));
        for (step, content) in steps.iter().zip(super::contents(&batch)) {
            transaction.stage(step, content).unwrap();
        }
        steps
    }

    fn contents(layout: &Layout) -> Vec<(String, Vec<u8>)> {
        let tree = layout.tree().unwrap();
        let files = tree.files_under(&MemoryPath::root()).map(|file| file.unwrap().path);
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
    fn x1_a_committed_batch_is_completed_after_any_step() {
        let changed = [
            ("/memories/edited".to_owned(), b"new".to_vec()),
            ("/memories/made/d".to_owned(), b"new".to_vec()),
            ("/memories/to/moved/c".to_owned(), b"old".to_vec()),
        ];
        for done in 0..=6 {
            let base = tempfile::tempdir().unwrap();
            let layout = store(base.path());
            let interrupted = Transaction::begin(&layout).unwrap();
            let steps = steps(&interrupted);
            journal::commit(&interrupted.private, &interrupted.staging, &steps).unwrap();
            for step in &steps[..done] {
                step.perform(&interrupted).unwrap();
            }
            drop(interrupted);
            Transaction::begin(&layout).unwrap();
            assert_eq!(contents(&layout), changed, "after {done} steps");
            assert_eq!(records(&layout), [Some(b"new".to_vec()), None], "after {done} steps");
            assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
        }
    }

    #[test]
    fn x1_an_uncommitted_batch_is_discarded() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let interrupted = Transaction::begin(&layout).unwrap();
        steps(&interrupted);
        drop(interrupted);
        Transaction::begin(&layout).unwrap();
        assert_eq!(contents(&layout), before);
        assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
        assert!(staging_is_empty(&layout));
    }

    #[test]
    fn a_committed_rename_to_a_taken_path_loses_no_file() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let interrupted = Transaction::begin(&layout).unwrap();
        let steps = steps(&interrupted);
        journal::commit(&interrupted.private, &interrupted.staging, &steps).unwrap();
        std::fs::create_dir(base.path().join("memories/to")).unwrap();
        std::fs::write(base.path().join("memories/to/moved"), "theirs").unwrap();
        Transaction::begin(&layout).unwrap();
        let kept = contents(&layout);
        assert!(kept.contains(&("/memories/moved/c".to_owned(), b"old".to_vec())), "{kept:?}");
        assert!(kept.contains(&("/memories/to/moved".to_owned(), b"theirs".to_vec())), "{kept:?}");
    }

    #[test]
    fn files_changed_before_the_journal_is_completed_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let interrupted = Transaction::begin(&layout).unwrap();
        let steps = steps(&interrupted);
        journal::commit(&interrupted.private, &interrupted.staging, &steps).unwrap();
        let on_disk = |path: &str| base.path().join("memories").join(path);
        let Step::Remove { .. } = &steps[0] else { panic!("the first step is the removal") };
        steps[0].perform(&interrupted).unwrap();
        std::fs::create_dir(on_disk("removed")).unwrap();
        for path in ["removed/again", "edited", "made"] {
            std::fs::write(on_disk(path), "theirs").unwrap();
        }
        Transaction::begin(&layout).unwrap();
        for path in ["removed/again", "edited", "made"] {
            assert_eq!(std::fs::read(on_disk(path)).unwrap(), b"theirs", "{path}");
        }
        let set_aside: Vec<_> = std::fs::read_dir(base.path().join(".memory-tool/conflicts")).unwrap().collect();
        assert_eq!(set_aside.len(), 2, "contents that could not be written are kept for the operator");
        assert_eq!(std::fs::read(set_aside[0].as_ref().unwrap().path()).unwrap(), b"new");
        assert!(on_disk("to/moved/c").exists(), "the other steps are applied");
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_blocks_only_its_own_step() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let interrupted = Transaction::begin(&layout).unwrap();
        journal::commit(&interrupted.private, &interrupted.staging, &steps(&interrupted)).unwrap();
        for name in ["to", "made"] {
            std::os::unix::fs::symlink(base.path(), base.path().join("memories").join(name)).unwrap();
        }
        Transaction::begin(&layout).unwrap();
        let expected =
            [("/memories/edited".to_owned(), b"new".to_vec()), ("/memories/moved/c".to_owned(), b"old".to_vec())];
        assert_eq!(contents(&layout), expected);
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
    }

    #[test]
    fn an_empty_batch_leaves_no_journal() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        Transaction::begin(&layout).unwrap().apply(&Batch::new(), &mut UsageCache::default()).unwrap();
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap());
    }

    #[test]
    fn a_batch_with_an_impossible_change_has_no_effect() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let refused = batch().remove(path("/memories/missing"));
        let error = Transaction::begin(&layout).unwrap().apply(&refused, &mut UsageCache::default()).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
        assert_eq!(contents(&layout), before);
        assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
    }
}
