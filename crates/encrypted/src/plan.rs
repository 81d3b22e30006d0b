//! [`Plan`]: the changes in the inner store that apply a batch.

use std::collections::BTreeSet;

use memory_tool_core::{Batch, Change, PathMapEdits, StorePath};

use crate::failure::Failure;
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::padding::Padding;
use crate::state::State;

/// A content to encrypt and write.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) id: Id,
    /// The index of the change in the batch that has the content.
    pub(crate) number: usize,
}

/// The changes in the inner store. They are valid while the index is the one that they were planned on.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) writes: Vec<PlannedWrite>,
    pub(crate) removals: BTreeSet<Id>,
    /// The new index; `None` if it does not change.
    pub(crate) next: Option<Index>,
}

/// The parameters for encrypting contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealOptions {
    /// The id of the data key; `None` if the batch makes no changes.
    pub(crate) data_key: Option<Id>,
    pub(crate) padding: Padding,
}

/// Whether the batch depends on the sizes of files that it does not change.
pub(crate) fn depends_on_sizes(batch: &Batch) -> bool {
    batch.quotas().iter().any(|(_, quota)| quota.bytes.is_some() || quota.file_bytes.is_some())
}

/// Plans the batch on an index. If the batch depends on sizes, the state must have them.
pub(crate) fn plan(batch: &Batch, index: &Index, state: &State<'_>, options: SealOptions) -> Result<Plan, Failure> {
    batch.check(state)?;
    let Some(data_key) = options.data_key else { return Ok(Plan::default()) };
    let mut writes = Vec::new();
    let edits = index.files.plan(batch, |number, content, known| -> Result<_, Failure> {
        let id = known.map_or_else(Id::random, |file| Ok(file.id))?;
        writes.push(PlannedWrite { id, number });
        Ok(FileRecord { id, data_key, size: options.padding.index_size(content.len()) })
    })?;
    let removals = removals(index, &edits);
    // Edits of different files conflict only if they write the index.
    let is_index_written = depends_on_sizes(batch) || changes(index, &edits);
    let next = is_index_written.then(|| {
        let mut next = index.clone();
        next.files.edit(edits);
        next
    });
    Ok(Plan { writes, removals, next })
}

/// The ciphertexts that are unused after the edits.
fn removals(index: &Index, edits: &PathMapEdits<FileRecord>) -> BTreeSet<Id> {
    let before = edits.iter().filter_map(|(path, _)| index.files.files().get(path));
    let mut ids: BTreeSet<_> = before.map(|file| file.id).collect();
    for file in edits.iter().filter_map(|(_, file)| file.as_ref()) {
        ids.remove(&file.id);
    }
    ids
}

fn changes(index: &Index, edits: &PathMapEdits<FileRecord>) -> bool {
    edits.iter().any(|(path, file)| index.files.files().get(path) != file.as_ref())
}

/// The path of a write in the batch.
pub(crate) fn written_path(batch: &Batch, number: usize) -> Option<&StorePath> {
    match batch.changes().get(number) {
        Some(Change::Write { path, .. }) => Some(path),
        _ => None,
    }
}
