//! [`Transaction`]: checks and applies a batch, either as one step or through the journal.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cap_std::fs::File;
use memory_tool_core::{
    Batch, Change, ErrorKind, Precondition, Quota, Stat, StoreError, StorePath, StoreState, Usage, Version,
};

use crate::disk;
use crate::failure::{failed, unconfirmed};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::locked_files::LockedFiles;
use crate::name::{Name, TemporaryName, is_remnant};
use crate::sequence::{self, Sequence};
use crate::step::{Step, UndoWrite};
use crate::tree::{Location, Tree, version_of};
use crate::usage_cache::UsageCache;

/// A change of the files, from the lock to its release.
pub(crate) struct Transaction<'a> {
    pub(crate) files: LockedFiles<'a>,
    sequence: Arc<Sequence>,
    /// The number of the change before this one.
    pub(crate) last: u64,
}

/// The maximum number of batches that share their flushes. Each keeps a file open.
const MAX_GROUP: usize = 64;

impl<'a> Transaction<'a> {
    /// Begins a change. Completes committed changes of a process that ended, and removes its uncommitted ones.
    pub(crate) fn begin(layout: &'a Layout, lock: Lock<'a>, deadline: Option<Instant>) -> Result<Self, StoreError> {
        let open = || {
            let files = LockedFiles::open(layout, lock)?;
            let sequence = files.lock.sequence()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let last = files.lock.last_change(sequence, deadline)?;
            sequence.write(sequence::unfinished(last))?;
            let sequence = Arc::clone(sequence);
            Ok(Self { files, sequence, last })
        };
        let transaction = open().map_err(|error| failed("opening the store", error))?;
        if sequence::is_unfinished(transaction.last) || !transaction.files.lock.has_recovered() {
            transaction.recover()?;
        }
        Ok(transaction)
    }

    /// Applies batches in order and returns their results. Stops after an unknown outcome, because the next transaction
    /// must recover first. Batches that do not affect each other share their flushes.
    pub(crate) fn apply(self, batches: &[&Batch], cache: &mut UsageCache) -> Vec<Result<(), StoreError>> {
        cache.refresh(self.last);
        let mut results = Vec::with_capacity(batches.len());
        let mut rest = batches;
        while !rest.is_empty() && !results.iter().any(is_unknown) {
            let (group, later) = rest.split_at(group_length(rest));
            results.extend(self.apply_together(group, cache));
            // A failed change may have been counted, and must not make room for a later batch.
            if results.iter().any(Result::is_err) {
                cache.forget();
            }
            rest = later;
        }
        if results.iter().any(|result| matches!(result, Err(StoreError::Failure { .. }))) {
            self.files.lock.note_failed();
        }
        if !results.iter().any(is_unknown) {
            self.end(cache);
        }
        results
    }

    /// Applies one batch, or several of at most one change.
    fn apply_together(&self, batches: &[&Batch], cache: &mut UsageCache) -> Vec<Result<(), StoreError>> {
        self.files.tree.forget();
        if let [batch] = batches
            && let Some(applied) = self.apply_through_log(batch, cache)
        {
            return vec![applied];
        }
        let cleared = batches.iter().map(|_| self.clear_log()).collect::<Vec<_>>();
        match batches {
            _ if cleared.iter().any(Result::is_err) => cleared,
            [batch] if needs_journal(batch) => vec![self.apply_through_journal(batch, cache)],
            group => self.apply_group(group, cache),
        }
    }

    /// Ends a transaction whose changes are complete and on the disk. Without this, the next one recovers.
    pub(crate) fn end(self, cache: &mut UsageCache) {
        cache.refresh(self.last);
        self.files.tree.forget();
        self.files.prune();
        self.files.clear_staging();
        let next = sequence::finished();
        if self.sequence.write(next).is_ok() {
            self.keep_log_end(next);
            cache.settle(next);
        }
    }

    /// Applies batches of at most one change.
    fn apply_group(&self, batches: &[&Batch], cache: &mut UsageCache) -> Vec<Result<(), StoreError>> {
        let staged = batches.iter().map(|batch| self.check_and_stage(batch, cache)).collect::<Vec<_>>();
        let mut results: Vec<_> = (flush_staged(staged).into_iter().zip(batches))
            .map(|(staged, batch)| {
                let steps = staged?;
                cache.note(&self.files.tree, batch.changes())?;
                if steps.iter().any(|step| step.staged().is_some()) {
                    self.files.tree.forget_entries(); // the flush took time
                }
                perform_directly(&self.files, &steps).or_else(|error| self.perform_one_by_one(&steps, error))
            })
            .collect();
        if let Err(error) = self.files.flush_directories() {
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(unconfirmed("flushing a directory", io::Error::new(error.kind(), error.to_string())));
            }
        }
        results
    }

    fn apply_through_journal(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        let steps = self.check_and_plan(batch, cache, true)?;
        self.stage_all(&steps, batch)?;
        // Programs that take no lock may have changed the files while the contents were flushed. A single step detects
        // that itself.
        self.files.tree.forget();
        self.check(batch, cache)?;
        cache.note(&self.files.tree, batch.changes())?;
        self.perform_through_journal(&steps)
    }

    /// Writes and flushes the new contents of a batch, with few open files.
    fn stage_all(&self, steps: &[Step], batch: &Batch) -> Result<(), StoreError> {
        let mut first = None; // reports the errors of all files that are flushed with it
        for (step, content) in steps.iter().zip(contents(batch)) {
            match self.stage(step, content)? {
                Some(file) if first.is_none() && steps.len() > FEW_FILES && disk::flushes_together(&file) => {
                    first = Some(file);
                }
                Some(file) if first.is_none() => flush_file(&file)?,
                _ => {}
            }
        }
        first.map_or(Ok(()), |first| disk::sync_file_system_of(&first)).map_err(|error| failed("writing a file", error))
    }

    /// Writes the new contents of a batch to the staging directory.
    fn check_and_stage(&self, batch: &Batch, cache: &mut UsageCache) -> Result<Staged, StoreError> {
        self.files.tree.forget_entries();
        if let Some((path, version)) = replaced_version(batch) {
            self.files.tree.presume(path, version);
        }
        let steps = self.check_and_plan(batch, cache, false)?;
        let files =
            steps.iter().zip(contents(batch)).filter_map(|(step, content)| self.stage(step, content).transpose());
        let files = files.collect::<Result<Vec<_>, _>>()?;
        Ok((steps, files))
    }

    pub(crate) fn check_and_plan(
        &self,
        batch: &Batch,
        cache: &mut UsageCache,
        is_journaled: bool,
    ) -> Result<Vec<Step>, StoreError> {
        batch.validate()?;
        let plan = |change| self.plan(change, is_journaled);
        let steps = batch.changes().iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        self.check(batch, cache)?;
        Ok(steps)
    }

    /// Checks that the batch can be applied. Its changes do not overlap, so they are independent.
    fn check(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        batch.check_file_sizes(self.files.layout.max_file_bytes)?;
        match self.check_requirements(batch, cache) {
            // Another program may have freed space.
            Err(StoreError::OverQuota { .. }) if cache.forget() => self.check_requirements(batch, cache)?,
            checked => checked?,
        }
        batch.changes().iter().try_for_each(|change| {
            change.check(&self.files.tree)?;
            match change {
                Change::Write { path, .. } => self.check_writable(path),
                Change::Remove { .. } => Ok(()),
                Change::Rename { from, to } => self.check_renamable(from, to),
            }
        })
    }

    fn check_requirements(&self, batch: &Batch, cache: &mut UsageCache) -> Result<(), StoreError> {
        batch.check(&CachingState { tree: &self.files.tree, quotas: batch.quotas(), cache: RefCell::new(cache) })
    }

    /// Checks what the disk adds to the rules of a write.
    fn check_writable(&self, path: &StorePath) -> Result<(), StoreError> {
        check_name(path)?;
        match self.files.tree.find(path)? {
            Location::File { stamp, .. } if stamp.access.is_write_protected() => {
                let reason = format!("The file {path} is write-protected, so it cannot be edited.");
                Err(StoreError::refused(path, "write-protection", reason))
            }
            Location::File { .. } | Location::Directory => Ok(()),
            Location::Absent => self.check_free(path),
        }
    }

    /// Checks what the disk adds to the rules of a rename, and that no path becomes too long.
    fn check_renamable(&self, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        check_name(to)?;
        self.check_free(to)?;
        if to.as_str().len() > from.as_str().len() && matches!(self.files.tree.find(from)?, Location::Directory) {
            for file in self.files.tree.files_under(from) {
                file?.path.replace_prefix(from, to)?;
            }
        }
        Ok(())
    }

    /// Checks that an absent path is free. It may be taken by an entry that is not part of the memory.
    fn check_free(&self, path: &StorePath) -> Result<(), StoreError> {
        if self.files.tree.is_free(path)? { Ok(()) } else { Err(StoreError::AlreadyExists { path: path.clone() }) }
    }

    /// Records the version that a change replaces, so that it does not apply to any other.
    pub(crate) fn plan(&self, change: &Change, is_journaled: bool) -> Result<Step, StoreError> {
        Ok(match change {
            Change::Write { path, content, .. } => {
                let replaces = match self.files.tree.stat(path)? {
                    Stat::File(version) => Some(version.as_bytes().to_vec()),
                    Stat::Absent | Stat::Directory => None,
                };
                let access = match self.files.tree.find(path)? {
                    Location::File { stamp, .. } => Some(stamp.access),
                    Location::Absent | Location::Directory => None,
                };
                let written = || version_of(content).as_bytes().to_vec();
                let undo = is_journaled.then(|| UndoWrite { kept: TemporaryName::random(), written: written() });
                Step::Write { path: path.clone(), staged: TemporaryName::random(), replaces, undo, access }
            }
            Change::Remove { path } => {
                let is_file = matches!(self.files.tree.find(path)?, Location::File { .. });
                let removed = (is_journaled || !is_file).then(TemporaryName::random);
                Step::Remove { path: path.clone(), removed }
            }
            Change::Rename { from, to } => Step::Rename { from: from.clone(), to: to.clone() },
        })
    }

    /// Writes the new contents of a step, if any, to a file that is not flushed yet.
    pub(crate) fn stage(&self, step: &Step, content: Option<Content<'_>>) -> Result<Option<File>, StoreError> {
        const OPERATION: &str = "writing a file";
        let (Some(staged), Some(content)) = (step.staged(), content) else { return Ok(None) };
        self.files.clear_later(staged);
        let created =
            self.files.staging().and_then(|staging| disk::write_new_file(staging, staged.as_name(), content.bytes));
        let file = created.map_err(|error| failed(OPERATION, error))?;
        if let Step::Write { path, access: Some(access), .. } = step
            && let Some(parent) = self.files.tree.open_directory(&path.parent().unwrap_or_else(StorePath::memories))?
        {
            let copied = disk::copy_access(&file, *access, &parent, Name::of(path)?);
            copied.map_err(|error| failed(OPERATION, error))?;
        }
        let Some(modified) = content.modified else { return Ok(Some(file)) };
        let file = file.into_std();
        let _ = file.set_modified(modified); // not every file system can keep every time
        Ok(Some(File::from_std(file)))
    }
}

/// Checks that the operating system supports the names of a path. Listings leave out names of removed files.
fn check_name(path: &StorePath) -> Result<(), StoreError> {
    if path.segments().all(|name| disk::can_hold(name) && !is_remnant(OsStr::new(name))) {
        return Ok(());
    }
    let message = "the operating system reserves a name in the path";
    Err(failed("checking a name", io::Error::new(io::ErrorKind::InvalidFilename, message)))
}

pub(crate) fn is_unknown(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }))
}

/// Performs the step of a batch that has one.
fn perform_directly(files: &LockedFiles<'_>, steps: &[Step]) -> Result<(), StoreError> {
    steps.iter().try_for_each(|step| step.check_removable(files).and_then(|()| step.perform(files)))
}

/// Whether a batch has several steps, which are repeated if the process ends before all are done.
fn needs_journal(batch: &Batch) -> bool {
    batch.changes().len() > 1
}

/// The number of batches, at least one, that do not affect each other and share their flushes.
fn group_length(batches: &[&Batch]) -> usize {
    let mut written = Vec::new();
    let shared = batches.iter().take(MAX_GROUP).take_while(|batch| {
        let Some(path) = only_written_path(batch) else { return false };
        let concerns = |changed: &&StorePath| {
            path.overlaps(changed) || batch.preconditions().iter().any(|(path, _)| path.overlaps(changed))
        };
        let is_independent = !written.iter().any(concerns);
        written.push(path);
        is_independent
    });
    shared.count().max(1)
}

/// The file that a batch replaces, and the version that it requires and nothing else: the first precondition that does
/// not hold is the error. Its step checks that version again.
fn replaced_version(batch: &Batch) -> Option<(&StorePath, &Version)> {
    match (batch.changes(), batch.preconditions()) {
        ([Change::Write { path, .. }], [(required, Precondition::Version(version))]) if required == path => {
            Some((path, version))
        }
        _ => None,
    }
}

/// The path of a batch that does nothing but write one file. Quotas depend on the other files.
fn only_written_path<'a>(batch: &&'a Batch) -> Option<&'a StorePath> {
    match batch.changes() {
        [Change::Write { path, .. }] if batch.quotas().is_empty() => Some(path),
        _ => None,
    }
}

/// The steps of a batch, and the files of their new contents.
type Staged = (Vec<Step>, Vec<File>);

/// Flushes the new contents of batches, and returns their steps.
fn flush_staged(staged: Vec<Result<Staged, StoreError>>) -> Vec<Result<Vec<Step>, StoreError>> {
    let files: Vec<_> = staged.iter().flatten().flat_map(|(_, files)| files).collect();
    let mut flushed = flush_files(&files).into_iter();
    let flush = |staged: Result<Staged, StoreError>| {
        let (steps, files) = staged?;
        let results: Vec<_> = flushed.by_ref().take(files.len()).collect();
        results.into_iter().collect::<io::Result<()>>().map_err(|error| failed("writing a file", error))?;
        Ok(steps)
    };
    staged.into_iter().map(flush).collect()
}

/// More files than this are flushed faster together with all others of the file system.
const FEW_FILES: usize = 4;

fn flush_files(files: &[&File]) -> Vec<io::Result<()>> {
    match files {
        [first, ..] if files.len() > FEW_FILES && disk::sync_file_system_of(first).is_ok() => {
            files.iter().map(|_| Ok(())).collect()
        }
        // Each reports its own error.
        _ => files.iter().map(|file| file.sync_all()).collect(),
    }
}

pub(crate) fn flush_file(file: &File) -> Result<(), StoreError> {
    file.sync_all().map_err(|error| failed("writing a file", error))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    bytes: &'a [u8],
    /// The time of the last write, if it is not now.
    modified: Option<SystemTime>,
}

/// The new contents of all changes, in the order of their steps.
fn contents(batch: &Batch) -> impl Iterator<Item = Option<Content<'_>>> {
    batch.changes().iter().map(Content::of)
}

impl<'a> Content<'a> {
    pub(crate) fn of(change: &'a Change) -> Option<Self> {
        match change {
            Change::Write { content, times, .. } => Some(Content { bytes: content, modified: times.modified }),
            Change::Remove { .. } | Change::Rename { .. } => None,
        }
    }
}

/// The state of the store, with the usage of limited directories from the cache.
struct CachingState<'a> {
    tree: &'a Tree<'a>,
    quotas: &'a [(StorePath, Quota)],
    cache: RefCell<&'a mut UsageCache>,
}

impl StoreState for CachingState<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        self.tree.stat(path)
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        if self.quotas.iter().any(|(limited, _)| limited == path) {
            self.cache.borrow_mut().usage(self.tree, path)
        } else {
            self.tree.usage(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memory_tool_core::{Node, OpenOptions};

    use super::*;
    use crate::journal;
    use crate::layout::Trust;
    use crate::lock::Mode;
    use crate::undo::undo;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    fn store(base: &Path) -> Layout {
        let layout = Layout::open(base, OpenOptions::new(), Trust::default()).unwrap();
        for name in ["edited", "removed/a/b", "moved/c"] {
            let batch = Batch::new().write(path(&format!("/memories/{name}")), b"old".to_vec());
            apply(&layout, &batch).unwrap();
        }
        let batch = Batch::new().write(path("/records/written"), "old").write(path("/records/removed"), "old");
        apply(&layout, &batch).unwrap();
        layout
    }

    fn begin(layout: &Layout) -> Transaction<'_> {
        Transaction::begin(layout, Lock::acquire(layout, Mode::Exclusive, None).unwrap(), None).unwrap()
    }

    /// A transaction of a process that found a journal, and has not completed it yet.
    fn begin_unrecovered(layout: &Layout) -> Transaction<'_> {
        let files = LockedFiles::open(layout, Lock::acquire(layout, Mode::Exclusive, None).unwrap()).unwrap();
        let sequence = Arc::clone(files.lock.sequence().unwrap().unwrap());
        Transaction { files, sequence, last: 1 }
    }

    fn apply(layout: &Layout, batch: &Batch) -> Result<(), StoreError> {
        begin(layout).apply(&[batch], &mut UsageCache::default()).remove(0)
    }

    fn recover(layout: &Layout) {
        begin(layout).end(&mut UsageCache::default());
    }

    /// A transaction that has committed the batch, and done this number of its steps.
    fn interrupted(layout: &Layout, done: usize) -> (Transaction<'_>, Vec<Step>) {
        let interrupted = begin(layout);
        let steps = steps(&interrupted);
        let files = &interrupted.files;
        journal::commit(&files.lock.private, files.staging().unwrap(), &steps).unwrap();
        steps[..done].iter().for_each(|step| step.perform(files).unwrap());
        (interrupted, steps)
    }

    fn batch() -> Batch {
        Batch::new()
            .remove(path("/memories/removed"))
            .write(path("/memories/edited"), "new")
            .write(path("/memories/made/d"), "new")
            .rename(path("/memories/moved"), path("/memories/to/moved"))
            .write(path("/records/written"), "new")
            .remove(path("/records/removed"))
    }

    /// The contents of the records `written` and `removed`.
    fn records(layout: &Layout) -> [Option<Vec<u8>>; 2] {
        let tree = layout.tree().unwrap();
        ["/records/written", "/records/removed"].map(|record| match tree.read(&path(record)).unwrap() {
            Node::File(file) => Some(file.content),
            _ => None,
        })
    }

    /// The steps of the batch, with staged contents.
    fn steps(transaction: &Transaction<'_>) -> Vec<Step> {
        let batch = batch();
        let steps: Vec<_> = batch.changes().iter().map(|change| transaction.plan(change, true).unwrap()).collect();
        for (step, content) in steps.iter().zip(super::contents(&batch)) {
            transaction.stage(step, content).unwrap().iter().try_for_each(flush_file).unwrap();
        }
        steps
    }

    fn contents(layout: &Layout) -> Vec<(String, Vec<u8>)> {
        let tree = layout.tree().unwrap();
        let files = tree.files_under(&StorePath::memories()).map(|file| file.unwrap().path);
        let mut contents: Vec<_> = files.map(|path| (path.to_string(), content(&tree, &path))).collect();
        contents.sort();
        contents
    }

    fn content(tree: &Tree<'_>, path: &StorePath) -> Vec<u8> {
        match tree.read(path).unwrap() {
            Node::File(file) => file.content,
            other => panic!("{path} is {other:?}"),
        }
    }

    fn staging_is_empty(layout: &Layout) -> bool {
        layout.staging_in(&layout.private().unwrap()).unwrap().entries().unwrap().next().is_none()
    }

    #[test]
    fn x1_a_committed_batch_is_completed_after_any_step() {
        for done in 0..=6 {
            let base = tempfile::tempdir().unwrap();
            let layout = store(base.path());
            drop(interrupted(&layout, done));
            recover(&layout);
            assert_eq!(contents(&layout), new_contents(), "after {done} steps");
            assert_eq!(records(&layout), [Some(b"new".to_vec()), None], "after {done} steps");
            assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
        }
    }

    #[test]
    fn x1_an_uncommitted_batch_is_discarded() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let interrupted = begin(&layout);
        steps(&interrupted);
        drop(interrupted);
        recover(&layout);
        assert_eq!(contents(&layout), before);
        assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
        assert!(staging_is_empty(&layout));
    }

    fn new_contents() -> Vec<(String, Vec<u8>)> {
        let new = [("edited", "new"), ("made/d", "new"), ("to/moved/c", "old")];
        new.map(|(name, content)| (format!("/memories/{name}"), content.as_bytes().to_vec())).into()
    }

    fn old_contents() -> Vec<(String, Vec<u8>)> {
        let old = |name: &str| (format!("/memories/{name}"), b"old".to_vec());
        ["edited", "moved/c", "removed/a/b"].map(old).into()
    }

    fn assert_undone(layout: &Layout, place: &str) {
        assert_eq!(contents(layout), old_contents(), "{place}");
        assert_eq!(records(layout), [Some(b"old".to_vec()), Some(b"old".to_vec())], "{place}");
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(layout), "{place}");
    }

    /// A permanent obstacle for a step.
    fn block(base: &Path, step: usize) -> std::path::PathBuf {
        let blocked = base.join(["", "memories/edited", "memories/made", "memories/to", "", ""][step]);
        let _ = std::fs::remove_file(&blocked);
        let _ = std::fs::remove_dir_all(&blocked);
        #[cfg(unix)]
        std::os::unix::fs::symlink(base, &blocked).unwrap();
        #[cfg(windows)]
        std::fs::write(&blocked, "theirs").unwrap();
        blocked
    }

    #[test]
    fn x1_a_batch_with_a_step_that_fails_for_good_is_undone() {
        for blocked in 1..=3 {
            let base = tempfile::tempdir().unwrap();
            let layout = store(base.path());
            drop(interrupted(&layout, blocked));
            let obstacle = block(base.path(), blocked);
            recover(&layout);
            std::fs::remove_file(obstacle).unwrap();
            let mut expected = old_contents();
            expected.retain(|(path, _)| blocked != 1 || path != "/memories/edited"); // replaced by the other program
            assert_eq!(contents(&layout), expected, "step {blocked}");
            assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())], "step {blocked}");
            assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
        }
    }

    /// A process that ends while it undoes a batch leaves each number of undone steps.
    #[test]
    fn x1_an_interrupted_undo_is_repeated() {
        for (done, undone) in [2, 6].into_iter().flat_map(|done| (0..=done).map(move |undone| (done, undone))) {
            for is_completed in [true, false] {
                let base = tempfile::tempdir().unwrap();
                let layout = store(base.path());
                let (interrupted, steps) = interrupted(&layout, done);
                for step in steps[..done].iter().rev().take(undone) {
                    undo(step, &interrupted.files).unwrap();
                }
                let place = format!("{done} steps, {undone} undone");
                if is_completed {
                    drop(interrupted);
                    recover(&layout);
                    assert_eq!(contents(&layout), new_contents(), "{place}");
                    continue;
                }
                drop(interrupted);
                let again = begin_unrecovered(&layout);
                again.files.is_recovering.set(true);
                steps.iter().rev().for_each(|step| undo(step, &again.files).unwrap());
                journal::remove_undone(&again.files.lock.private).unwrap();
                drop(again);
                recover(&layout);
                assert_undone(&layout, &place);
            }
        }
    }

    #[test]
    fn a_committed_rename_to_a_taken_path_is_undone() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        drop(interrupted(&layout, 0));
        std::fs::create_dir(base.path().join("memories/to")).unwrap();
        std::fs::write(base.path().join("memories/to/moved"), "theirs").unwrap();
        recover(&layout);
        let mut kept = contents(&layout);
        assert_eq!(kept.pop(), Some(("/memories/to/moved".to_owned(), b"theirs".to_vec())));
        assert_eq!(kept, old_contents());
    }

    /// The contents of the other program stay, and the old contents are kept.
    #[test]
    fn files_changed_before_the_journal_is_undone_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        drop(interrupted(&layout, 2));
        let on_disk = |path: &str| base.path().join("memories").join(path);
        std::fs::create_dir(on_disk("removed")).unwrap();
        for path in ["removed/again", "edited", "made"] {
            std::fs::write(on_disk(path), "theirs").unwrap();
        }
        recover(&layout);
        for path in ["removed/again", "edited", "made"] {
            assert_eq!(std::fs::read(on_disk(path)).unwrap(), b"theirs", "{path}");
        }
        assert!(on_disk("moved/c").exists());
        let set_aside: Vec<_> = std::fs::read_dir(base.path().join(".memory-tool/conflicts")).unwrap().collect();
        let mut set_aside: Vec<_> = set_aside.into_iter().map(|entry| entry.unwrap().path()).collect();
        set_aside.sort_by_key(|path| path.is_dir());
        let [edited, removed] = &set_aside[..] else { panic!("{set_aside:?}") };
        assert_eq!(std::fs::read(edited).unwrap(), b"old");
        assert_eq!(std::fs::read(removed.join("a/b")).unwrap(), b"old");
        assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap() && staging_is_empty(&layout));
    }

    /// The version that was read last is not compared with the file before the new contents are flushed.
    #[test]
    fn an_edit_of_a_version_that_another_program_replaced_has_no_effect() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let edited = path("/memories/edited");
        let Node::File(read) = layout.tree().unwrap().read(&edited).unwrap() else { panic!("a file") };
        std::fs::write(base.path().join("memories/edited"), "theirs").unwrap();
        let edit =
            Batch::new().require(edited.clone(), Precondition::Version(read.version)).write(edited.clone(), "new");
        let error = apply(&layout, &edit).unwrap_err();
        assert!(matches!(error, StoreError::VersionMismatch { .. }), "{error:?}");
        assert_eq!(content(&layout.tree().unwrap(), &edited), b"theirs");
        assert!(staging_is_empty(&layout));
    }

    #[test]
    fn an_empty_batch_leaves_no_journal() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        apply(&layout, &Batch::new()).unwrap();
        assert!(!journal::is_pending(&layout.private().unwrap()).unwrap());
    }

    #[test]
    fn removing_what_another_program_just_removed_finds_nothing() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let files = begin(&layout);
        for missing in ["/memories/missing", "/memories/missing/a"] {
            let missing = path(missing);
            let error = Step::Remove { path: missing.clone(), removed: None }.perform(&files.files).unwrap_err();
            assert!(matches!(&error, StoreError::NotFound { path } if *path == missing), "{error:?}");
        }
    }

    #[test]
    fn a_batch_with_an_impossible_change_has_no_effect() {
        let base = tempfile::tempdir().unwrap();
        let layout = store(base.path());
        let before = contents(&layout);
        let refused = batch().remove(path("/memories/missing"));
        let error = apply(&layout, &refused).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
        assert_eq!(contents(&layout), before);
        assert_eq!(records(&layout), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
    }
}
