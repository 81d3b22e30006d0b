//! [`State`]: the state of a store that preconditions are checked against, and [`Condition`]: the part of a
//! precondition that the inner store checks.
//!
//! The index knows the ciphertext of a file, but not the version of that ciphertext in the inner store. A precondition
//! on a version is therefore checked in two parts. This module checks that it names the ciphertext, and the inner store
//! checks the version of the ciphertext.

use std::collections::BTreeMap;

use memory_tool_core::{Precondition, Stat, StoreError, StorePath, StoreState, Usage, Version};

use crate::ciphertexts::Ciphertexts;
use crate::header::ObjectName;
use crate::id::Id;
use crate::index::Index;
use crate::version;

/// The version that a ciphertext must have in the inner store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Condition {
    pub(crate) path: StorePath,
    pub(crate) id: Id,
    pub(crate) version: Version,
}

impl Condition {
    /// The conditions of the preconditions of a batch or a read.
    pub(crate) fn of(preconditions: &[(StorePath, Precondition)], index: &Index) -> Vec<Self> {
        let condition = |(path, required): &(StorePath, Precondition)| {
            let Precondition::Version(version) = required else { return None };
            let id = index.files.files().get(path)?.id;
            Some(Self { path: path.clone(), id, version: version::inner(id, version)? })
        };
        preconditions.iter().filter_map(condition).collect()
    }

    /// The error if the condition does not hold.
    pub(crate) fn mismatch(&self) -> StoreError {
        StoreError::VersionMismatch { path: self.path.clone() }
    }

    /// The path of the ciphertext.
    pub(crate) fn object(&self) -> StorePath {
        ObjectName::Content(self.id).path()
    }

    /// The precondition for the inner store.
    pub(crate) fn precondition(&self) -> (StorePath, Precondition) {
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
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        match self.index.files.files().get(path) {
            Some(file) => Ok(Stat::File(self.version_of(file.id))),
            None => self.index.files.stat(path),
        }
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        let files = self.index.files.at_or_under(path);
        Ok(files.map(|(path, file)| Usage::of_file(path, self.ciphertexts.size_of(file))).collect())
    }
}
