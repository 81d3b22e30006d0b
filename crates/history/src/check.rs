//! [`HistoryReport`]: the result of checking a history.

use std::sync::Arc;

use memory_tool_core::{ErrorKind, ReadOptions, Store, StoreError, StorePath};

use crate::entry::{Digest, Entry, FileChange};
use crate::hex::Id;
use crate::log::Log;
use crate::past::{Backwards, Files, Source, differing_contents};
use crate::records::{self, IndexedBlock};
use crate::tip::{Tip, is_outdated};

/// The damage of a store that was restored in parts.
const OF_ANOTHER_HISTORY: &str = "and older ones belong to another history: restore all files of a backup, or \
                                  remove the history, as `memory-tool redact --all` does";

/// The result of [`History::verify`](crate::History::verify).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HistoryReport {
    /// The number of entries that were read.
    pub entries: u64,
    /// The number of kept contents that were checked.
    pub contents: u64,
    /// Damage, in words.
    pub damage: Vec<String>,
    /// The numbers of entries that replace lost ones, so that no state before them is known. This is not damage.
    pub lost: Vec<u64>,
    /// Files that another program changed or removed since their newest entry. This is not damage.
    pub changed_by_others: Vec<StorePath>,
}

/// Checks all entries up to the present end of the log, newest first.
///
/// # Errors
/// The errors of the store other than damage.
pub(crate) async fn verify<S: Store>(log: &Log<S>) -> Result<HistoryReport, StoreError> {
    log.forget(); // otherwise it would check what this process remembers
    let mut attempts = log.attempts();
    let (mut tip, files) = loop {
        let tip = log.load().await?;
        match Files::present(log, &tip).await {
            Err(error) => attempts.again(&tip, error)?,
            Ok(files) => break (tip, files),
        }
    };
    let (mut report, end) = (HistoryReport::default(), tip.newest());
    // Another session may have started the history since.
    let has_records = !tip.has_history() && records::is_present(&log.store, &records::root()).await?;
    if has_records && !log.load().await?.has_history() {
        report.damage.push("the head of the history is missing".to_owned());
    }
    let mut check = Check { log, report, files, end, followed: None };
    let mut next = end;
    loop {
        let before = next;
        match check.entries(&tip, &mut next).await {
            Ok(()) => return Ok(check.report),
            // Entries moved into a block, or were removed or redacted.
            Err(error) => {
                if next < before {
                    attempts = log.attempts();
                }
                attempts.again(&tip, error)?;
                tip = log.load().await?;
            }
        }
    }
}

struct Check<'a, S> {
    log: &'a Log<S>,
    report: HistoryReport,
    /// The files after the next entry.
    files: Files,
    /// The number of the newest entry at the beginning.
    end: u64,
    /// The entry that the newer one follows. `None` if it is not known.
    followed: Option<Id>,
}

impl<S: Store> Check<'_, S> {
    /// Checks the entries from `next` to the oldest one.
    async fn entries(&mut self, tip: &Arc<Tip>, next: &mut u64) -> Result<(), StoreError> {
        let index = self.index(tip).await?;
        let mut reader = Backwards::from(self.log, tip, *next);
        loop {
            let number = reader.number();
            *next = number;
            let checked = match reader.next().await {
                Ok(None) => return Ok(()),
                Ok(Some(entry)) => {
                    let checked = self.entry(tip, &index, &entry).await;
                    if checked.is_ok() {
                        self.files.take_back(&entry);
                    }
                    checked
                }
                Err(error) => Err(error),
            };
            match checked {
                Err(error) if is_damage(&error) || self.is_missing(tip, &error).await? => {
                    self.report.damage.push(format!("entry {number}: {}", message(&error)));
                    self.followed = None;
                    let is_in_block = number < tip.head.blocks_end;
                    reader.skip_to(if is_in_block { tip.head.block_of(number) } else { number } - 1);
                }
                checked => checked?,
            }
        }
    }

    async fn index(&mut self, tip: &Tip) -> Result<Vec<IndexedBlock>, StoreError> {
        if let Err(error) = self.log.births(ReadOptions::new()).await {
            let is_damage = is_damage(&error);
            is_damage.then_some(()).ok_or(error)?;
            self.report.damage.push("the identities of the files cannot be read".to_owned());
        }
        match self.log.index(tip).await {
            Err(error) if is_damage(&error) || self.is_missing(tip, &error).await? => {
                self.report.damage.push(format!("the index: {}", message(&error)));
                Ok(Vec::new())
            }
            index => index,
        }
    }

    /// Whether a record is missing although the log has not changed.
    async fn is_missing(&self, tip: &Tip, error: &StoreError) -> Result<bool, StoreError> {
        Ok(matches!(error, StoreError::NotFound { .. }) && self.log.load().await?.is_same(tip))
    }

    async fn entry(&mut self, tip: &Arc<Tip>, index: &[IndexedBlock], entry: &Entry) -> Result<(), StoreError> {
        let in_block = |block: &&IndexedBlock| (block.first..tip.head.blocks_end).contains(&entry.number);
        let contents = self.contents(tip, entry).await?;
        let changed = self.changed_by_others(entry).await?;
        if index.iter().rfind(in_block).is_some_and(|block| !block.has(entry)) {
            self.report.damage.push(format!("entry {}: the index lacks it", entry.number));
        }
        let is_lost = entry.is_redacted && entry.changes.is_empty();
        if !is_lost && self.followed.is_some_and(|followed| followed != entry.id) {
            self.report.damage.push(format!("entry {}: the next one follows another entry", entry.number));
        }
        if !is_lost && entry.number == tip.head.blocks_end && entry.after != tip.head.tail {
            self.report.damage.push(format!("entry {} {OF_ANOTHER_HISTORY}", entry.number));
        }
        self.followed = (!is_lost).then_some(entry.after);
        self.report.lost.extend(is_lost.then_some(entry.number));
        self.report.entries += 1;
        self.report.changed_by_others.extend(changed);
        for is_whole in contents {
            self.report.contents += 1;
            if !is_whole {
                self.report.damage.push(message(&differing_contents(entry.number)));
            }
        }
        Ok(())
    }

    /// Whether each kept contents of an entry are whole.
    async fn contents(&self, tip: &Tip, entry: &Entry) -> Result<Vec<bool>, StoreError> {
        if entry.kept_bytes() == 0 {
            return Ok(Vec::new());
        }
        let contents = self.log.contents(&*self.log.entry(tip, entry.number).await?).await?;
        Ok(entry.kept().map(|kept| kept.of(&contents).is_some()).collect())
    }

    /// The files that another program changed after this entry.
    async fn changed_by_others(&self, entry: &Entry) -> Result<Vec<StorePath>, StoreError> {
        let mut changed = Vec::new();
        for change in &entry.changes {
            let FileChange::Write { path, after, .. } = change else { continue };
            let present = match self.files.0.get(path) {
                Some(Source::Past(..) | Source::Redacted(_)) => continue,
                Some(Source::Present(file)) => Some(file),
                None => None,
            };
            let is_same = match present.filter(|file| file.size == after.size) {
                Some(file) => self.is_same(&file.path, after).await?,
                None => false,
            };
            let now = present.map_or(path, |file| &file.path);
            if !is_same && !self.was_changed_since(now).await? {
                changed.push(path.clone());
            }
        }
        Ok(changed)
    }

    async fn is_same(&self, path: &StorePath, digest: &Digest) -> Result<bool, StoreError> {
        match self.log.store.read_opts(path, ReadOptions::new()).await {
            Ok(node) => Ok(node.into_file().is_some_and(|file| Digest::of(&file.content) == *digest)),
            Err(error) if is_outdated(&error) => Err(error),
            // The check of the store reports a file that cannot be read.
            Err(_) => Ok(true),
        }
    }

    /// Whether an entry since the beginning of the check changed a path.
    async fn was_changed_since(&self, path: &StorePath) -> Result<bool, StoreError> {
        let now = self.log.load().await?;
        let new = Backwards::since(self.log, &now, self.end).await?;
        let mut changed = new.iter().flat_map(|entry| &entry.changes).flat_map(FileChange::paths);
        Ok(changed.any(|changed| changed.overlaps(path)))
    }
}

fn is_damage(error: &StoreError) -> bool {
    error.kind() == ErrorKind::Damaged
}

fn message(error: &StoreError) -> String {
    match error {
        StoreError::Failure { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}
