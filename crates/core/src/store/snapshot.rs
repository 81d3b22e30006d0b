//! [`CheckInputs`] and [`Snapshot`]: checks for a store with asynchronous storage, such as a database.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::error::{ErrorKind, StoreError};
use crate::store::node::Stat;
use crate::store::quota::Usage;
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// The parts of a store that the checks of a batch or a read depend on, returned by
/// [`Batch::inputs`](crate::Batch::inputs) and [`ReadOptions::inputs`](crate::ReadOptions::inputs).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CheckInputs {
    /// Paths whose [`Stat`] is needed.
    pub paths: BTreeSet<StorePath>,
    /// Files and directories whose [`Usage`] is needed.
    pub usages: BTreeSet<StorePath>,
}

/// The values of [`CheckInputs`], for checks.
///
/// A store with asynchronous storage reads all inputs at once, in the transaction of the changes:
///
/// ```
/// use memory_tool_core::{Batch, Snapshot, Stat, StoreError, StorePath, Usage};
///
/// async fn check(batch: &Batch) -> Result<(), StoreError> {
///     let inputs = batch.inputs();
///     let mut snapshot = Snapshot::new();
///     for path in inputs.paths {
///         let stat = stat_in_database(&path).await;
///         snapshot = snapshot.with_stat(path, stat);
///     }
///     for path in inputs.usages {
///         snapshot = snapshot.with_usage(path, Usage::default());
///     }
///     batch.check(&snapshot)?;
///     batch.changes().iter().try_for_each(|change| change.check(&snapshot))
/// }
/// # async fn stat_in_database(_: &StorePath) -> Stat { Stat::Absent }
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let batch = Batch::new().write("/memories/a.txt".parse::<StorePath>()?, "Hello");
/// # runtime.block_on(check(&batch))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Snapshot {
    stats: BTreeMap<StorePath, Stat>,
    usages: BTreeMap<StorePath, Usage>,
}

impl Snapshot {
    /// Creates an empty snapshot.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what is at a path.
    pub fn with_stat(mut self, path: StorePath, stat: Stat) -> Self {
        self.stats.insert(path, stat);
        self
    }

    /// Adds the usage of a file, or of all files under a directory.
    pub fn with_usage(mut self, path: StorePath, usage: Usage) -> Self {
        self.usages.insert(path, usage);
        self
    }
}

/// A missing value is a failure.
impl StoreState for Snapshot {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        self.stats.get(path).cloned().ok_or_else(|| unanswered("node", path))
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        self.usages.get(path).copied().ok_or_else(|| unanswered("usage", path))
    }
}

fn unanswered(what: &str, path: &StorePath) -> StoreError {
    StoreError::failure(ErrorKind::Other, "checking a batch", format!("the snapshot lacks the {what} of {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::batch::Batch;
    use crate::store::change::Change;
    use crate::store::path_map::PathMap;
    use crate::store::precondition::Precondition;
    use crate::store::quota::Quota;

    const PATHS: [&str; 6] =
        ["/memories/a", "/memories/a/b", "/memories/c", "/memories/c/d", "/memories/e", "/records/f"];

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    fn snapshot_of(state: &PathMap<Vec<u8>>, inputs: CheckInputs) -> Snapshot {
        let paths = inputs.paths.into_iter();
        let snapshot = paths.fold(Snapshot::new(), |snapshot, path| {
            let stat = state.stat(&path).unwrap();
            snapshot.with_stat(path, stat)
        });
        inputs.usages.into_iter().fold(snapshot, |snapshot, path| {
            let usage = state.usage(&path).unwrap();
            snapshot.with_usage(path, usage)
        })
    }

    fn check(batch: &Batch, state: &impl StoreState) -> String {
        let checked = batch.check(state);
        let checked = checked.and_then(|()| batch.changes().iter().try_for_each(|change| change.check(state)));
        format!("{checked:?}")
    }

    fn changes() -> Vec<Change> {
        let mut changes = vec![Change::Remove { path: StorePath::memories() }];
        for from in PATHS.map(path) {
            changes.push(Change::Write { path: from.clone(), content: vec![0; 9].into(), times: Default::default() });
            changes.push(Change::Remove { path: from.clone() });
            let targets = PATHS.map(path).into_iter().filter(|to| *to != from);
            changes.extend(targets.map(|to| Change::Rename { from: from.clone(), to }));
        }
        changes
    }

    #[test]
    fn a_snapshot_of_the_inputs_answers_like_the_state() {
        let mut state = PathMap::<Vec<u8>>::new();
        let stored = ["/memories/a/b", "/memories/c", "/memories/g/h", "/records/f"];
        let stored = stored.iter().fold(Batch::new(), |batch, name| batch.write(path(name), vec![0; 4]));
        state.apply(&stored, |content, _| content.to_vec()).unwrap();
        let quota = Quota::new().with_files(2).with_bytes(10).with_file_bytes(8).with_depth(1);
        let limited = ["/memories", "/memories/a", "/memories/g/h", "/memories/e/x"].map(path);
        let mut outcomes = BTreeSet::new();
        for first in changes() {
            for second in std::iter::once(None).chain(changes().into_iter().map(Some)) {
                for directory in &limited {
                    let batch = Batch::new().limit(directory, quota).change(first.clone());
                    let batch = second.iter().cloned().fold(batch, Batch::change);
                    let required = batch.clone().require(path("/memories/c"), Precondition::Absent);
                    for batch in [batch, required] {
                        let outcome = check(&batch, &state);
                        assert_eq!(check(&batch, &snapshot_of(&state, batch.inputs())), outcome, "{batch:?}");
                        outcomes.insert(outcome.split([' ', '(']).take(3).collect::<Vec<_>>().join(" "));
                    }
                }
            }
        }
        assert!(outcomes.len() > 5, "{outcomes:?}");
        let unanswered = check(&Batch::new().remove(path("/memories/c")), &Snapshot::new());
        assert!(unanswered.contains("the snapshot lacks the node of /memories/c"), "{unanswered}");
    }
}
