//! [`LogFilter`]: selects entries of the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{MemoryPath, Moment, PathError, Store, StoreError, StorePath};
use serde::{Deserialize, Deserializer};

use crate::diff::listed;
use crate::entry::{Entry, FileChange};
use crate::log::Log;
use crate::past::Backwards;
use crate::records::IndexedBlock;
use crate::tip::Tip;

/// Which entries [`History::entries`](crate::History::entries) lists.
///
/// ```
/// use memory_tool_history::LogFilter;
///
/// let newest = LogFilter::new().path("/memories/a.txt".parse()?).actor("user/42").limit(20);
/// assert_ne!(newest, LogFilter::new());
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
///
/// In data, the fields have the names of the methods, and times are [moments](Moment). An invalid path is an error of
/// [`History::entries`](crate::History::entries).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[must_use]
#[serde(default, deny_unknown_fields)]
pub struct LogFilter {
    #[serde(deserialize_with = "memory_path")]
    path: Option<Result<StorePath, PathError>>,
    actor: Option<String>,
    command: Option<String>,
    pub(crate) text: Option<String>,
    deleted: bool,
    since: Option<Moment>,
    until: Option<Moment>,
    before: Option<u64>,
    limit: Option<usize>,
}

impl LogFilter {
    /// All entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only changes of the file or directory that has this path now, or had it last, also before it was renamed.
    pub fn path(mut self, path: StorePath) -> Self {
        self.path = Some(Ok(path));
        self
    }

    /// Only changes that this actor wrote or agreed to.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Only changes by this command.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Only entries that have this text in names, or in contents before or after them. Upper and lower case differ. It
    /// reads all files and contents.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Only entries that deleted a file which does not exist now.
    pub fn deleted(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Only changes since this time.
    pub fn since(mut self, since: impl Into<Moment>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Only changes until this time.
    pub fn until(mut self, until: impl Into<Moment>) -> Self {
        self.until = Some(until.into());
        self
    }

    /// Only entries before this number, for the next page.
    pub fn before(mut self, number: u64) -> Self {
        self.before = Some(number);
        self
    }

    /// At most this number of entries.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The selected entries at this end of the log, newest first. `with_text` has the numbers of those with the text.
    pub(crate) async fn entries<S: Store>(
        &self,
        log: &Log<S>,
        tip: &Arc<Tip>,
        with_text: Option<&BTreeSet<u64>>,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut path = self.path.clone().transpose()?;
        let newest = self.before.map_or(tip.newest(), |before| before.saturating_sub(1));
        // The path is the present one, and has to be followed from the end.
        let mut reader = Backwards::from(log, tip, if path.is_some() { tip.newest() } else { newest });
        let mut index = if path.is_some() { log.index(tip).await? } else { Vec::new() };
        let present = if self.deleted { Some(listed(&log.store, &StorePath::memories()).await?) } else { None };
        let mut entries = Vec::new();
        while self.limit.is_none_or(|limit| entries.len() < limit) {
            if let Some(path) = &path {
                skip_blocks(&mut reader, tip, &mut index, path);
            }
            let Some(entry) = reader.next().await? else { break };
            if self.since.is_some_and(|since| Moment::from(entry.time) < since) {
                break;
            }
            let follows = path.as_ref().map(|path| entry.follow(path));
            let concerns = !matches!(follows, Some(None));
            if let Some(Some(earlier)) = follows {
                path = Some(earlier);
            }
            let has_text = with_text.is_none_or(|numbers| numbers.contains(&entry.number));
            if concerns && has_text && entry.number <= newest && self.matches(&entry, present.as_ref()) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn matches(&self, entry: &Entry, present: Option<&BTreeSet<StorePath>>) -> bool {
        present.is_none_or(|present| entry.changes.iter().any(|change| is_gone(change, present)))
            && self.actor.as_ref().is_none_or(|actor| entry.actor.iter().chain(&entry.authors).any(|by| by == actor))
            && self.command.as_ref().is_none_or(|command| entry.command.as_ref() == Some(command))
            && self.until.is_none_or(|until| Moment::from(entry.time) <= until)
    }
}

fn is_gone(change: &FileChange, present: &BTreeSet<StorePath>) -> bool {
    matches!(change, FileChange::Remove { path, .. } if !present.contains(path))
}

/// Skips blocks that cannot concern a path. `index` loses the blocks that were passed.
fn skip_blocks<S: Store>(reader: &mut Backwards<'_, S>, tip: &Tip, index: &mut Vec<IndexedBlock>, path: &StorePath) {
    while reader.number() < tip.head.blocks_end {
        let Some(block) = index.last() else { return };
        if reader.number() < block.first {
            index.pop();
        } else if block.may_concern(path) {
            return;
        } else {
            reader.skip_to(block.first - 1);
        }
    }
}

fn memory_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Result<StorePath, PathError>>, D::Error> {
    let path = Option::<String>::deserialize(deserializer)?;
    Ok(path.map(|path| MemoryPath::parse(&path).map(StorePath::from)))
}
