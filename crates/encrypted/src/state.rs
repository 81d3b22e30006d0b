//! [`State`]: the state of a store that preconditions are checked against, and [`Condition`]: the part of a
//! precondition that the inner store checks.
//!
//! The index knows the ciphertext of a file, but not the version of that ciphertext in the inner store. A precondition
//! on a version is therefore checked in two parts. This module checks that it names the ciphertext, and the inner store
//! checks the version of the ciphertext.

use std::collections::BTreeMap;

use memory_tool_core::{
    Batch, MemoryPath, Precondition, ReadOptions, RecordName, Stat, StoreError, StoreState, Usage, Version,
};

use crate::ciphertexts::Ciphertexts;
use crate::header::ObjectName;
use crate::id::Id;
use crate::index::Index;
use crate::target::Target;
use crate::version;

/// The version that a ciphertext must have in the inner store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Condition {
    pub(crate) target: Target,
    pub(crate) id: Id,
    pub(crate) version: Version,
}

impl Condition {
    fn of(target: Target, index: &Index, precondition: &Precondition) -> Option<Self> {
        let Precondition::Version(version) = precondition else { return None };
        let id = index.get(&target)?.id;
        Some(Self { target, id, version: version::inner(id, version)? })
    }

    /// The conditions of a batch, in the order of its checks.
    pub(crate) fn of_batch(batch: &Batch, index: &Index) -> Vec<Self> {
        let of_records = batch.record_preconditions().iter();
        let of_records =
            of_records.filter_map(|(name, required)| Self::of(Target::Record(name.clone()), index, required));
        of_records.chain(Self::of_paths(batch.preconditions(), index)).collect()
    }

    /// The conditions of a read.
    pub(crate) fn of_read(options: &ReadOptions, index: &Index) -> Vec<Self> {
        Self::of_paths(options.preconditions(), index).collect()
    }

    fn of_paths(preconditions: &[(MemoryPath, Precondition)], index: &Index) -> impl Iterator<Item = Self> {
        preconditions.iter().filter_map(|(path, required)| Self::of(Target::File(path.clone()), index, required))
    }

    /// The path of the ciphertext.
    pub(crate) fn object(&self) -> MemoryPath {
        ObjectName::Content(self.id).path()
    }

    /// The precondition for the inner store.
    pub(crate) fn precondition(&self) -> (MemoryPath, Precondition) {
        (self.object(), Precondition::Version(self.version.clone()))
    }
}

/// The state of a store at one revision of the index, assuming that all conditions hold.
pub(crate) struct State<'a> {
    index: &'a Index,
    ciphertexts: &'a Ciphertexts,
    versions: BTreeMap<Id, &'a Version>,
}

impl<'a> State<'a> {
    pub(crate) fn new(index: &'a Index, ciphertexts: &'a Ciphertexts, conditions: &'a [Condition]) -> Self {
        // The first of two conditions on the same ciphertext wins.
        let versions = conditions.iter().rev().map(|condition| (condition.id, &condition.version)).collect();
        Self { index, ciphertexts, versions }
    }

    fn version_of(&self, id: Id) -> Version {
        self.versions.get(&id).map_or_else(|| Version::new(*id.as_bytes()), |inner| version::outer(id, inner))
    }
}

impl StoreState for State<'_> {
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        match self.index.files.files().get(path) {
            Some(file) => Ok(Stat::File(self.version_of(file.id))),
            None => self.index.files.stat(path),
        }
    }

    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        let files = self.index.files.at_or_under(path);
        Ok(files.map(|(path, file)| Usage::of_file(path, self.ciphertexts.size_of(file))).collect())
    }

    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError> {
        Ok(self.index.files.records().get(name).map(|record| self.version_of(record.id)))
    }
}
