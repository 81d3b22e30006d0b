//! [`UsageCache`]: how much lies under directories, kept from one batch to the next, so that not each of them has to count it again.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use memory_tool_core::{Change, MemoryPath, StoreError, Usage};

use crate::disk::{self, Content};
use crate::failure::failed;
use crate::name::{Name, TemporaryName};
use crate::tree::Tree;

/// Holds the epoch, where a process keeps a cache.
const EPOCH: Name<'_> = Name::of_ours("epoch");

/// How long a cached usage is good for: what other programs put there, which leave no epoch, is counted by then. Longer than Claude takes from
/// one edit to the next, so that a session counts once a minute and not for each edit.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// How many directories are kept. A store has one or, with a limit for each tenant, one for each of them.
const MOST_DIRECTORIES: usize = 1_000;

/// What was counted here, for as long as nobody else changes the store.
///
/// Whoever is about to change it leaves an epoch of its own first, while it holds the lock, unless that is there already. So where the
/// epoch is the one that was left here, nobody else has made a change since, or a part of one.
#[derive(Debug, Default)]
pub(crate) struct UsageCache {
    /// The own epoch, once it was left.
    epoch: Option<TemporaryName>,
    /// Whether it was found there in this transaction.
    is_there: bool,
    by_directory: BTreeMap<MemoryPath, CachedUsage>,
}

#[derive(Clone, Copy, Debug)]
struct CachedUsage {
    usage: Usage,
    counted: Instant,
}

impl UsageCache {
    /// Forgets what may not be true any more. Comes first in each transaction.
    pub(crate) fn refresh(&mut self, private: &Dir) {
        self.is_there = false;
        if self.by_directory.is_empty() {
            return;
        }
        self.is_there = read_epoch(private).is_ok_and(|found| self.is_own(found.as_deref()));
        if !self.is_there {
            self.forget();
        }
        self.by_directory.retain(|_, cached| cached.counted.elapsed() < GOOD_FOR);
    }

    /// Forgets everything, and says whether there was anything to forget.
    pub(crate) fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.by_directory).is_empty()
    }

    /// How much is at or beneath a limited directory.
    pub(crate) fn usage(&mut self, tree: &Tree, directory: &MemoryPath) -> Result<Usage, StoreError> {
        if let Some(cached) = self.by_directory.get(directory) {
            return Ok(cached.usage);
        }
        let usage = tree.usage(directory)?;
        if self.by_directory.len() == MOST_DIRECTORIES {
            self.forget();
        }
        self.by_directory.insert(directory.clone(), CachedUsage { usage, counted: Instant::now() });
        Ok(usage)
    }

    /// Counts the changes, which are about to be made, and leaves the epoch that says so.
    pub(crate) fn note(&mut self, private: &Dir, tree: &Tree, changes: &[Change]) -> Result<(), StoreError> {
        for change in changes {
            self.count(tree, change)?;
        }
        // Without an epoch nobody trusts a cache.
        self.leave_epoch(private).or_else(|error| {
            self.forget();
            remove_epoch(private).map_err(|_| failed("updating the epoch", error))
        })
    }

    /// Leaves the own epoch where it is needed for a cached usage, or for those of somebody who left one.
    fn leave_epoch(&mut self, private: &Dir) -> io::Result<()> {
        if self.is_there {
            return Ok(());
        }
        let found = read_epoch(private)?;
        if found.is_none() && self.by_directory.is_empty() || self.is_own(found.as_deref()) {
            return Ok(());
        }
        // Never into the file that is there: it may have another name, as somebody else's file.
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
                    cached.usage.depth += deeper; // or less: before a batch is refused for it, that is counted anew
                }
            }
        }
        Ok(())
    }

    /// Counts what comes and what goes at a path. What is replaced or removed together with a directory is no longer known.
    fn adjust(&mut self, path: &MemoryPath, comes: Usage, goes: Usage) {
        self.by_directory.retain(|directory, _| path.is_under(directory) || !path.overlaps(directory));
        for (_, cached) in self.by_directory.iter_mut().filter(|(directory, _)| path.is_under(directory)) {
            let before = cached.usage;
            let files = (before.files + comes.files).saturating_sub(goes.files);
            let bytes = (before.bytes + comes.bytes).saturating_sub(goes.bytes);
            // Perhaps nothing lies as deep any more. Before a batch is refused for it, that is counted anew.
            cached.usage = Usage::new(files, bytes, before.depth.max(comes.depth));
        }
    }
}

/// The epoch that is there. What is too long to be one is an epoch of nobody.
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
