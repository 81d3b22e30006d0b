//! [`UsageCache`]: caches the usage of directories between batches, which spares most batches a count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memory_tool_core::{Change, StoreError, StorePath, Usage};

use crate::tree::Tree;

/// How long a cached usage is valid. After that it is counted again, to include changes of programs that do not change
/// the sequence number. The time is longer than the time between two edits of Claude, so a session counts once a minute
/// instead of once per edit.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The maximum number of directories. A store has one or, with a limit for each tenant, one per tenant.
const MAX_DIRECTORIES: usize = 1_000;

/// The usage of directories, valid while no other process changes the store.
#[derive(Debug, Default)]
pub(crate) struct UsageCache {
    /// The sequence number after the last change of this process. Another number means another change.
    sequence: Option<u64>,
    by_directory: BTreeMap<StorePath, CachedUsage>,
}

#[derive(Clone, Copy, Debug)]
struct CachedUsage {
    usage: Usage,
    counted: Instant,
}

impl UsageCache {
    /// Removes entries that may be outdated. Must be the first call in each transaction, with the sequence number that
    /// it found.
    pub(crate) fn refresh(&mut self, found: u64) {
        if self.sequence != Some(found) {
            self.forget();
        }
        self.by_directory.retain(|_, cached| cached.counted.elapsed() < MAX_AGE);
    }

    /// Keeps the entries for the next transaction, which follows the one with this sequence number.
    pub(crate) fn settle(&mut self, number: u64) {
        self.sequence = Some(number);
    }

    /// Clears the cache. Returns whether it contained anything.
    pub(crate) fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.by_directory).is_empty()
    }

    /// The usage at and under a limited directory.
    pub(crate) fn usage(&mut self, tree: &Tree<'_>, directory: &StorePath) -> Result<Usage, StoreError> {
        if let Some(cached) = self.by_directory.get(directory) {
            return Ok(cached.usage);
        }
        let usage = tree.usage(directory)?;
        if self.by_directory.len() == MAX_DIRECTORIES {
            self.forget();
        }
        self.by_directory.insert(directory.clone(), CachedUsage { usage, counted: Instant::now() });
        Ok(usage)
    }

    /// Adds changes that are about to be made.
    pub(crate) fn note(&mut self, tree: &Tree<'_>, changes: &[Change]) -> Result<(), StoreError> {
        changes.iter().try_for_each(|change| self.count(tree, change))
    }

    fn count(&mut self, tree: &Tree<'_>, change: &Change) -> Result<(), StoreError> {
        if self.by_directory.is_empty() {
            return Ok(());
        }
        match change {
            Change::Write { path, content, .. } => {
                let replaced = tree.usage(path)?;
                self.adjust(path, Usage::of_file(path, content.len() as u64), replaced);
            }
            Change::Remove { path } => {
                let removed = tree.usage(path)?;
                self.adjust(path, Usage::default(), removed);
            }
            Change::Rename { from, to } => {
                self.by_directory.retain(|directory, _| {
                    let holds = |path: &StorePath| path.is_under(directory);
                    holds(from) && holds(to) || !directory.overlaps(from) && !directory.overlaps(to)
                });
                let deeper = to.segments().count().saturating_sub(from.segments().count()) as u64;
                for (_, cached) in self.by_directory.iter_mut().filter(|(directory, _)| to.is_under(directory)) {
                    // An upper bound: before a batch is refused, the usage is counted again.
                    cached.usage.depth += deeper;
                }
            }
        }
        Ok(())
    }

    /// Applies the difference at a path. Entries for directories that were replaced or removed are dropped.
    fn adjust(&mut self, path: &StorePath, comes: Usage, goes: Usage) {
        self.by_directory.retain(|directory, _| path.is_under(directory) || !path.overlaps(directory));
        for (_, cached) in self.by_directory.iter_mut().filter(|(directory, _)| path.is_under(directory)) {
            let before = cached.usage;
            let files = (before.files + comes.files).saturating_sub(goes.files);
            let bytes = (before.bytes + comes.bytes).saturating_sub(goes.bytes);
            // The depth may be too high. Before a batch is refused, the usage is counted again.
            cached.usage = Usage::new(files, bytes, before.depth.max(comes.depth));
        }
    }
}
