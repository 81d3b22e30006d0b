//! Writing: waiting batches are planned one after another on the latest known state, and one commit with all of them is
//! created under the next number.
//!
//! A missing response proves nothing: the request may have been done. A response that the number is taken proves
//! nothing either, because the client may have repeated the request after its first attempt succeeded. In both cases,
//! the writer reads the number:
//!
//! | the log at this number | outcome of the commit | next step |
//! |---|---|---|
//! | has the commit's id | it was made | success |
//! | has another commit | it was not made and never will be: a number is taken once | plan again, for a later number |
//! | is free | nothing yet, but the request may arrive later | the very same bytes again |
//! | has the marker of a trimmed commit, with its id | as above | as above |
//!
//! One task at a time writes for all clones of a store. The future of a batch only waits for this task. If the future
//! is dropped, its batch is withdrawn, unless it is in a commit that was already sent.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{Either, join, join_all, select};
use memory_tool_core::{Batch, BoxError, ErrorKind, PathMapEdits, StoreError, lock, now};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::blocking::run_maybe_blocking;
use crate::bucket::Put;
use crate::commit::{Commit, Step, Stored, steps_of};
use crate::content::{FileRecord, seconds};
use crate::contention::AHEAD;
use crate::deadline::{Backoff, Deadline};
use crate::failure::Failure;
use crate::format::MAX_STEPS;
use crate::id::Id;
use crate::inner::Inner;
use crate::log::Entry;
use crate::manifest::Manifest;
use crate::queue::{Phase, Submission, Work};
use crate::staging::Staging;
use crate::state::State;

enum Outcome {
    Made,
    /// Another writer took the number.
    Void,
    Failed(Failure),
    Unknown(Failure),
}

impl Inner {
    /// Applies the whole batch or no part of it.
    pub(crate) async fn apply(self: &Arc<Self>, batch: Batch) -> Result<(), Failure> {
        let deadline = self.deadline();
        if batch.changes_nothing() {
            self.poll(&deadline).await?;
            return Ok(batch.check(&self.state().files)?);
        }
        self.refuse_read_only()?;
        batch.check_file_sizes(self.options.max_file_bytes)?;
        let changes = batch.changes().len();
        if changes > MAX_STEPS {
            return Err(Failure::batch_too_large(changes));
        }
        let mut staging = Staging::new()?;
        self.refuse_early(&batch, &staging, &deadline).await?;
        let collections = self.state().collections;
        staging.put(&self.bucket, &batch, collections, &deadline).await?;
        self.submit(Work::Batch { batch, staging }, deadline).await
    }

    /// Refuses a batch that the latest state does not allow, before anything is put for it.
    async fn refuse_early(
        self: &Arc<Self>,
        batch: &Batch,
        staging: &Staging,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let check = || {
            let state = self.state();
            state.allow(batch, |change| staging.record(batch, change, state.number + 1)).map(drop)
        };
        if self.is_check_due() || check().is_err() {
            self.poll(deadline).await?;
            check()?;
        }
        Ok(())
    }

    /// Commits a note.
    pub(crate) async fn note(self: &Arc<Self>, note: Step) -> Result<(), Failure> {
        self.submit(Work::Note(note), self.deadline()).await
    }

    /// Notes a checkpoint in the log, if the latest one is still the one that it replaces, and no collection was noted
    /// since.
    pub(crate) async fn note_checkpoint(self: &Arc<Self>, manifest: Manifest, replaces: u64) -> Result<(), Failure> {
        self.submit(Work::Checkpoint { manifest, replaces }, self.deadline()).await
    }

    async fn submit(self: &Arc<Self>, work: Work, deadline: Deadline) -> Result<(), Failure> {
        let (done, outcome) = oneshot::channel();
        let phase = Arc::<Phase>::default();
        let needs_writer = {
            let mut waiting = lock(&self.queue.0);
            waiting.entries.push(Submission { work, deadline, phase: Arc::clone(&phase), done });
            !std::mem::replace(&mut waiting.has_writer, true)
        };
        if needs_writer {
            tokio::spawn(Writer { inner: Arc::clone(self), has_ended: false }.run());
        }
        match deadline.limit(outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(closed)) => Err(Failure::new(ErrorKind::OutcomeUnknown, closed)),
            Err(_) => {
                let is_withdrawn = phase.change(Phase::WAITING, Phase::WITHDRAWN);
                let kind = if is_withdrawn { ErrorKind::Busy } else { ErrorKind::OutcomeUnknown };
                Err(Failure::late(kind, deadline.whole(), Some(self.bucket.no_confirmation())))
            }
        }
    }
}

/// A commit to send, and the submissions of its group that are refused once it is made: they may conflict with others
/// of the group.
struct Prepared {
    commit: Commit,
    bytes: Bytes,
    stored: Stored,
    refused: Vec<(Submission, Failure)>,
}

/// The task that commits waiting submissions until the queue is empty.
struct Writer {
    inner: Arc<Inner>,
    has_ended: bool,
}

impl Drop for Writer {
    /// Lets the next submission start another task, even if the runtime ended in the middle of this one.
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.inner.queue.0).has_writer = false;
        }
    }
}

impl Writer {
    async fn run(mut self) {
        loop {
            self.inner.contention.pause().await;
            let mut group = Vec::new();
            {
                let mut waiting = lock(&self.inner.queue.0);
                waiting.move_to(&mut group);
                if group.is_empty() {
                    (waiting.has_writer, self.has_ended) = (false, true);
                    return;
                }
            }
            self.commit(group).await;
        }
    }

    /// Commits a group, and submissions that arrive during its retries, until all have a result.
    async fn commit(&self, mut group: Vec<Submission>) {
        let mut losses = 0;
        loop {
            group = begin(group);
            let Some(Prepared { commit, bytes, stored, refused }) = self.plan(&mut group).await else { return };
            let deadline = latest_deadline(&group);
            let number = commit.number;
            let outcome = {
                let sending = pin!(self.send(&commit, bytes, losses, &deadline));
                let abandoned = pin!(abandoned(&mut group));
                match select(sending, abandoned).await {
                    Either::Left((outcome, _)) => outcome,
                    // The next commit has the same number, so at most one of the two is made.
                    Either::Right(_) => return self.put_back(refused),
                }
            };
            let (is_made, key) = (matches!(outcome, Outcome::Made), self.inner.bucket.keys.commit(number));
            if is_made {
                refused.into_iter().for_each(|(submission, refusal)| answer(submission, Err(refusal)));
            } else {
                self.put_back(refused);
            }
            match outcome {
                Outcome::Made => {
                    match self.inner.advance(key.as_ref(), commit, stored) {
                        Ok(next) if next > number => self.succeed(group, number, stored.size),
                        // Another task continues from an older copy of the log, which was put back at the same time.
                        Ok(_) => fail(group, Failure::replaced_log().with_outcome_unknown()),
                        Err(damage) => fail(group, damage.into()),
                    }
                    return;
                }
                Outcome::Void => {
                    self.inner.contention.lost();
                    losses += 1;
                    group = begin_again(group);
                    self.inner.contention.pause().await;
                    lock(&self.inner.queue.0).move_to(&mut group);
                }
                Outcome::Failed(failure) => return fail(group, failure),
                Outcome::Unknown(failure) => return fail(group, failure.with_outcome_unknown()),
            }
        }
    }

    /// Lets refused submissions wait for the next commit. Their refusals may depend on one that was not made.
    fn put_back(&self, refused: Vec<(Submission, Failure)>) {
        lock(&self.inner.queue.0).entries.splice(0..0, refused.into_iter().map(|(submission, _)| submission));
    }

    /// Puts contents again that a collection may have removed.
    async fn stage_again(&self, group: &mut Vec<Submission>) {
        let collections = self.inner.state().collections;
        for index in (0..group.len()).rev() {
            let Some(Submission { work: Work::Batch { batch, staging }, deadline, .. }) = group.get_mut(index) else {
                continue;
            };
            if staging.is_outdated(collections)
                && let Err(failure) = staging.put(&self.inner.bucket, batch, collections, deadline).await
            {
                answer(group.swap_remove(index), Err(failure));
            }
        }
    }

    /// The next commit, with all submissions of the group that the latest state allows. `None` means that all have a
    /// result, or wait again.
    async fn plan(&self, group: &mut Vec<Submission>) -> Option<Prepared> {
        let mut is_current = false;
        loop {
            self.stage_again(group).await;
            if group.is_empty() {
                return None;
            }
            let planned = match Id::of_session(self.inner.contention.session) {
                Ok(id) => self.inner.state_mut().plan(group, id),
                Err(error) => {
                    fail(std::mem::take(group), error.into());
                    return None;
                }
            };
            let Some(Planned { commit, refused }) = planned else { continue };
            if !refused.is_empty() && !is_current {
                // The known state may be old, and the latest one may allow the batch.
                if let Err(failure) = self.inner.poll(&latest_deadline(group)).await {
                    fail(std::mem::take(group), failure);
                    return None;
                }
                is_current = true;
                continue;
            }
            let take = |(index, refusal)| (group.swap_remove(index), refusal);
            let refused: Vec<_> = refused.into_iter().rev().map(take).collect();
            if group.is_empty() {
                refused.into_iter().for_each(|(submission, refusal)| answer(submission, Err(refusal)));
                return None;
            }
            // They are not in the commit.
            for (submission, _) in &refused {
                submission.phase.change(Phase::SENT, Phase::WAITING);
            }
            let size = group.iter().map(Submission::inline_bytes).sum();
            let encode = move || {
                let encoded = commit.encode().map(|bytes| (Stored::of(&bytes), bytes));
                (encoded, commit)
            };
            match run_maybe_blocking(size, encode).await {
                Ok((Ok((stored, bytes)), commit)) if commit.fits(stored.size) => {
                    return Some(Prepared { commit, bytes: bytes.into(), stored, refused });
                }
                Ok((Ok(_), _)) if group.len() > 1 => {
                    self.put_back(refused);
                    let rest = begin_again(group.split_off(group.len() / 2));
                    lock(&self.inner.queue.0).entries.splice(0..0, rest);
                    continue;
                }
                Ok((Ok((stored, _)), _)) => fail(std::mem::take(group), Failure::commit_too_large(stored.size)),
                Ok((Err(error), _)) => fail(std::mem::take(group), Failure::unwritable(error)),
                Err(failure) => fail(std::mem::take(group), failure),
            }
            self.put_back(refused);
            return None;
        }
    }

    async fn send(&self, commit: &Commit, bytes: Bytes, losses: u32, deadline: &Deadline) -> Outcome {
        let key = self.inner.bucket.keys.commit(commit.number);
        let started = Instant::now();
        let put = self.inner.bucket.create(&key, bytes.clone(), deadline).await;
        self.inner.contention.took(started.elapsed());
        match put {
            Put::Done => Outcome::Made,
            Put::Failed(failure) => Outcome::Failed(failure),
            Put::Undecided(cause) => {
                // Others may have made many commits. Reading several at once takes no additional time.
                let ahead = self.inner.contention.read_ahead(losses + 1);
                let later = (1..ahead).map(|ahead| self.inner.entry(commit.number.saturating_add(ahead), deadline));
                match join(self.settle(commit, bytes, cause, deadline), join_all(later)).await {
                    (Outcome::Void, later) => self.read_on(later, deadline).await,
                    (outcome, _) => outcome,
                }
            }
        }
    }

    /// Applies commits that follow this writer's void one. If all numbers were taken, it reads the log to its end.
    async fn read_on(&self, later: Vec<Result<Entry, Failure>>, deadline: &Deadline) -> Outcome {
        for entry in later {
            // The next attempt reports failures and damage.
            let Ok(Entry::Commit(next, stored)) = entry else { return Outcome::Void };
            let key = self.inner.bucket.keys.commit(next.number);
            if let Err(damage) = self.inner.advance(key.as_ref(), *next, stored) {
                return Outcome::Failed(damage.into());
            }
        }
        self.inner.catch_up(AHEAD, deadline).await.map_or_else(Outcome::Failed, |()| Outcome::Void)
    }

    /// Determines the outcome of a commit whose create got no clear response or was refused.
    async fn settle(&self, commit: &Commit, bytes: Bytes, mut cause: BoxError, deadline: &Deadline) -> Outcome {
        let backoff = Backoff::default();
        let key = self.inner.bucket.keys.commit(commit.number);
        while !deadline.is_over() {
            match self.inner.entry(commit.number, deadline).await {
                Ok(Entry::Commit(found, _)) if found.id == commit.id => return Outcome::Made,
                Ok(Entry::Commit(found, stored)) => {
                    let advanced = self.inner.advance(key.as_ref(), *found, stored);
                    return advanced.map_or_else(|damage| Outcome::Failed(damage.into()), |_| Outcome::Void);
                }
                Ok(Entry::Trimmed(id)) if id == commit.id => return Outcome::Made,
                Ok(Entry::Trimmed(_)) => {
                    return self.inner.reload(deadline).await.map_or_else(Outcome::Failed, |()| Outcome::Void);
                }
                Ok(Entry::Free) => {}
                Err(failure) => return Outcome::Unknown(failure),
            }
            backoff.pause(deadline).await;
            match self.inner.bucket.create(&key, bytes.clone(), deadline).await {
                Put::Done => return Outcome::Made,
                Put::Undecided(again) => cause = again,
                Put::Failed(failure) => return Outcome::Unknown(failure),
            }
        }
        Outcome::Unknown(Failure::late(ErrorKind::Other, deadline.whole(), Some(cause)))
    }

    /// Reports success to a group, and writes a checkpoint if it is this writer's turn.
    fn succeed(&self, group: Vec<Submission>, number: u64, size: usize) {
        let (is_due, is_overdue, latest) = {
            let state = self.inner.state();
            (state.is_checkpoint_due(number, size), state.is_checkpoint_overdue(), state.checkpoint.through)
        };
        if !is_due {
            return answer_all(group);
        }
        let inner = Arc::clone(&self.inner);
        let checkpoint = tokio::spawn(async move {
            // If it fails, the author of a later commit tries again.
            if let Err(failure) = inner.write_checkpoint(false, latest).await {
                inner.warn_about_checkpoint(failure);
            }
        });
        let earliest = group.iter().map(|submission| submission.deadline).min_by_key(Deadline::end);
        match earliest {
            // A program that ends with its command would never get to the end of a checkpoint in the background.
            Some(deadline) if is_overdue => drop(tokio::spawn(async move {
                let _ = deadline.limit_to_half(checkpoint).await;
                answer_all(group);
            })),
            _ => answer_all(group),
        }
    }
}

/// The submissions of a group to send. A submission without a waiting author is dropped. One near its deadline is
/// refused, because determining the outcome of a commit needs time.
fn begin(group: Vec<Submission>) -> Vec<Submission> {
    let mut begun = Vec::with_capacity(group.len());
    for submission in group {
        if submission.done.is_closed() || !submission.phase.change(Phase::WAITING, Phase::SENT) {
            continue;
        }
        if submission.deadline.is_near() {
            let whole = submission.deadline.whole();
            answer(submission, Err(Failure::late(ErrorKind::Busy, whole, None)));
        } else {
            begun.push(submission);
        }
    }
    begun
}

/// Prepares a group whose commit was not made for the next attempt.
fn begin_again(group: Vec<Submission>) -> Vec<Submission> {
    for submission in &group {
        submission.phase.change(Phase::SENT, Phase::WAITING);
    }
    group
}

/// Waits until no author of a group waits.
async fn abandoned(group: &mut [Submission]) {
    for submission in group {
        submission.done.closed().await;
    }
}

fn latest_deadline(group: &[Submission]) -> Deadline {
    let latest = group.iter().map(|submission| submission.deadline).max_by_key(Deadline::end);
    latest.unwrap_or_else(|| Deadline::after(std::time::Duration::ZERO))
}

fn answer(submission: Submission, outcome: Result<(), Failure>) {
    // The author may have stopped waiting.
    let _ = submission.done.send(outcome);
}

fn answer_all(group: Vec<Submission>) {
    group.into_iter().for_each(|submission| answer(submission, Ok(())));
}

fn fail(group: Vec<Submission>, failure: Failure) {
    let shared = failure.into_shared();
    group.into_iter().for_each(|submission| answer(submission, Err(shared.clone().into())));
}

/// A commit, and the refused submissions of its group by their position.
struct Planned {
    commit: Commit,
    refused: Vec<(usize, Failure)>,
}

impl State {
    /// Plans the next commit, or returns `None` if contents must be put again first. The state does not change.
    fn plan(&mut self, group: &[Submission], id: Id) -> Option<Planned> {
        if group.iter().any(|submission| submission.is_outdated(self.collections)) {
            return None;
        }
        let number = self.number + 1;
        let (mut batches, mut refused, mut undo) = (Vec::new(), Vec::new(), Vec::new());
        let mut has_checkpoint = false;
        for (index, submission) in group.iter().enumerate() {
            let is_checkpoint = matches!(submission.work, Work::Checkpoint { .. });
            if has_checkpoint && is_checkpoint {
                refused.push((index, Failure::checkpoint_outdated())); // it does not build on the other
                continue;
            }
            has_checkpoint |= is_checkpoint;
            match self.plan_one(&submission.work, number) {
                Ok((steps, edits)) => {
                    batches.push(steps);
                    undo.extend(edits.map(|edits| self.files.edit(edits)));
                }
                Err(refusal) => refused.push((index, refusal)),
            }
        }
        self.undo(undo);
        let time = seconds(now());
        Some(Planned { commit: Commit { store: self.store, number, id, after: self.commit, time, batches }, refused })
    }

    fn plan_one(&self, work: &Work, number: u64) -> Result<(Vec<Step>, Option<PathMapEdits<FileRecord>>), Failure> {
        match work {
            Work::Batch { batch, staging } => {
                let record = |change| staging.record(batch, change, number);
                let edits = self.allow(batch, record)?;
                Ok((steps_of(batch, record), Some(edits)))
            }
            Work::Note(note) => Ok((vec![note.clone()], None)),
            Work::Checkpoint { manifest, replaces }
                if (self.checkpoint.through, self.collections) == (*replaces, manifest.collections) =>
            {
                Ok((vec![Step::Checkpoint(manifest.clone())], None))
            }
            Work::Checkpoint { .. } => Err(Failure::checkpoint_outdated()),
        }
    }

    /// The edits of a batch, if the state allows it.
    fn allow(
        &self,
        batch: &Batch,
        record: impl Fn(usize) -> FileRecord,
    ) -> Result<PathMapEdits<FileRecord>, StoreError> {
        batch.check(&self.files)?;
        self.files.plan(batch, |change, _, _| Ok(record(change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both build on the same checkpoint, and name other places for the same contents.
    #[test]
    fn a_commit_notes_one_checkpoint() {
        let mut state = State::default();
        state.apply("log/1", Commit::birth(Id::default()), Stored::default()).unwrap();
        let submission = || {
            let work = Work::Checkpoint { manifest: Manifest::default(), replaces: 0 };
            let deadline = Deadline::after(std::time::Duration::from_secs(1));
            Submission { work, deadline, phase: Arc::default(), done: oneshot::channel().0 }
        };
        let planned = state.plan(&[submission(), submission()], Id::default()).unwrap();
        assert_eq!(planned.commit.batches.len(), 1);
        assert_eq!(planned.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    }
}
