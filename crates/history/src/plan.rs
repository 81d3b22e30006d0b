//! [`Plan`]: the entry that an operation of the history is about to add.
//!
//! An operation applies its batch through the policies above the history. The batch has a mark, a write that no store
//! sees, by which the history finds what the batch cannot carry.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use memory_tool_core::{Batch, Change, StoreError, StorePath, lock};

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
    /// Whether the entry of the batch does not keep what the batch replaces.
    pub(crate) forgets_replaced: bool,
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
    pub(crate) fn add(&self, plan: Plan) -> Result<Planned<'_>, StoreError> {
        let mark = records::plan(Id::random()?);
        lock(&self.0).insert(mark.clone(), Pending { plan: Arc::new(plan), added: None });
        Ok(Planned { plans: self, mark })
    }

    /// The plan of a batch, its mark, and the batch without the mark.
    pub(crate) fn find(&self, batch: &Batch) -> Option<(Arc<Plan>, StorePath, Batch)> {
        let plans = lock(&self.0);
        let (mark, pending) = batch.changes().iter().find_map(|change| match change {
            Change::Write { path, .. } => plans.get_key_value(path),
            Change::Remove { .. } | Change::Rename { .. } => None,
        })?;
        let is_mark = |change: &Change| matches!(change, Change::Write { path, .. } if path == mark);
        Some((Arc::clone(&pending.plan), mark.clone(), batch.clone().retain(|change| !is_mark(change))))
    }

    pub(crate) fn finish(&self, mark: &StorePath, entry: Entry) {
        if let Some(pending) = lock(&self.0).get_mut(mark) {
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
        lock(&self.plans.0).get(&self.mark).and_then(|pending| pending.added.clone())
    }
}

impl Drop for Planned<'_> {
    fn drop(&mut self) {
        lock(&self.plans.0).remove(&self.mark);
    }
}
