//! [`Plan`]: what a batch comes down to in the inner store.

use std::collections::BTreeSet;

use memory_tool_core::{Batch, Change, PathMapEdits, RecordChange};

use crate::failure::Failure;
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::padding::Padding;
use crate::state::State;
use crate::target::Target;

/// A content that is to be encrypted and put.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) id: Id,
    /// The number of the change of the batch that has the content.
    pub(crate) number: usize,
}

/// What is to be done in the inner store, as long as the index is the one that it was planned on.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) writes: Vec<PlannedWrite>,
    pub(crate) removals: BTreeSet<Id>,
    /// The index after it; `None` where it need not be written.
    pub(crate) next: Option<Index>,
}

/// How contents are to be encrypted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealing {
    /// The id of the data key. `None` where the batch makes no changes.
    pub(crate) data_key: Option<Id>,
    pub(crate) padding: Padding,
}

/// Whether the batch depends on the sizes of files that it may not change.
pub(crate) fn depends_on_sizes(batch: &Batch) -> bool {
    batch.quotas().iter().any(|(_, quota)| quota.bytes.is_some() || quota.file_bytes.is_some())
}

/// Plans the batch on an index, whose state has the sizes of its files if the batch depends on them.
pub(crate) fn plan(batch: &Batch, index: &Index, state: &State<'_>, sealing: Sealing) -> Result<Plan, Failure> {
    batch.check(state)?;
    let Some(data_key) = sealing.data_key else { return Ok(Plan::default()) };
    let mut writes = Vec::new();
    let edits = index.files.plan(batch, |number, content, known| -> Result<_, Failure> {
        let id = known.map_or_else(Id::random, |file| Ok(file.id))?;
        writes.push(PlannedWrite { id, number });
        Ok(FileRecord { id, data_key, size: sealing.padding.noted_size(content.len()) })
    })?;
    let removals = removals(index, &edits);
    // Without the index, edits of different files would not exclude each other.
    let is_index_written = depends_on_sizes(batch) || changes(index, &edits);
    let next = is_index_written.then(|| {
        let mut next = index.clone();
        next.files.edit(edits);
        next
    });
    Ok(Plan { writes, removals, next })
}

/// The ciphertexts that no file and no record has after the edits.
fn removals(index: &Index, edits: &PathMapEdits<FileRecord>) -> BTreeSet<Id> {
    let before = edits.files.iter().filter_map(|(path, _)| index.files.files().get(path));
    let before = before.chain(edits.records.iter().filter_map(|(name, _)| index.files.records().get(name)));
    let mut ids: BTreeSet<_> = before.map(|file| file.id).collect();
    let after = edits.files.iter().map(|(_, file)| file).chain(edits.records.iter().map(|(_, record)| record));
    for file in after.flatten() {
        ids.remove(&file.id);
    }
    ids
}

/// Whether the edits change the index.
fn changes(index: &Index, edits: &PathMapEdits<FileRecord>) -> bool {
    edits.files.iter().any(|(path, file)| index.files.files().get(path) != file.as_ref())
        || edits.records.iter().any(|(name, record)| index.files.records().get(name) != record.as_ref())
}

/// What a change of the batch writes to.
pub(crate) fn target(batch: &Batch, number: usize) -> Option<Target> {
    let record = || batch.record_changes().get(number.checked_sub(batch.changes().len())?);
    match (batch.changes().get(number), record()) {
        (Some(Change::Write { path, .. }), _) => Some(Target::File(path.clone())),
        (_, Some(RecordChange::Write { name, .. })) => Some(Target::Record(name.clone())),
        _ => None,
    }
}
