//! Checking a store for damage: reads each object that a session, a collection or a new process may need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::{Problem, StorePath, VerifyProgress, VerifyReport};

use crate::content::{Content, ContentError, FileRecord};
use crate::failure::{Failure, unless_damaged};
use crate::format::Damage;
use crate::inner::Inner;
use crate::state::State;

/// Each request may hold a whole object in memory.
const CONCURRENCY: usize = 8;

/// Contents that were read or not, with the failure.
type Checked = (StorePath, FileRecord, Option<Failure>);

impl Inner {
    /// The problems of the log.
    pub(crate) async fn verify_log(self: &Arc<Self>) -> Result<Vec<Problem>, Failure> {
        self.poll(&self.deadline()).await?;
        let mut failures = self.damaged_checkpoints().await?;
        match unless_damaged(self.load_to_end(None, &self.deadline()).await)? {
            Ok(loaded) => failures.extend(self.damaged_commits(&loaded.unwrap_or_default()).await?.into_values()),
            Err(damage) => failures.push(damage),
        }
        Ok(problems("reading the log", failures))
    }

    /// Reads the contents of all files.
    pub(crate) async fn verify_contents(
        &self,
        mut progress: impl FnMut(VerifyProgress) + Send,
    ) -> Result<VerifyReport, Failure> {
        let mut report = VerifyReport::default();
        let mut unchecked: Vec<_> = self.state().files.files().clone().into_iter().collect();
        let of = unchecked.iter().filter(|(path, _)| !path.is_record()).count() as u64;
        let mut known: BTreeMap<StorePath, FileRecord> = BTreeMap::new();
        while !unchecked.is_empty() {
            let (mut again, mut damaged) = (Vec::new(), Vec::new());
            for (path, file, failure) in self.check_contents(unchecked).await? {
                match failure {
                    None if path.is_record() => {}
                    None => {
                        report.files += 1;
                        report.bytes += file.size;
                        progress(VerifyProgress::new(report.files, of));
                    }
                    Some(failure) if known.get(&path) == Some(&file) => damaged.push((path, failure)),
                    Some(_) => again.push((path, file)),
                }
            }
            report.problems.extend(damaged.into_iter().map(problem));
            unchecked = self.reread(again, &mut known).await?;
        }
        Ok(report)
    }

    /// The entries of these files in the newest state. A change or a collection may be the reason of the failures.
    async fn reread(
        &self,
        failed: Vec<(StorePath, FileRecord)>,
        known: &mut BTreeMap<StorePath, FileRecord>,
    ) -> Result<Vec<(StorePath, FileRecord)>, Failure> {
        if failed.is_empty() {
            return Ok(failed);
        }
        drop(unless_damaged(self.reload(&self.deadline()).await)?); // damage was reported
        let find = |(path, _): &(StorePath, _)| Some((path.clone(), self.state().files.files().get(path)?.clone()));
        let now = failed.iter().filter_map(find).collect();
        known.extend(failed);
        Ok(now)
    }

    /// Reads the contents, each object once.
    async fn check_contents(&self, files: Vec<(StorePath, FileRecord)>) -> Result<Vec<Checked>, Failure> {
        let (mut checked, mut in_objects) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for (path, file) in files {
            match &file.content {
                Content::Inline(bytes) => {
                    let failure = (bytes.len() as u64 != file.size).then(|| ContentError::WrongSize.into());
                    checked.push((path, file, failure));
                }
                Content::Object(slice) => in_objects.entry(slice.key.clone()).or_default().push((path, file)),
            }
        }
        let reads = stream::iter(in_objects).map(|(name, parts)| self.check_object(name, parts));
        let mut reads = reads.buffer_unordered(CONCURRENCY);
        while let Some(mut parts) = reads.try_next().await? {
            checked.append(&mut parts);
        }
        Ok(checked)
    }

    async fn check_object(&self, name: String, parts: Vec<(StorePath, FileRecord)>) -> Result<Vec<Checked>, Failure> {
        let object = match unless_damaged(self.parts_of(&name, parts.iter().map(|(_, file)| file)).await)? {
            Ok(object) => object,
            Err(damage) => {
                let shared = damage.into_shared();
                return Ok(parts.into_iter().map(|(path, file)| (path, file, Some(shared.clone().into()))).collect());
            }
        };
        let check = |(path, file): (StorePath, FileRecord)| {
            let failure = file.cut(&object).err().map(Failure::from);
            (path, file, failure)
        };
        Ok(parts.into_iter().map(check).collect())
    }

    /// The problems of the checkpoints that openings, collections and repairs may use.
    pub(crate) async fn damaged_checkpoints(&self) -> Result<Vec<Failure>, Failure> {
        let trimmed = self.state().trimmed;
        let mut pointers = self.pointers(&self.deadline()).await?;
        pointers.retain(|number, _| *number >= trimmed);
        let (mut failures, mut runs, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for number in pointers.into_keys().rev() {
            match unless_damaged(self.manifest(number, &self.deadline()).await)? {
                Ok(manifest) => runs.extend(manifest.into_iter().flat_map(|it| it.runs).map(|run| (number, run))),
                Err(damage) => failures.push(damage),
            }
        }
        runs.retain(|(_, run)| seen.insert(run.key.clone()));
        let read = |(number, run)| async move { (number, self.load_run(run, &self.deadline()).await) };
        let mut reads = stream::iter(runs).map(read).buffer_unordered(CONCURRENCY);
        while let Some((number, read)) = reads.next().await {
            match unless_damaged(read)? {
                Ok(Err(missing)) if self.may_need(number).await? => {
                    failures.push(Damage::Missing { key: missing }.into());
                }
                Ok(_) => {}
                Err(damage) => failures.push(damage),
            }
        }
        Ok(failures)
    }

    /// Whether an opening or a repair may need a checkpoint whose run is missing. A collection removes the pointers
    /// between the latest checkpoint and the previous one, and then their runs. The network may deliver the request
    /// that created such a pointer again.
    async fn may_need(&self, number: u64) -> Result<bool, Failure> {
        let pointer = self.bucket.keys.checkpoint(number);
        let is_removed = self.bucket.head(&pointer, &self.deadline()).await?.is_none();
        let is_latest = number >= self.state().checkpoint.through;
        Ok(!is_removed && (is_latest || self.previous_checkpoint(|_| true).await?.0.is_none()))
    }

    /// The missing and unreadable commits of a loaded log that were not trimmed. Loading has read those after the
    /// checkpoint.
    pub(crate) async fn damaged_commits(&self, loaded: &State) -> Result<BTreeMap<u64, Failure>, Failure> {
        let first = loaded.trimmed.max(1);
        let listed = self.log_after(first, &self.deadline()).await?.numbered;
        let through = loaded.checkpoint.through;
        let missing = (first + 1..=loaded.number).filter(|number| !listed.contains_key(number));
        let missing =
            missing.map(|number| (number, Damage::Missing { key: self.bucket.keys.commit(number).to_string() }.into()));
        let mut damaged: BTreeMap<_, Failure> = missing.collect();
        let present: Vec<_> = listed.into_keys().filter(|number| *number <= through).collect();
        let read = |number| async move { (number, self.entry(number, &self.deadline()).await) };
        let mut reads = stream::iter(present).map(read).buffer_unordered(CONCURRENCY);
        while let Some((number, entry)) = reads.next().await {
            if let Err(damage) = unless_damaged(entry)? {
                damaged.insert(number, damage);
            }
        }
        Ok(damaged)
    }
}

fn problem((path, failure): (StorePath, Failure)) -> Problem {
    let problem = Problem::of(&failure.during("reading"));
    Problem::new(format!("{path} cannot be read: {}", problem.message)).with_path(path)
}

/// Failures as problems, each once.
fn problems(operation: &'static str, failures: Vec<Failure>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for failure in failures {
        let problem = Problem::of(&failure.during(operation));
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}
