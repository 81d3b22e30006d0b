//! Repairing a store whose log or checkpoint is damaged, from the objects that are left.
//!
//! The repaired store continues after all numbers that were ever taken. Markers fill the free numbers, so no writer can
//! take them. The repair then takes one more number, and writes a checkpoint for it with all files that could be
//! recovered. Finally, it trims all commits before that number, so every session loads that checkpoint, independently
//! of the state that it knows.
//!
//! After losses, later collections keep all objects from before the repair, and copies of the replaced commits, until
//! the operator accepts the loss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::{ErrorKind, Problem};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::bucket::Put;
use crate::checkpoint::LeftRun;
use crate::commit::{Commit, Step, trimmed_marker};
use crate::content::FileRecord;
use crate::deadline::Backoff;
use crate::digest::Digest;
use crate::failure::{Failure, unless_damaged};
use crate::format::Damage;
use crate::id::Id;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::log::Entry;
use crate::manifest::Manifest;
use crate::state::State;

const CONCURRENCY: usize = 16;

/// The number of commits after the last known one that may be lost. Checkpoints are written more often.
const LOST_END: u64 = 1_024;
/// The most numbers that may be free. More are the work of an attacker.
const MAX_FREE: usize = 1_000_000;

/// The result of a repair.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether the repair wrote objects. It does not change an intact store.
    pub is_changed: bool,
    /// The number of files in the store after the repair.
    pub files: u64,
    /// The losses.
    pub lost: Vec<Problem>,
}

/// The commits of a damaged log, with `None` for unreadable ones.
type Commits = BTreeMap<u64, Option<Commit>>;

impl Inner {
    /// Repairs the store. Sessions of others find the repaired store with their next command. Only one repair may run
    /// at a time.
    pub(crate) async fn repair(self: &Arc<Self>) -> Result<RepairReport, Failure> {
        self.refuse_read_only()?;
        if let Some(report) = self.repair_trimmable().await? {
            return Ok(report);
        }
        self.refuse_if_nothing_is_left().await?;
        let (number, known_end) = self.take_over().await?;
        let (commits, mut lost) = self.readable_commits(number).await?;
        let mut state = self.recover(&commits, known_end, &mut lost).await?;
        self.note_missing_contents(&state, &mut lost).await?;
        let files = state.files.files().len() as u64;
        let replaced: Vec<_> = commits.keys().copied().filter(|number| *number > 1).collect();
        (state.number, state.commit, state.trimmed) = (number, Digest::random()?, number);
        (state.collections, state.source) = (state.collections + 1, (0, state.collections + 1));
        state.checkpoint = Manifest::default();
        if !lost.is_empty() {
            state.kept_before = self.keep_copies(&replaced, number).await?;
        }
        let birth = Commit::birth(state.store).encode().map_err(Failure::unwritable)?;
        *self.state_mut() = state;
        let manifest = self.put_full_runs().await?;
        self.put_pointer(&manifest).await?;
        // The first commit may exist already, and may be damaged.
        let first = self.bucket.keys.commit(1);
        if !matches!(unless_damaged(self.entry(1, &self.deadline()).await)?, Ok(Entry::Commit(..))) {
            self.bucket.put(&first, birth.into(), &self.deadline()).await?;
        }
        let id_of =
            |number: &u64| commits.get(number).and_then(Option::as_ref).map_or(Id::default(), |commit| commit.id);
        let markers = replaced.iter().map(|number| self.put_marker(*number, id_of(number)));
        stream::iter(markers).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        Ok(RepairReport { is_changed: true, files, lost })
    }

    /// Replaces damaged commits by markers if nothing depends on them, because every checkpoint is intact and later.
    /// Returns `None` if that is not enough.
    async fn repair_trimmable(&self) -> Result<Option<RepairReport>, Failure> {
        let loaded = unless_damaged(self.load_to_end(None, &self.deadline()).await)?;
        let Ok(Some(loaded)) = loaded else { return Ok(None) };
        let files = loaded.files.files().len() as u64;
        let damaged = self.damaged_commits(&loaded).await?;
        *self.state_mut() = loaded;
        if !self.damaged_checkpoints().await?.is_empty() {
            return Ok(None);
        }
        for number in damaged.keys() {
            self.put_marker(*number, Id::default()).await?;
        }
        Ok(Some(RepairReport { is_changed: !damaged.is_empty(), files, lost: Vec::new() }))
    }

    /// Refuses a repair that would leave an empty store although there are contents.
    async fn refuse_if_nothing_is_left(&self) -> Result<(), Failure> {
        for number in self.pointers(&self.deadline()).await?.into_keys().rev() {
            if unless_damaged(self.load_pointer(number, &self.deadline()).await)?.is_ok() {
                return Ok(());
            }
        }
        if !self.runs_left(0, &mut Vec::new()).await?.is_empty() {
            return Ok(());
        }
        for number in self.log_after(1, &self.deadline()).await?.numbered.into_keys() {
            if let Ok(Entry::Commit(..)) = unless_damaged(self.entry(number, &self.deadline()).await)? {
                return Ok(());
            }
        }
        let contents = self.bucket.keys.contents();
        match self.bucket.list_readable(&contents, &self.deadline()).await?.0.first() {
            Some(object) => Err(Damage::NothingLeft { key: object.location.to_string() }.into()),
            None => Ok(()),
        }
    }

    /// Takes all free numbers up to the first one that was never taken. Returns that one, and the last number that the
    /// log had before.
    async fn take_over(&self) -> Result<(u64, u64), Failure> {
        let log: BTreeSet<_> = self.log_after(0, &self.deadline()).await?.numbered.into_keys().collect();
        let end = log.last().copied().unwrap_or_default();
        let pointers = self.pointers(&self.deadline()).await?;
        // A session may know lost commits. It must not find the number after them free.
        let last = pointers.into_keys().next_back().unwrap_or(1).max(end) + LOST_END;
        let free: Vec<_> = (2..=last).filter(|number| !log.contains(number)).take(MAX_FREE + 1).collect();
        if free.len() > MAX_FREE {
            return Err(Damage::inconsistent(self.bucket.keys.log(), "its numbers are too far apart").into());
        }
        stream::iter(free)
            .map(|number| self.take(number))
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<_>>()
            .await?;
        let mut number = last + 1;
        while !self.take(number).await? {
            number += 1; // another session still writes
        }
        Ok((number, end))
    }

    /// Puts a marker under a number if it is free. Returns whether the number has a marker now.
    async fn take(&self, number: u64) -> Result<bool, Failure> {
        let marker = Bytes::from(trimmed_marker(Id::default()).map_err(Failure::unwritable)?);
        let (deadline, backoff) = (self.deadline(), Backoff::default());
        loop {
            let put = self.bucket.create(&self.bucket.keys.commit(number), marker.clone(), &deadline).await;
            match put {
                Put::Done => return Ok(true),
                Put::Failed(failure) => return Err(failure),
                Put::Undecided(cause) if deadline.is_over() => {
                    return Err(Failure::late(ErrorKind::Other, deadline.whole(), Some(cause)));
                }
                Put::Undecided(_) => {}
            }
            match unless_damaged(self.entry(number, &deadline).await)? {
                Ok(Entry::Trimmed(_)) => return Ok(true),
                Ok(Entry::Commit(..)) | Err(_) => return Ok(false),
                Ok(Entry::Free) => backoff.pause(&deadline).await,
            }
        }
    }

    async fn readable_commits(&self, before: u64) -> Result<(Commits, Vec<Problem>), Failure> {
        let listed = self.log_after(0, &self.deadline()).await?.numbered;
        let numbers: Vec<_> = listed.into_keys().filter(|number| *number < before).collect();
        let read = |number| async move { (number, self.entry(number, &self.deadline()).await) };
        let mut entries = stream::iter(numbers).map(read).buffered(CONCURRENCY);
        let (mut commits, mut lost) = (BTreeMap::new(), Vec::new());
        while let Some((number, entry)) = entries.next().await {
            match unless_damaged(entry)? {
                Ok(Entry::Commit(commit, _)) => drop(commits.insert(number, Some(*commit))),
                Ok(Entry::Trimmed(_) | Entry::Free) => {}
                Err(damage) => {
                    commits.insert(number, None);
                    lost.push(Problem::of(&damage.during("reading a commit")));
                }
            }
        }
        Ok((commits, lost))
    }

    /// The state of the latest complete checkpoint, with the changes of everything after it that is left.
    async fn recover(&self, commits: &Commits, log_end: u64, lost: &mut Vec<Problem>) -> Result<State, Failure> {
        let mut state = self.latest_complete(commits, lost).await?;
        let runs = self.runs_left(state.number, lost).await?;
        if state.store == Id::default() {
            let of_commit = commits.values().flatten().next().map(|commit| commit.store);
            let of_run = runs.last().map(|run| run.store);
            state.store = of_commit.or(of_run).map_or_else(Id::random, Ok)?;
        }
        let store = state.store;
        let commits: BTreeMap<_, _> =
            commits.iter().filter_map(|(number, commit)| Some((*number, commit.as_ref()?))).collect();
        let commit_at = |number| commits.get(&number).filter(|commit| commit.store == store);
        let mut known_end = state.number;
        state.number = state.number.max(1);
        loop {
            let next = state.number + 1;
            let leading = runs.iter().filter(|run| run.store == store && run.through >= next);
            if let Some(commit) = commit_at(next) {
                state.recover(commit, lost);
                state.number = next;
            } else if let Some(run) = leading.clone().filter(|run| run.after < next).max_by_key(|run| run.through) {
                state.number = run.through;
                known_end = known_end.max(run.through);
                run.clone().apply_to(&mut state.files, lost);
            } else {
                let later =
                    commits.range(next..).filter(|(_, commit)| commit.store == store).map(|(number, _)| *number);
                let Some(resumes) = later.chain(leading.map(|run| run.after + 1)).min() else { break };
                lost.push(missing_commits(next, resumes - 1));
                state.number = resumes - 1;
            }
        }
        if log_end < known_end {
            let end = format!("the log has no commit from {known_end} on: later changes are lost, if there were any");
            lost.push(Problem::new(end));
        }
        Ok(state)
    }

    /// The state of the latest checkpoint that has all its runs. Checkpoints are known from their pointers and from
    /// commits.
    async fn latest_complete(&self, commits: &Commits, lost: &mut Vec<Problem>) -> Result<State, Failure> {
        let mut manifests: BTreeMap<u64, Manifest> = BTreeMap::new();
        for commit in commits.values().flatten() {
            for step in commit.batches.iter().flatten() {
                if let Step::Checkpoint(manifest) = step
                    && manifest.through < commit.number
                    && manifest.check("").is_ok()
                {
                    manifests.insert(manifest.through, manifest.clone());
                }
            }
        }
        for number in self.pointers(&self.deadline()).await?.into_keys() {
            match unless_damaged(self.manifest(number, &self.deadline()).await)? {
                Ok(Some(manifest)) => drop(manifests.insert(number, manifest)),
                Ok(None) => {}
                Err(damage) => lost.push(Problem::of(&damage.during("reading a checkpoint"))),
            }
        }
        for manifest in manifests.into_values().rev() {
            let through = manifest.through;
            match unless_damaged(self.load(manifest, &self.deadline()).await)? {
                Ok(Ok(state)) => return Ok(state),
                Ok(Err(run)) => {
                    lost.push(Problem::new(format!("the checkpoint {through} is incomplete: {run} is missing")));
                }
                Err(damage) => lost.push(Problem::of(&damage.during("reading a checkpoint"))),
            }
        }
        Ok(State::default())
    }

    /// Copies the commits that are about to be replaced. Returns the time of the newest object of the damaged store, in
    /// seconds since 1970.
    async fn keep_copies(&self, numbers: &[u64], taken: u64) -> Result<i64, Failure> {
        let keys = &self.bucket.keys;
        let unique = Id::random()?;
        let mut newest = keys.commit(taken);
        for numbers in numbers.chunks(CONCURRENCY) {
            let copy = |number: u64| async move {
                let to = keys.content(&Keys::name_for_replaced(&unique, number))?;
                let from = keys.commit(number);
                self.bucket.retry(&self.deadline(), || self.bucket.objects.copy(&from, &to)).await.map(|()| to)
            };
            let copies = stream::iter(numbers.iter().copied()).map(copy).buffered(CONCURRENCY);
            newest = copies.try_collect::<Vec<_>>().await?.pop().unwrap_or(newest);
        }
        let newest = self.bucket.head(&newest, &self.deadline()).await?;
        // A margin for copies that were made at the same time.
        Ok(newest.map_or(i64::MAX, |object| object.last_modified.timestamp() + 1))
    }

    /// The runs that lead beyond a number, the latest last. Some may belong to no checkpoint.
    async fn runs_left(&self, number: u64, lost: &mut Vec<Problem>) -> Result<Vec<LeftRun>, Failure> {
        let (listed, _) = self.bucket.list_readable(&self.bucket.keys.runs(), &self.deadline()).await?;
        let keys: Vec<_> = listed.into_iter().map(|object| object.location).collect();
        let read = |key: Path| async move { (key.clone(), self.read_run(&key, None, &self.deadline()).await) };
        let mut reads = stream::iter(keys).map(read).buffered(CONCURRENCY);
        let mut runs: BTreeMap<(u64, String), LeftRun> = BTreeMap::new();
        while let Some((key, read)) = reads.next().await {
            match unless_damaged(read)? {
                Ok(Some(run)) if run.through > number => {
                    // The parts of a run have the same id.
                    let id = key.filename().and_then(|name| name.rsplit_once('-')).map_or("", |(id, _)| id).to_owned();
                    runs.entry((run.through, id)).or_default().add(run);
                }
                Ok(_) => {}
                Err(damage) => lost.push(Problem::of(&damage.during("reading a run"))),
            }
        }
        Ok(runs.into_values().collect())
    }

    /// Reports the files whose contents are missing. They stay in the store, because the operator may restore the
    /// contents.
    async fn note_missing_contents(&self, state: &State, lost: &mut Vec<Problem>) -> Result<(), Failure> {
        let (listed, _) = self.bucket.list_readable(&self.bucket.keys.contents(), &self.deadline()).await?;
        let present: BTreeSet<_> = listed.into_iter().map(|object| object.location).collect();
        let is_missing = |file: &FileRecord| {
            file.slice()
                .is_some_and(|slice| self.bucket.keys.content(&slice.key).map_or(true, |key| !present.contains(&key)))
        };
        for (path, _) in state.files.files().iter().filter(|(_, file)| is_missing(file)) {
            lost.push(Problem::new(format!("the contents of {path} are missing")).with_path(path.clone()));
        }
        Ok(())
    }
}

fn missing_commits(first: u64, last: u64) -> Problem {
    Problem::new(if first == last {
        format!("commit {first} is missing")
    } else {
        format!("commits {first} to {last} are missing")
    })
}

impl State {
    /// Applies the changes of a commit that are possible after earlier losses.
    fn recover(&mut self, commit: &Commit, lost: &mut Vec<Problem>) {
        for step in commit.batches.iter().flatten() {
            match step {
                Step::Collection => self.collections = self.collections.saturating_add(1),
                Step::LossAccepted => self.kept_before = 0,
                Step::Checkpoint(_) | Step::Trimmed { .. } => {}
                change => match self.replay(vec![change.clone()], commit.time, &mut Vec::new()) {
                    Ok(edits) => drop(self.files.edit(edits)),
                    Err(error) => lost.push(Problem::new(format!(
                        "a change of commit {} cannot be made without the commits before it: {}",
                        commit.number,
                        Problem::of(&error)
                    ))),
                },
            }
        }
    }
}
