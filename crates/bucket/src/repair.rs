//! Repairing a store whose log or checkpoint is damaged, from the objects that are left.
//!
//! The repaired store continues after all numbers that were ever taken. Markers fill the free numbers, so no writer can
//! take them. The repair then takes one more number, and writes a checkpoint for it with all files that could be
//! recovered. Finally, it trims all commits before that number, so every session loads that checkpoint, independently
//! of the state that it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::{FailureKind, Problem};
use object_store::path::Path;

use crate::bucket::Put;
use crate::checkpoint::Manifest;
use crate::commit::{Commit, Step, trimmed_marker};
use crate::content::FileRecord;
use crate::deadline::Backoff;
use crate::failure::Failure;
use crate::format::Damage;
use crate::id::Id;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::log::Entry;
use crate::state::State;

/// The number of concurrent requests.
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

impl Inner {
    /// Repairs the store. Sessions of others find the repaired store with their next command. Only one repair may run
    /// at a time.
    pub(crate) async fn repair(self: &Arc<Self>) -> Result<RepairReport, Failure> {
        self.refuse_read_only()?;
        if let Some(files) = self.files_if_intact().await? {
            return Ok(RepairReport { files, ..RepairReport::default() });
        }
        let number = self.take_over().await?;
        let (commits, mut lost) = self.readable_commits(number).await?;
        let mut state = self.recover(&commits, &mut lost).await?;
        self.note_missing_contents(&state, &mut lost).await?;
        let files = state.files.files().len() as u64;
        (state.number, state.commit, state.trimmed) = (number, Id::random()?, number);
        (state.collections, state.source) = (state.collections + 1, (0, state.collections + 1));
        state.checkpoint = Manifest::default();
        let birth = Commit::birth(state.store).encode().map_err(Failure::unwritable)?;
        *self.state_mut() = state;
        let manifest = self.put_full_runs().await?;
        self.put_pointer(&manifest).await?;
        // The first commit may exist already.
        let _ = self.bucket.create(&self.bucket.keys.commit(1), birth.into(), &self.deadline()).await;
        let ids =
            commits.into_iter().map(|(number, commit)| (number, commit.map_or_else(Id::default, |commit| commit.id)));
        let markers = ids.filter(|(number, _)| *number > 1).map(|(number, id)| self.put_marker(number, id));
        stream::iter(markers).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        Ok(RepairReport { is_changed: true, files, lost })
    }

    /// The number of files, if the log can be read from the latest checkpoint to its end and has no gap.
    async fn files_if_intact(&self) -> Result<Option<u64>, Failure> {
        let loaded = match self.load_to_end(None, &self.deadline()).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Ok(None),
            Err(failure) if failure.is_damage() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let files = loaded.files.files().len() as u64;
        *self.state_mut() = loaded;
        match self.list_untrimmed().await {
            Ok(_) => Ok(Some(files)),
            Err(failure) if failure.is_damage() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Takes all free numbers up to the first one that was never taken, and returns that one.
    async fn take_over(&self) -> Result<u64, Failure> {
        let log = self.numbers_under(&self.bucket.keys.log()).await?;
        let checkpoints = self.numbers_under(&self.bucket.keys.checkpoints()).await?;
        // A session may know lost commits. It must not find the number after them free.
        let last = log.last().max(checkpoints.last()).copied().unwrap_or(1) + LOST_END;
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
        Ok(number)
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
                    return Err(Failure::late(FailureKind::Other, deadline.whole(), Some(cause)));
                }
                Put::Undecided(_) => {}
            }
            match self.entry(number, &deadline).await {
                Ok(Entry::Trimmed(_)) => return Ok(true),
                Ok(Entry::Commit(..)) => return Ok(false),
                Err(failure) if failure.is_damage() => return Ok(false),
                Err(failure) => return Err(failure),
                Ok(Entry::Free) => backoff.pause(&deadline).await,
            }
        }
    }

    async fn numbers_under(&self, prefix: &Path) -> Result<BTreeSet<u64>, Failure> {
        let listed = self.bucket.list(prefix, &self.deadline()).await?;
        Ok(listed.iter().filter_map(|object| Keys::number(&object.location)).collect())
    }

    /// The readable commits before a number, with `None` for unreadable ones, and the problems.
    async fn readable_commits(&self, before: u64) -> Result<(BTreeMap<u64, Option<Commit>>, Vec<Problem>), Failure> {
        let mut numbers = self.numbers_under(&self.bucket.keys.log()).await?;
        numbers.retain(|number| *number < before);
        let read = |number| async move { (number, self.entry(number, &self.deadline()).await) };
        let mut entries = stream::iter(numbers).map(read).buffered(CONCURRENCY);
        let (mut commits, mut lost) = (BTreeMap::new(), Vec::new());
        while let Some((number, entry)) = entries.next().await {
            match entry {
                Ok(Entry::Commit(commit, _)) => drop(commits.insert(number, Some(*commit))),
                Ok(Entry::Trimmed(_) | Entry::Free) => {}
                Err(failure) if failure.is_damage() => {
                    commits.insert(number, None);
                    lost.push(Problem::of(&failure.during("reading a commit")));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok((commits, lost))
    }

    /// The state of the latest complete checkpoint, with the changes of the commits after it.
    async fn recover(
        &self,
        commits: &BTreeMap<u64, Option<Commit>>,
        lost: &mut Vec<Problem>,
    ) -> Result<State, Failure> {
        let mut state = self.latest_complete(commits, lost).await?;
        let first = commits.values().flatten().next();
        if state.store == Id::default() {
            state.store = match first {
                Some(commit) => commit.store,
                None => Id::random()?,
            };
        }
        let store = state.store;
        let mut expected = state.number.max(1) + 1;
        for commit in commits.values().flatten().filter(|commit| commit.store == store) {
            if commit.number <= state.number {
                continue;
            }
            match commit.number.saturating_sub(expected) {
                0 => {}
                1 => lost.push(Problem::new(format!("commit {expected} is missing"))),
                _ => lost.push(Problem::new(format!("commits {expected} to {} are missing", commit.number - 1))),
            }
            expected = commit.number + 1;
            state.recover(commit, lost);
        }
        Ok(state)
    }

    /// The state of the latest checkpoint that has all its runs. Checkpoints are known from their pointers and from
    /// commits.
    async fn latest_complete(
        &self,
        commits: &BTreeMap<u64, Option<Commit>>,
        lost: &mut Vec<Problem>,
    ) -> Result<State, Failure> {
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
        for number in self.numbers_under(&self.bucket.keys.checkpoints()).await? {
            match self.manifest(number, &self.deadline()).await {
                Ok(Some(manifest)) => drop(manifests.insert(number, manifest)),
                Ok(None) => {}
                Err(failure) if failure.is_damage() => {
                    lost.push(Problem::of(&failure.during("reading a checkpoint")));
                }
                Err(failure) => return Err(failure),
            }
        }
        for manifest in manifests.into_values().rev() {
            let through = manifest.through;
            match self.load(manifest, &self.deadline()).await {
                Ok(Ok(state)) => return Ok(state),
                Ok(Err(run)) => {
                    lost.push(Problem::new(format!("the checkpoint {through} is incomplete: {run} is missing")));
                }
                Err(failure) if failure.is_damage() => {
                    lost.push(Problem::of(&failure.during("reading a checkpoint")));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(State::default())
    }

    /// Reports the files whose contents are missing. They stay in the store, because the operator may restore the
    /// contents.
    async fn note_missing_contents(&self, state: &State, lost: &mut Vec<Problem>) -> Result<(), Failure> {
        let listed = self.bucket.list(&self.bucket.keys.contents(), &self.deadline()).await?;
        let present: BTreeSet<_> = listed.into_iter().map(|object| object.location).collect();
        let is_missing = |file: &FileRecord| {
            file.slice()
                .is_some_and(|slice| self.bucket.keys.content(&slice.key).map_or(true, |key| !present.contains(&key)))
        };
        for (path, _) in state.files.files().iter().filter(|(_, file)| is_missing(file)) {
            lost.push(Problem::new(format!("the contents of {path} are missing")).with_path(path.clone()));
        }
        for (name, _) in state.files.records().iter().filter(|(_, record)| is_missing(record)) {
            lost.push(Problem::new(format!("the contents of the record {name} are missing")));
        }
        Ok(())
    }
}

impl State {
    /// Applies the changes of a commit that are possible after earlier losses.
    fn recover(&mut self, commit: &Commit, lost: &mut Vec<Problem>) {
        for step in commit.batches.iter().flatten() {
            match step {
                Step::Collection => self.collections = self.collections.saturating_add(1),
                Step::Checkpoint(_) | Step::Trimmed { .. } => {}
                change => match self.replay(vec![change.clone()], &mut Vec::new()) {
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
