//! The journal of a [`Transaction`]: commits, completes and undoes the steps of a batch.

use std::io;

use memory_tool_core::{ErrorKind, Problem, StoreError};

use crate::disk;
use crate::failure::{crosses_devices, failed, is_permanent, unconfirmed};
use crate::journal::{self, Committed};
use crate::name::{Name, TemporaryName};
use crate::sequence;
use crate::step::Step;
use crate::transaction::Transaction;
use crate::tree::Location;
use crate::undo::undo;

/// How a committed batch ended.
enum Outcome {
    Completed,
    /// All steps are undone, because one failed with this error.
    Undone(StoreError),
}

impl Transaction<'_> {
    /// Performs several steps. If a file system cannot move a directory as a whole, its files are moved one by one.
    pub(crate) fn perform_through_journal(&self, steps: &[Step]) -> Result<(), StoreError> {
        self.commit_and_complete(steps).or_else(|error| self.perform_one_by_one(steps, error))
    }

    /// Performs steps that failed and changed nothing again, with a step for each file of a directory. Returns the
    /// error if that is not its cause.
    pub(crate) fn perform_one_by_one(&self, steps: &[Step], error: StoreError) -> Result<(), StoreError> {
        if !crosses_devices(&error) {
            return Err(error);
        }
        self.files.tree.forget();
        let (mut smaller, mut is_smaller) = (Vec::new(), false);
        for step in steps {
            is_smaller |= self.add_one_by_one(step, &mut smaller)?;
        }
        if is_smaller { self.commit_and_complete(&smaller) } else { Err(error) }
    }

    /// Adds a step for each file of a directory that is moved or removed. Copies other steps, and returns `false`.
    fn add_one_by_one(&self, step: &Step, smaller: &mut Vec<Step>) -> Result<bool, StoreError> {
        let (Step::Rename { from: path, .. } | Step::Remove { path, .. } | Step::Write { path, .. }) = step;
        if !matches!(self.files.tree.find(path)?, Location::Directory) {
            smaller.push(step.clone());
            return Ok(false);
        }
        for file in self.files.tree.files_to_move(path)? {
            smaller.push(match step {
                Step::Rename { from, to } => Step::Rename { to: file.replace_prefix(from, to)?, from: file },
                _ => Step::Remove { path: file, removed: Some(TemporaryName::random()) },
            });
        }
        Ok(true)
    }

    /// An error means that nothing was changed, or that the outcome is unknown.
    fn commit_and_complete(&self, steps: &[Step]) -> Result<(), StoreError> {
        steps.iter().try_for_each(|step| step.check_removable(&self.files).and_then(|()| step.prepare(&self.files)))?;
        let private = &self.files.lock.private;
        let committed = self.files.staging().and_then(|staging| journal::commit(private, staging, steps));
        committed.map_err(|error| failed("writing the journal", error))?;
        disk::sync_directory(private).map_err(|error| unconfirmed("writing the journal", error))?;
        match self.complete_journal(|| self.files.flush_directories()) {
            Ok(Outcome::Completed) => Ok(()),
            Ok(Outcome::Undone(error)) => Err(error),
            Err(error) => Err(StoreError::failure(ErrorKind::OutcomeUnknown, "completing the journal", error)),
        }
    }

    /// Applies the committed steps, if there are some, or undoes them.
    fn complete_journal(&self, flush: impl Fn() -> io::Result<()>) -> Result<Outcome, StoreError> {
        let private = &self.files.lock.private;
        let committed = journal::read(private).map_err(|error| failed("reading the journal", error))?;
        let Some(Committed { steps, .. }) = committed else { return Ok(Outcome::Completed) };
        let staged = steps.iter().try_for_each(|step| step.check_staged(&self.files));
        staged.map_err(|error| failed("reading the journal", error))?;
        let outcome = self.complete_or_undo(&steps)?;
        flush().map_err(|error| failed("flushing a directory", error))?;
        let removed = match outcome {
            Outcome::Completed => journal::remove(private, &steps),
            Outcome::Undone(_) => journal::remove_undone(private),
        };
        removed.map_err(|error| failed("removing the journal", error))?;
        Ok(outcome)
    }

    fn complete_or_undo(&self, steps: &[Step]) -> Result<Outcome, StoreError> {
        for step in steps {
            self.files.tree.forget();
            match step.perform(&self.files) {
                Ok(()) => {}
                Err(error) if self.must_undo(&error) => {
                    self.undo_all(steps)?;
                    return Ok(Outcome::Undone(error));
                }
                Err(error) => return Err(self.stuck(step, error)),
            }
        }
        Ok(Outcome::Completed)
    }

    /// Whether an error undoes the batch. The batch of another process may have been acknowledged before a loss of
    /// power, but then no step of it is left to fail. Only a lookup can, for a reason that may pass.
    fn must_undo(&self, error: &StoreError) -> bool {
        !self.files.is_recovering.get() || is_permanent(error)
    }

    /// Undoes the last step first. Steps that were not done are skipped.
    fn undo_all(&self, steps: &[Step]) -> Result<(), StoreError> {
        let undo = |step| undo(step, &self.files).map_err(|error| self.stuck(step, error));
        steps.iter().rev().try_for_each(undo)?;
        self.files.tree.forget();
        Ok(())
    }

    /// The error for a journal that can be neither completed nor undone now.
    fn stuck(&self, step: &Step, error: StoreError) -> StoreError {
        let kind = match error.kind() {
            kind @ (ErrorKind::AccessDenied | ErrorKind::Busy | ErrorKind::Full | ErrorKind::UnsupportedName) => kind,
            _ => ErrorKind::Other,
        };
        let reason = format!("{step} ({})", Problem::of(&error).message);
        // If that fails too, the files cannot be read until the journal is completed.
        let _ =
            self.files.staging().and_then(|staging| journal::note_stuck(&self.files.lock.private, staging, &reason));
        StoreError::failure(kind, "completing an interrupted change", StuckBatch { step: step.to_string(), error })
    }

    /// Completes or removes what a process left that ended during a change. Its changes may not be on the disk yet.
    pub(crate) fn recover(&self) -> Result<(), StoreError> {
        let flush = || disk::sync_tree(&*self.files.layout.base()?);
        self.files.is_recovering.set(true);
        if sequence::is_unfinished(self.last) || self.is_journal_pending()? {
            flush().map_err(|error| failed("flushing the store", error))?;
        }
        self.complete_journal(flush)?;
        self.recover_log()?;
        self.files.note_all_flushed();
        self.remove_leftovers().map_err(|error| failed("removing leftovers", error))?;
        self.files.is_recovering.set(false);
        self.files.tree.forget();
        self.files.lock.note_recovered();
        Ok(())
    }

    fn is_journal_pending(&self) -> Result<bool, StoreError> {
        journal::is_pending(&self.files.lock.private).map_err(|error| failed("checking for a journal", error))
    }

    /// Removes the leftovers of a process that ended. The removal of its journal must be on the disk first: after a
    /// loss of power it could reappear without the evidence that its steps were done.
    fn remove_leftovers(&self) -> io::Result<()> {
        let staging = self.files.staging()?;
        let leftovers = disk::entries(staging)?;
        if !leftovers.is_empty() {
            disk::sync_directory(&self.files.lock.private)?;
        }
        for entry in leftovers {
            let _ = Name::parse(&entry.name).and_then(|name| disk::remove_all(staging, name));
        }
        Ok(())
    }
}

/// An interrupted change that blocks all others until its cause is removed.
#[derive(Debug, thiserror::Error)]
#[error(
    "an interrupted change can be neither completed nor undone at {step}. Remove the cause, then run \
     `memory-tool run --store DIR < /dev/null`. If that is impossible, `memory-tool verify --store DIR` names the files"
)]
struct StuckBatch {
    step: String,
    #[source]
    error: StoreError,
}
