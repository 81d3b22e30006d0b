//! [`Selection`]: the changes that a person takes.

use std::collections::BTreeMap;

use memory_tool_core::StorePath;

use crate::error::ProposalError;
use crate::proposal::{Proposal, ProposedChange};

/// The changes of a proposal that a person takes.
///
/// ```
/// use memory_tool_proposals::Selection;
///
/// let (plan, notes) = ("/memories/plan.md".parse()?, "/memories/notes.md".parse()?);
/// let selection = Selection::new().file(plan).parts(notes, [0, 2]);
/// assert_eq!(selection.len(), 2);
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Selection {
    /// The numbers of the parts, or `None` for all.
    files: BTreeMap<StorePath, Option<Vec<usize>>>,
}

impl Selection {
    /// Selects nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// All changes of a proposal.
    pub fn all(proposal: &Proposal) -> Self {
        proposal.paths().cloned().fold(Self::new(), Self::file)
    }

    /// Adds the whole change of a file.
    pub fn file(mut self, path: StorePath) -> Self {
        self.files.insert(path, None);
        self
    }

    /// Adds some [parts](ProposedChange::parts) of the change of a file, counted from zero.
    pub fn parts(mut self, path: StorePath, parts: impl IntoIterator<Item = usize>) -> Self {
        self.files.insert(path, Some(parts.into_iter().collect()));
        self
    }

    /// Adds one part.
    pub fn part(mut self, path: StorePath, part: usize) -> Self {
        if let Some(parts) = self.files.entry(path).or_insert_with(|| Some(Vec::new())) {
            parts.push(part);
        }
        self
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &StorePath> {
        self.files.keys()
    }

    pub(crate) fn has(&self, path: &StorePath) -> bool {
        self.files.contains_key(path)
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Checks that the proposal has these changes.
    pub(crate) fn check(&self, proposal: &Proposal) -> Result<(), ProposalError> {
        for (path, parts) in &self.files {
            let change = proposal.change(path).ok_or_else(|| ProposalError::NotProposed { path: path.clone() })?;
            let Some(parts) = parts else { continue };
            let count = change.parts().len();
            if parts.iter().any(|part| *part >= count) {
                return Err(ProposalError::NoPart { path: path.clone(), parts: count });
            }
        }
        Ok(())
    }

    /// The selected changes, with the contents of their parts.
    pub(crate) fn changes<'a>(
        &self,
        proposal: &'a Proposal,
    ) -> impl Iterator<Item = (&'a ProposedChange, Option<Vec<u8>>)> {
        self.files.iter().filter_map(|(path, parts)| {
            let change = proposal.change(path)?;
            let after = parts.as_ref().map_or_else(|| change.after.clone(), |parts| change.with_parts(parts));
            Some((change, after))
        })
    }
}
