//! [`UsageCache`]: caches the usage of directories between batches, which spares most batches a count.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use memory_tool_core::{Change, MemoryPath, StoreError, Usage};

use crate::disk::{self, Content};
use crate::failure::failed;
use crate::name::{Name, TemporaryName};
use crate::tree::Tree;

/// The file that contains the epoch. It exists if a process caches the usage.
const EPOCH: Name<'_> = Name::constant("epoch");

/// How long a cached usage is valid. After that it is counted again, to include changes of programs that write no
/// epoch. The time is longer than the time between two edits of Claude, so a session counts once a minute instead of
/// once per edit.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The maximum number of directories. A store has one or, with a limit for each tenant, one per tenant.
const MAX_DIRECTORIES: usize = 1_000;

/// The usage of directories, valid while no other process changes the store.
///
/// Before a process changes the store, it takes the lock and writes its own epoch if the file has another one. If the
/// file still has that epoch, no other process has changed anything since.
#[derive(Debug, Default)]
pub(crate) struct UsageCache {
    /// The epoch of this process, once it has been written.
    epoch: Option<TemporaryName>,
    /// Whether the file contained it in this transaction.
    is_current: bool,
    by_directory: BTreeMap<MemoryPath, CachedUsage>,
}

#[derive(Clone, Copy, Debug)]
struct CachedUsage {
    usage: Usage,
    counted: Instant,
}

impl UsageCache {
    /// Removes entries that may be outdated. Must be the first call in each transaction.
    pub(crate) fn refresh(&mut self, private: &Dir) {
        self.is_current = false;
        if self.by_directory.is_empty() {
            return;
        }
        self.is_current = read_epoch(private).is_ok_and(|found| self.is_own(found.as_deref()));
        if !self.is_current {
            self.forget();
        }
        self.by_directory.retain(|_, cached| cached.counted.elapsed() < MAX_AGE);
    }

    /// Clears the cache. Returns whether it contained anything.
    pub(crate) fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.by_directory).is_empty()
    }

    /// The usage at and under a limited directory.
    pub(crate) fn usage(&mut self, tree: &Tree, directory: &MemoryPath) -> Result<Usage, StoreError> {
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

    /// Adds changes that are about to be made, and writes the epoch that announces them.
    pub(crate) fn note(&mut self, private: &Dir, tree: &Tree, changes: &[Change]) -> Result<(), StoreError> {
        for change in changes {
            self.count(tree, change)?;
        }
        // Without an epoch, no process trusts its cache.
        self.leave_epoch(private).or_else(|error| {
            self.forget();
            remove_epoch(private).map_err(|_| failed("updating the epoch", error))
        })
    }

    /// Writes the own epoch if this process caches a usage, or if another process has written one.
    fn leave_epoch(&mut self, private: &Dir) -> io::Result<()> {
        if self.is_current {
            return Ok(());
        }
        let found = read_epoch(private)?;
        if found.is_none() && self.by_directory.is_empty() || self.is_own(found.as_deref()) {
            return Ok(());
        }
        // The existing file is never written: it may be a hard link to a foreign file.
        remove_epoch(private)?;
        let epoch = self.epoch.get_or_insert_with(TemporaryName::random);
        disk::write_new_file(private, EPOCH, epoch.as_str().as_bytes()).map(drop)
    }

    fn is_own(&self, found: Option<&[u8]>) -> bool {
        let own = self.epoch.as_ref().map(|epoch| epoch.as_str().as_bytes());
        found.is_some() && found == own
    }

    fn count(&mut self, tree: &Tree, change: &Change) -> Result<(), StoreError> {
        if self.by_directory.is_empty() {
            return Ok(());
        }
        match change {
            Change::Write { path, content } => {
                let replaced = tree.usage(path)?;
                self.adjust(path, Usage::of_file(path, content.len() as u64), replaced);
            }
            Change::Remove { path } => {
                let removed = tree.usage(path)?;
                self.adjust(path, Usage::default(), removed);
            }
            Change::Rename { from, to } => {
                self.by_directory.retain(|directory, _| {
                    let holds = |path: &MemoryPath| path.is_under(directory);
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
    fn adjust(&mut self, path: &MemoryPath, comes: Usage, goes: Usage) {
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

/// Reads the epoch. A file that is too long matches no process.
fn read_epoch(private: &Dir) -> io::Result<Option<Vec<u8>>> {
    match disk::read_file(private, EPOCH, TemporaryName::DIGITS as u64) {
        Ok(Content::Whole(epoch)) => Ok(Some(epoch)),
        Ok(Content::TooLarge { .. }) => Ok(Some(Vec::new())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove_epoch(private: &Dir) -> io::Result<()> {
    match private.remove_file(EPOCH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
