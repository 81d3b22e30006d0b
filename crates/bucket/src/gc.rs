//! Garbage collection: removes unused contents and older checkpoints, and trims commits that two checkpoints cover.
//!
//! Two complete checkpoints that share no run always remain once the log is trimmed, with all commits after the older
//! one. Therefore the loss of any single run, pointer or commit costs no more than the changes in that commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::now;
use object_store::path::Path;
use object_store::{Error as ObjectError, ObjectMeta};
use serde::Serialize;

use crate::commit::{Commit, Step, trimmed_marker};
use crate::content::{ContentError, FileRecord};
use crate::failure::{Failure, unless_damaged};
use crate::format::Damage;
use crate::id::Id;
use crate::inner::Inner;
use crate::log::Entry;
use crate::manifest::Manifest;
use crate::state::State;

/// The number of objects that are removed before one deadline. S3 removes as many by one request.
const REMOVED_AT_ONCE: usize = 1_000;
/// The number of commits that are read or trimmed at a time.
const CONCURRENCY: usize = 16;
/// The number of attempts to write a checkpoint while others write checkpoints.
const MAX_ATTEMPTS: u32 = 10;

const MAX_FOREIGN: usize = 1_000;

/// The result of a collection.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GcReport {
    /// The number of removed objects: unused contents and older checkpoints.
    pub removed_objects: u64,
    /// The bytes of the removed objects.
    pub removed_bytes: u64,
    /// The number of remaining objects under `contents`: used ones, and unused ones that stay for now.
    pub kept_objects: u64,
    /// The number of unused objects that stay because a repair reported losses.
    /// [`accept_loss`](crate::BucketStore::accept_loss) lets a collection remove them.
    pub kept_after_loss: u64,
    /// The number of trimmed commits. The log no longer contains their changes.
    pub trimmed_commits: u64,
    /// The keys in the directories of the store that no store writes, at most 1,000. They stay.
    pub foreign: Vec<String>,
}

/// The conditions under which unused objects may be removed.
struct Rule {
    /// The time of the newest objects that are old enough. Without it, all are.
    horizon: Option<SystemTime>,
    /// Objects up to this time stay after a loss, in seconds since 1970.
    kept_before: i64,
}

impl Rule {
    fn new(older_than: Duration, kept_before: i64) -> Self {
        let horizon = (!older_than.is_zero()).then(|| now().checked_sub(older_than).unwrap_or(UNIX_EPOCH));
        Self { horizon, kept_before }
    }

    /// By the clocks of the bucket and of this machine.
    fn is_old(&self, object: &ObjectMeta) -> bool {
        self.horizon.is_none_or(|horizon| SystemTime::from(object.last_modified) <= horizon)
    }

    fn is_kept_after_loss(&self, object: &ObjectMeta) -> bool {
        object.last_modified.timestamp() <= self.kept_before
    }
}

impl Inner {
    pub(crate) async fn gc(self: &Arc<Self>, older_than: Duration) -> Result<GcReport, Failure> {
        self.refuse_read_only()?;
        let (listed, mut foreign) = self.list_contents().await?;
        self.poll(&self.deadline()).await?;
        let rule = Rule::new(older_than, self.state().kept_before);
        let old: Vec<_> = listed.iter().filter(|object| rule.is_old(object)).collect();
        let covered = self.numbers_to_trim(&rule, &mut foreign).await?;
        let is_unpacked = self.unpack(&old, &rule).await?;
        if is_unpacked || !covered.is_empty() {
            self.cover(covered.end, is_unpacked, &rule).await?;
        }
        let (previous, damaged) = self.previous_checkpoint(|pointer| rule.is_old(pointer)).await?;
        let trim_end = previous.as_ref().map_or(0, |state| state.checkpoint.base() + 1);
        let trim = covered.start..trim_end.clamp(covered.start, covered.end);
        foreign.truncate(MAX_FOREIGN);
        let mut report = GcReport { kept_objects: listed.len() as u64, foreign, ..GcReport::default() };

        let latest = self.state().checkpoint.clone();
        let through = latest.through;
        let unused = remove_used(old.clone(), &self.keys_in_use(trim.end, latest, previous.as_ref()).await?);
        report.kept_after_loss = unused.iter().filter(|object| rule.is_kept_after_loss(object)).count() as u64;
        let kept = previous.as_ref().map(|state| state.number);
        // A pointer can come again: the network may deliver a request twice, long after.
        let is_useless = |number: &u64| Some(*number) < kept || damaged.contains(number);
        let has_old_pointers = self.old_pointers(through, kept, &rule).await?.keys().any(is_useless);
        if trim.is_empty() && !has_old_pointers && report.kept_after_loss == unused.len() as u64 {
            return Ok(report);
        }
        self.note(Step::Collection).await?;
        let latest = self.state().checkpoint.clone();
        if latest.through > 0 {
            self.put_pointer(&latest).await?;
        }
        // Until now, the runs of older checkpoints were in use. Another task may note a later checkpoint at any time,
        // but openings start from the one whose pointer exists.
        let in_use = self.keys_in_use(trim.end, latest.clone(), previous.as_ref()).await?;
        let mut unused = remove_used(old, &in_use);
        unused.retain(|object| !rule.is_kept_after_loss(object));
        let unused: Vec<_> = unused.into_iter().cloned().collect();
        report.kept_objects -= unused.len() as u64;
        report.trimmed_commits = self.trim(trim).await?;
        let pointers = self.old_pointers(latest.through, kept, &rule).await?;
        // The pointers first: a pointer without its runs would look like damage.
        for objects in [pointers.into_values().collect(), unused] {
            report.removed_objects += objects.len() as u64;
            report.removed_bytes =
                objects.iter().fold(report.removed_bytes, |sum, object| object.size.saturating_add(sum));
            self.remove(objects.into_iter().map(|object| object.location).collect()).await?;
        }
        Ok(report)
    }

    /// The pointers to checkpoints before `latest`, except the previous one.
    async fn old_pointers(
        &self,
        latest: u64,
        previous: Option<u64>,
        rule: &Rule,
    ) -> Result<BTreeMap<u64, ObjectMeta>, Failure> {
        let mut pointers = self.pointers(&self.deadline()).await?;
        pointers
            .retain(|number, object| *number < latest && Some(*number) != previous && !rule.is_kept_after_loss(object));
        Ok(pointers)
    }

    /// Lets later collections remove what was kept since a repair with losses.
    pub(crate) async fn accept_loss(self: &Arc<Self>) -> Result<(), Failure> {
        self.refuse_read_only()?;
        self.poll(&self.deadline()).await?;
        let has_loss = self.state().kept_before > 0;
        if has_loss { self.note(Step::LossAccepted).await } else { Ok(()) }
    }

    /// The objects with contents, and the keys of foreign objects among them.
    async fn list_contents(&self) -> Result<(Vec<ObjectMeta>, Vec<String>), Failure> {
        let keys = &self.bucket.keys;
        let (mut listed, mut foreign) = self.bucket.list_readable(&keys.contents(), &self.deadline()).await?;
        listed.retain(|object| {
            let is_content = keys.is_content(&object.location);
            if !is_content {
                foreign.push(object.location.to_string());
            }
            is_content
        });
        Ok((listed, foreign))
    }

    /// The numbers of the commits that are old enough to be trimmed. All before them were trimmed, but the first.
    async fn numbers_to_trim(&self, rule: &Rule, foreign: &mut Vec<String>) -> Result<Range<u64>, Failure> {
        let (trimmed, last) = {
            let state = self.state();
            (state.trimmed.max(1), state.number)
        };
        let listed = self.log_after(trimmed, &self.deadline()).await?;
        foreign.extend(listed.foreign);
        self.refuse_gaps(trimmed + 1, &listed.numbered, &self.deadline()).await?;
        let end = listed.numbered.keys().next_back().map_or(trimmed, |number| *number) + 1;
        if end <= last {
            self.refuse_hole(end, &self.deadline()).await?;
        }
        let is_old = |object: &ObjectMeta| rule.is_old(object) && !rule.is_kept_after_loss(object);
        let old = listed.numbered.range(..=last).take_while(|(_, object)| is_old(object)).count() as u64;
        let numbers = trimmed + 1..trimmed + 1 + old;
        Ok(if self.hold_changes(numbers.clone()).await? { numbers } else { trimmed + 1..trimmed + 1 })
    }

    /// Whether any of these commits changed a file or a record. The few commits of a collection hold only notes.
    async fn hold_changes(&self, numbers: Range<u64>) -> Result<bool, Failure> {
        if numbers.end - numbers.start > CONCURRENCY as u64 {
            return Ok(true);
        }
        let entries = stream::iter(numbers).map(|number| async move { self.entry(number, &self.deadline()).await });
        let entries: Vec<_> = entries.buffered(CONCURRENCY).try_collect().await?;
        Ok(entries.iter().any(|entry| match entry {
            Entry::Commit(commit, _) => !commit.batches.iter().flatten().all(Step::is_note),
            Entry::Free | Entry::Trimmed(_) => false,
        }))
    }

    /// Reads the used contents of packs that also hold unused ones, so that the next full checkpoint packs them again.
    /// A pack that is mostly used stays, except with an age of zero. Returns whether any contents were read.
    async fn unpack(&self, old: &[&ObjectMeta], rule: &Rule) -> Result<bool, Failure> {
        if !self.state().knows_places() {
            self.reload_from_noted(&self.deadline()).await?;
        }
        let packed: Vec<_> = self.state().files.files().values().filter(|file| file.is_packed()).cloned().collect();
        let mut used: BTreeMap<Path, u64> = BTreeMap::new();
        for file in &packed {
            let used = used.entry(self.key_of(file)?).or_default();
            *used = used.saturating_add(file.size);
        }
        let least = if rule.horizon.is_none() { 1 } else { 2 };
        let has_unused =
            |object: &ObjectMeta, used: u64| used < object.size && used.saturating_mul(least) <= object.size;
        used.retain(|key, used| old.iter().any(|object| object.location == *key && has_unused(object, *used)));
        let mut packs: BTreeMap<String, Vec<FileRecord>> = BTreeMap::new();
        for file in packed {
            if used.contains_key(&self.key_of(&file)?)
                && let Some(slice) = file.slice()
            {
                packs.entry(slice.key.clone()).or_default().push(file);
            }
        }
        let read = |(name, files): (String, Vec<FileRecord>)| async move {
            let object = self.parts_of(&name, files.iter()).await?;
            let cut = files.into_iter().map(|file| Ok((file.version.clone(), file.cut(&object)?)));
            cut.collect::<Result<Vec<_>, ContentError>>().map_err(Failure::from)
        };
        let mut reads = stream::iter(packs).map(read).buffer_unordered(CONCURRENCY);
        let mut contents = BTreeMap::new();
        while let Some(read) = reads.next().await {
            // `verify` reports damage, and the pack stays in use.
            contents.extend(unless_damaged(read)?.into_iter().flatten());
        }
        self.state_mut().hold(&contents);
        Ok(!contents.is_empty())
    }

    fn key_of(&self, file: &FileRecord) -> Result<Path, Failure> {
        let name = file.slice().map_or("", |slice| &slice.key);
        Ok(self.bucket.keys.content(name)?)
    }

    /// Makes sure that full checkpoints cover the commits before a number, so that they can be trimmed. With an age of
    /// zero there must be two, which are old enough at once. Otherwise the next collection may write the second one.
    async fn cover(self: &Arc<Self>, end: u64, mut must_be_new: bool, rule: &Rule) -> Result<(), Failure> {
        let mut has_written = false;
        for attempt in 1.. {
            let latest = self.state().checkpoint.clone();
            if !must_be_new && latest.base() + 1 >= end {
                let (previous, _) = self.previous_checkpoint(|_| true).await?;
                let is_enough = has_written && rule.horizon.is_some();
                if is_enough || previous.is_some_and(|state| state.checkpoint.base() + 1 >= end) {
                    break;
                }
            }
            match self.write_checkpoint(true, latest.through).await {
                Ok(()) => (must_be_new, has_written) = (false, true),
                Err(failure) if attempt == MAX_ATTEMPTS || !failure.is_busy() => return Err(failure),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The state of the newest complete checkpoint that is old enough and shares no run with the latest one, and the
    /// numbers of damaged ones after it.
    pub(crate) async fn previous_checkpoint(
        &self,
        is_old: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<(Option<State>, Vec<u64>), Failure> {
        let mut damaged = Vec::new();
        let (latest, trimmed) = {
            let state = self.state();
            (state.checkpoint.clone(), state.trimmed)
        };
        let mut pointers = self.pointers(&self.deadline()).await?;
        pointers.retain(|number, pointer| (trimmed..latest.through).contains(number) && is_old(pointer));
        for number in pointers.into_keys().rev() {
            // `verify` reports damage.
            match unless_damaged(self.manifest(number, &self.deadline()).await)? {
                Ok(Some(manifest)) if manifest.shares_runs_with(&latest) => continue,
                Ok(Some(manifest)) => {
                    if let Ok(Ok(state)) = unless_damaged(self.load(manifest, &self.deadline()).await)? {
                        return Ok((Some(state), damaged));
                    }
                }
                _ => {}
            }
            damaged.push(number);
        }
        Ok((None, Vec::new())) // a repair may need them
    }

    /// The keys of the contents to which a checkpoint, the state after it, the previous checkpoint or an untrimmed
    /// commit refers.
    async fn keys_in_use(
        &self,
        first_kept: u64,
        latest: Manifest,
        previous: Option<&State>,
    ) -> Result<BTreeSet<Path>, Failure> {
        let mut names: Vec<_> = latest.runs.iter().map(|run| run.key.clone()).collect();
        let state = self.load_to_end(Some(latest), &self.deadline()).await?.unwrap_or_default();
        names.extend(names_in_state(&state));
        names.extend(previous.into_iter().flat_map(names_in_state));
        let kept = stream::iter(first_kept..=state.number)
            .map(|number| async move { self.entry(number, &self.deadline()).await });
        let mut kept = kept.buffer_unordered(CONCURRENCY);
        while let Some(entry) = kept.try_next().await? {
            if let Entry::Commit(commit, _) = entry {
                names.extend(names_in_commit(&commit));
            }
        }
        let keys = names.iter().map(|name| self.bucket.keys.content(name));
        Ok(keys.collect::<Result<_, _>>()?)
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
        self.note(Step::Trimmed { through: numbers.end - 1 }).await?;
        Ok(numbers.end - numbers.start)
    }

    /// Replaces a commit by a marker with its id. The number stays taken, and the author can still determine the
    /// outcome.
    pub(crate) async fn put_marker(&self, number: u64, id: Id) -> Result<(), Failure> {
        let marker = trimmed_marker(id).map_err(Failure::unwritable)?;
        self.bucket.put(&self.bucket.keys.commit(number), marker.into(), &self.deadline()).await
    }

    async fn remove(&self, keys: Vec<Path>) -> Result<(), Failure> {
        for keys in keys.chunks(REMOVED_AT_ONCE) {
            self.bucket.retry(&self.deadline(), || self.remove_some(keys)).await?;
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
    let contents = state.files.files().values().filter_map(FileRecord::slice).map(|slice| slice.key.clone());
    contents.chain(state.checkpoint.runs.iter().map(|run| run.key.clone())).collect()
}

fn names_in_commit(commit: &Commit) -> impl Iterator<Item = String> + '_ {
    commit.batches.iter().flatten().filter_map(|step| match step {
        Step::Write { file, .. } => file.slice().map(|slice| slice.key.clone()),
        _ => None,
    })
}
