//! Garbage collection: removes unused contents and older checkpoints, and trims commits that a checkpoint covers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as ObjectError, ObjectMeta};

use crate::bucket::retry;
use crate::commit::{Commit, Step, trimmed_marker};
use crate::content::{ContentError, FileRecord};
use crate::failure::Failure;
use crate::format::Damage;
use crate::id::Id;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::log::Entry;
use crate::state::State;

/// The default age for a collection. It is far longer than a write takes, so an older unused object belongs to no write
/// in progress.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of objects that are removed before one deadline. S3 removes as many by one request.
const REMOVED_AT_ONCE: usize = 1_000;
/// The number of commits that are read or trimmed at a time.
const CONCURRENCY: usize = 16;
/// The number of attempts to write a checkpoint while others write checkpoints.
const MAX_ATTEMPTS: u32 = 10;

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct GcReport {
    /// The number of removed objects: unused contents and older checkpoints.
    pub removed_objects: u64,
    /// The bytes of the removed objects.
    pub removed_bytes: u64,
    /// The number of remaining objects under `contents`: used ones, and unused ones that are too young.
    pub kept_objects: u64,
    /// The number of trimmed commits. The log no longer contains their changes.
    pub trimmed_commits: u64,
}

impl Inner {
    pub(crate) async fn gc(self: &Arc<Self>, older_than: Duration) -> Result<GcReport, Failure> {
        self.refuse_read_only()?;
        let listed = self.bucket.list(&self.bucket.keys.contents(), &self.deadline()).await?;
        let old: Vec<_> = listed.iter().filter(|object| age(object) >= older_than).collect();
        self.poll(&self.deadline()).await?;
        let trim = self.numbers_to_trim(older_than).await?;
        let is_unpacked = self.unpack(&old, older_than).await?;
        let mut report = GcReport { kept_objects: listed.len() as u64, ..GcReport::default() };
        if !is_unpacked && trim.is_empty() && remove_used(old.clone(), &self.keys_in_use(trim.end).await?).is_empty() {
            return Ok(report);
        }
        self.cover(trim.end, is_unpacked).await?;
        self.note_collection().await?;
        let latest = self.state().checkpoint.clone();
        if latest.through > 0 {
            self.put_pointer(&latest).await?;
        }
        // Until now, the runs of the previous checkpoint were in use.
        let mut unused: Vec<_> = remove_used(old, &self.keys_in_use(trim.end).await?).into_iter().cloned().collect();
        report.kept_objects -= unused.len() as u64;
        report.trimmed_commits = self.trim(trim).await?;
        unused.extend(self.older_checkpoints(latest.through).await?);
        report.removed_objects = unused.len() as u64;
        report.removed_bytes = unused.iter().fold(0, |sum, object| object.size.saturating_add(sum));
        self.remove(unused.into_iter().map(|object| object.location).collect()).await?;
        Ok(report)
    }

    /// The numbers of the commits that are old enough to be trimmed. All before them were trimmed, but the first.
    async fn numbers_to_trim(&self, older_than: Duration) -> Result<Range<u64>, Failure> {
        let last = self.state().number;
        let commits = self.list_untrimmed().await?;
        let begin = commits.first().map_or(last + 1, |(number, _)| *number);
        let old = commits.iter().take_while(|(number, object)| *number <= last && age(object) >= older_than).count();
        let numbers = begin..begin + old as u64;
        Ok(if self.holds_changes(numbers.clone()).await? { numbers } else { begin..begin })
    }

    /// The commits that are not known to be trimmed, without the first.
    ///
    /// # Errors
    /// [`Damage::Missing`] if one is missing.
    pub(crate) async fn list_untrimmed(&self) -> Result<Vec<(u64, ObjectMeta)>, Failure> {
        let (trimmed, last) = {
            let state = self.state();
            (state.trimmed.max(1), state.number)
        };
        let offset = self.bucket.keys.commit(trimmed);
        let mut listed = self.bucket.list_after(&self.bucket.keys.log(), &offset, &self.deadline()).await?;
        listed.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        let mut commits = Vec::with_capacity(listed.len());
        for (number, object) in (trimmed + 1..).zip(listed) {
            if Keys::number(&object.location) != Some(number) {
                self.refuse_hole(number, &self.deadline()).await?;
                break; // the commit was created after the listing
            }
            commits.push((number, object));
        }
        let next = trimmed + 1 + commits.len() as u64;
        if next <= last {
            self.refuse_hole(next, &self.deadline()).await?;
        }
        Ok(commits)
    }

    /// Whether any of these commits changed a file or a record, or keeps the runs of an older checkpoint in use. The
    /// few commits of a collection hold only notes of the latest one.
    async fn holds_changes(&self, numbers: Range<u64>) -> Result<bool, Failure> {
        if numbers.end - numbers.start > CONCURRENCY as u64 {
            return Ok(true);
        }
        let entries = stream::iter(numbers).map(|number| async move { self.entry(number, &self.deadline()).await });
        let entries: Vec<_> = entries.buffered(CONCURRENCY).try_collect().await?;
        let latest = self.state().checkpoint.through;
        let is_needed = |step: &Step| match step {
            Step::Collection | Step::Trimmed { .. } => true,
            Step::Checkpoint(manifest) => manifest.through == latest,
            _ => false,
        };
        Ok(entries.iter().any(|entry| match entry {
            Entry::Commit(commit, _) => !commit.batches.iter().flatten().all(is_needed),
            Entry::Free | Entry::Trimmed(_) => false,
        }))
    }

    /// Reads the used contents of packs that also hold unused ones, so that the next full checkpoint packs them again.
    /// A pack that is mostly used stays, except with an age of zero. Returns whether any contents were read.
    async fn unpack(&self, old: &[&ObjectMeta], older_than: Duration) -> Result<bool, Failure> {
        if !self.state().knows_places() {
            self.reload_from_noted(&self.deadline()).await?;
        }
        let packed: Vec<_> = self.state().files.values().filter(|file| file.is_packed()).cloned().collect();
        let mut used: BTreeMap<Path, u64> = BTreeMap::new();
        for file in &packed {
            let used = used.entry(self.key_of(file)?).or_default();
            *used = used.saturating_add(file.size);
        }
        let least = if older_than.is_zero() { 1 } else { 2 };
        let has_unused =
            |object: &ObjectMeta, used: u64| used < object.size && used.saturating_mul(least) <= object.size;
        used.retain(|key, used| old.iter().any(|object| object.location == *key && has_unused(object, *used)));
        let mut contents = BTreeMap::new();
        for file in packed {
            if used.contains_key(&self.key_of(&file)?)
                && let Some(bytes) = self.contents(&file, &self.deadline()).await?
            {
                contents.insert(file.version, Bytes::from(bytes));
            }
        }
        self.state_mut().hold(&contents);
        Ok(!contents.is_empty())
    }

    fn key_of(&self, file: &FileRecord) -> Result<Path, Failure> {
        let name = file.slice().map_or("", |slice| &slice.key);
        self.bucket.keys.content(name).map_err(|error| ContentError::ImpossibleKey(error).into())
    }

    /// Makes sure that a full checkpoint covers the commits before a number. Writes a new one if required.
    async fn cover(self: &Arc<Self>, end: u64, mut must_be_new: bool) -> Result<(), Failure> {
        for attempt in 1.. {
            if !must_be_new && self.state().checkpoint.base() + 1 >= end {
                break;
            }
            let latest = self.state().checkpoint.through;
            match self.write_checkpoint(true, latest).await {
                Ok(()) => must_be_new = false,
                Err(failure) if attempt == MAX_ATTEMPTS || !failure.is_busy() => return Err(failure),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The keys of the contents that the latest checkpoint, the state after it or a commit that is not trimmed refers
    /// to.
    async fn keys_in_use(&self, first_kept: u64) -> Result<BTreeSet<Path>, Failure> {
        let latest = self.state().checkpoint.clone();
        let state = self.load_to_end(Some(latest), &self.deadline()).await?.unwrap_or_default();
        let mut names = names_in_state(&state);
        let kept = stream::iter(first_kept..=state.number)
            .map(|number| async move { self.entry(number, &self.deadline()).await });
        let mut kept = kept.buffer_unordered(CONCURRENCY);
        while let Some(entry) = kept.try_next().await? {
            if let Entry::Commit(commit, _) = entry {
                names.extend(names_in_commit(&commit));
            }
        }
        let keys = names.iter().map(|name| self.bucket.keys.content(name));
        keys.collect::<Result<_, _>>().map_err(|error| ContentError::ImpossibleKey(error).into())
    }

    /// Replaces commits by markers, and notes that.
    async fn trim(self: &Arc<Self>, numbers: Range<u64>) -> Result<u64, Failure> {
        if numbers.is_empty() {
            return Ok(0);
        }
        let trim = |number| async move {
            match self.entry(number, &self.deadline()).await? {
                Entry::Commit(commit, _) => self.put_marker(number, commit.id).await,
                Entry::Trimmed(_) => Ok(()), // by an interrupted collection
                Entry::Free => Err(Damage::Missing { key: self.bucket.keys.commit(number).to_string() }.into()),
            }
        };
        stream::iter(numbers.clone()).map(trim).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        self.note_trimmed(numbers.end - 1).await?;
        Ok(numbers.end - numbers.start)
    }

    /// Replaces a commit by a marker with its id. The number stays taken, and the author can still determine the
    /// outcome.
    pub(crate) async fn put_marker(&self, number: u64, id: Id) -> Result<(), Failure> {
        let marker = trimmed_marker(id).map_err(Failure::unwritable)?;
        self.bucket.put(&self.bucket.keys.commit(number), marker.into(), &self.deadline()).await
    }

    async fn older_checkpoints(&self, latest: u64) -> Result<Vec<ObjectMeta>, Failure> {
        let mut listed = self.bucket.list(&self.bucket.keys.checkpoints(), &self.deadline()).await?;
        listed.retain(|object| Keys::number(&object.location).is_some_and(|number| number < latest));
        Ok(listed)
    }

    async fn remove(&self, keys: Vec<Path>) -> Result<(), Failure> {
        for keys in keys.chunks(REMOVED_AT_ONCE) {
            retry(&self.deadline(), || self.remove_some(keys)).await?;
        }
        Ok(())
    }

    async fn remove_some(&self, keys: &[Path]) -> object_store::Result<()> {
        let keys = stream::iter(keys.to_vec()).map(Ok).boxed();
        let mut removed = self.bucket.objects.delete_stream(keys);
        while let Some(key) = removed.next().await {
            match key {
                Ok(_) | Err(ObjectError::NotFound { .. }) => {} // another collection may have been first
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn remove_used<'a>(mut objects: Vec<&'a ObjectMeta>, in_use: &BTreeSet<Path>) -> Vec<&'a ObjectMeta> {
    objects.retain(|object| !in_use.contains(&object.location));
    objects
}

fn names_in_state(state: &State) -> Vec<String> {
    let contents = state.files.values().filter_map(FileRecord::slice).map(|slice| slice.key.clone());
    contents.chain(state.checkpoint.runs.iter().map(|run| run.key.clone())).collect()
}

fn names_in_commit(commit: &Commit) -> impl Iterator<Item = String> + '_ {
    commit.batches.iter().flatten().flat_map(|step| match step {
        Step::Write { file, .. } | Step::WriteRecord { file, .. } => {
            file.slice().map(|slice| slice.key.clone()).into_iter().collect()
        }
        Step::Checkpoint(manifest) => manifest.runs.iter().map(|run| run.key.clone()).collect::<Vec<_>>(),
        _ => Vec::new(),
    })
}

/// How old an object is, by the clocks of the bucket and of this machine.
fn age(object: &ObjectMeta) -> Duration {
    SystemTime::now().duration_since(object.last_modified.into()).unwrap_or_default()
}
