//! [`Plan`]: the entry that an operation of the history is about to add.
//!
//! An operation applies its batch through the policies above the history. The batch has a mark, a write that no store
//! sees, by which the history finds what the batch cannot carry.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_tool_core::{Batch, Change, StoreError, StorePath};

use crate::entry::{Entry, Origin};
use crate::hex::Id;
use crate::records::{self, Stored};
use crate::tip::Tip;
use crate::versions::Versions;

/// Entries that replace others with the same numbers, with all their contents, and the files before the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub(crate) entries: BTreeMap<u64, Stored>,
    /// `None` if the log is too damaged to know them.
    pub(crate) versions: Option<Versions>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// The end of the log that the plan was made for.
    pub(crate) tip: Arc<Tip>,
    pub(crate) origin: Origin,
    pub(crate) edits: Edits,
}

/// The plans of a process.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<HashMap<StorePath, Pending>>);

#[derive(Debug)]
struct Pending {
    plan: Arc<Plan>,
    added: Option<Entry>,
}

/// A plan that is forgotten with this value.
pub(crate) struct Planned<'a> {
    plans: &'a Plans,
    mark: StorePath,
}

impl Plans {
    fn plans(&self) -> MutexGuard<'_, HashMap<StorePath, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, plan: Plan) -> Result<Planned<'_>, StoreError> {
        let mark = records::plan(Id::random()?);
        self.plans().insert(mark.clone(), Pending { plan: Arc::new(plan), added: None });
        Ok(Planned { plans: self, mark })
    }

    /// The plan of a batch, its mark, and the batch without the mark.
    pub(crate) fn find(&self, batch: &Batch) -> Option<(Arc<Plan>, StorePath, Batch)> {
        let plans = self.plans();
        let (mark, pending) = batch.changes().iter().find_map(|change| match change {
            Change::Write { path, .. } => plans.get_key_value(path),
            Change::Remove { .. } | Change::Rename { .. } => None,
        })?;
        Some((Arc::clone(&pending.plan), mark.clone(), without(batch, mark)))
    }

    pub(crate) fn finish(&self, mark: &StorePath, entry: Entry) {
        if let Some(pending) = self.plans().get_mut(mark) {
            pending.added = Some(entry);
        }
    }
}

impl Planned<'_> {
    /// Marks the batch of the plan.
    pub(crate) fn mark(&self, batch: Batch) -> Batch {
        batch.write(self.mark.clone(), "")
    }

    /// The entry that was added.
    pub(crate) fn added(&self) -> Option<Entry> {
        self.plans.plans().get(&self.mark).and_then(|pending| pending.added.clone())
    }
}

impl Drop for Planned<'_> {
    fn drop(&mut self) {
        self.plans.plans().remove(&self.mark);
    }
}

/// The batch without a change.
fn without(batch: &Batch, mark: &StorePath) -> Batch {
    let mut kept = Batch::new();
    for (path, required) in batch.preconditions() {
        kept = kept.require(path.clone(), required.clone());
    }
    for (directory, quota) in batch.quotas() {
        kept = kept.limit(directory.clone(), *quota);
    }
    let is_mark = |change: &&Change| matches!(change, Change::Write { path, .. } if path == mark);
    kept = batch.changes().iter().filter(|change| !is_mark(change)).cloned().fold(kept, Batch::change);
    kept = batch.actor().into_iter().cloned().fold(kept, Batch::by);
    batch.command().into_iter().fold(kept, Batch::for_command)
}
