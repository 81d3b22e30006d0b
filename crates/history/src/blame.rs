//! [`of_lines`]: which entry wrote each line of a file.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Store, StorePath};
use similar::{DiffOp, TextDiff};

use crate::entry::{Digest, Entry, EntryRef, FileChange};
use crate::error::HistoryError;
use crate::history::History;

/// The number of entries that are compared. Earlier lines stay unknown.
const MAX_ENTRIES: usize = 50;

/// The time to compare two texts, after which the comparison is coarse. It is on the thread of the caller.
const MAX_TIME: Duration = Duration::from_millis(10);

/// The lines of the present text whose entry is not known yet, as they are in an earlier text.
struct Lines {
    writers: Vec<Option<Arc<Entry>>>,
    /// The line of the present text, for each line of the earlier one.
    present: Vec<Option<usize>>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let lines = lines_of(text).len();
        Self { writers: vec![None; lines], present: (0..lines).map(Some).collect() }
    }

    /// Goes from the text after an entry to the one before it.
    fn go_back(&mut self, (before, after): (&str, &str), entry: &Arc<Entry>) {
        let (before, after) = (lines_of(before), lines_of(after));
        let mut present = vec![None; before.len()];
        for op in TextDiff::configure().timeout(MAX_TIME).diff_slices(&before, &after).ops() {
            if let DiffOp::Equal { old_index, new_index, len } = *op {
                present[old_index..old_index + len].copy_from_slice(&self.present[new_index..new_index + len]);
                self.present[new_index..new_index + len].fill(None);
            }
        }
        self.are_by(entry);
        self.present = present;
    }

    /// The lines that are not known yet are by this entry.
    fn are_by(&mut self, entry: &Arc<Entry>) {
        for line in self.present.iter().flatten() {
            self.writers[*line] = Some(Arc::clone(entry));
        }
    }
}

/// As the tool counts them.
fn lines_of(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The entry that wrote each line of the present text of a file. `None` if it is not known.
pub(crate) async fn of_lines<S: Store>(
    history: &History<S>,
    path: &StorePath,
    text: &str,
) -> Result<Vec<Option<Arc<Entry>>>, HistoryError> {
    let mut lines = Lines::of(text);
    let mut after = text.to_owned();
    for (entry, indexes) in history.changes_of(path).await?.into_iter().take(MAX_ENTRIES) {
        let Some((index, (before, written))) = write_of(&entry, &indexes) else { continue };
        if written != Digest::of(after.as_bytes()) {
            break; // another program has changed the file, or it is another file
        }
        let (reference, entry) = (EntryRef::from(&entry), Arc::new(entry));
        if !before {
            lines.are_by(&entry);
            break;
        }
        let Ok(before) = history.replaced_by(reference, index).await else { break };
        let Ok(before) = String::from_utf8(before) else { break };
        lines.go_back((&before, &after), &entry);
        after = before;
    }
    Ok(lines.writers)
}

/// The index of the change that wrote the file, whether it replaced another text, and the new one.
fn write_of(entry: &Entry, indexes: &[usize]) -> Option<(usize, (bool, Digest))> {
    indexes.iter().find_map(|index| match entry.changes.get(*index)? {
        FileChange::Write { before, after, .. } => Some((*index, (before.is_some(), *after))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use memory_tool_core::{InMemoryStore, StoreExt as _};

    use super::*;
    use crate::store::HistoryStore;

    #[tokio::test]
    async fn each_line_is_by_the_entry_that_wrote_it() {
        let store = HistoryStore::new(InMemoryStore::new());
        let path: StorePath = "/memories/b".parse().unwrap();
        let blamed = async |text: &str| {
            let writers = store.history().blame(&path, text).await.unwrap();
            writers.into_iter().map(|entry| Some(entry?.number)).collect::<Vec<_>>()
        };
        store.write("/memories/a", "one\ntwo\nthree\n").await.unwrap();
        store.write("/memories/a", "zero\none\ntwo\nthree\n").await.unwrap();
        store.rename("/memories/a", "/memories/b").await.unwrap();
        store.write("/memories/b", "zero\none\n2\nthree\nfour").await.unwrap();
        let known = [Some(2), Some(1), Some(4), Some(1), Some(4)];
        assert_eq!(blamed("zero\none\n2\nthree\nfour").await, known);
        assert_eq!(blamed("of another program\n").await, [None]);
        // The same name is another file.
        store.remove("/memories/b").await.unwrap();
        store.write("/memories/b", "one\n").await.unwrap();
        assert_eq!(blamed("one\n").await, [Some(6)]);
        // Without the earlier text, the writer is not known.
        store.write("/memories/b", "one\ntwo\n").await.unwrap();
        store.history().redact(&[7]).await.unwrap();
        assert_eq!(blamed("one\ntwo\n").await, [None, None]);
    }
}
