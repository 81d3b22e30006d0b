//! [`Proposal`] and [`ProposedChange`].

use std::collections::BTreeSet;
use std::time::SystemTime;

use memory_tool_core::{Actor, Precondition, StorePath};
use memory_tool_history::{FileDiff, Id, merge, merge_preferring_mine};
use similar::{ChangeTag, TextDiff};

use crate::error::ProposalError;
use crate::name::ProposalName;
#[cfg(doc)]
use crate::proposals::Proposals;

/// The lines around a part of a change, as in a unified difference.
const CONTEXT: usize = 3;

/// A summary of a proposal.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ProposalSummary {
    /// The name.
    pub name: ProposalName,
    /// The number of files that it changes.
    pub files: usize,
    /// The total size of their texts in bytes.
    pub bytes: u64,
    /// When its first change was made.
    pub created: SystemTime,
    /// When its last change was made.
    pub changed: SystemTime,
    /// Whether it cannot be read, so that only its name is known, and it can only be [cleared](Proposals::clear).
    pub is_damaged: bool,
}

/// A proposal with its changes.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Proposal {
    /// The name.
    pub name: ProposalName,
    /// Each change of the proposal gives it another one, so that a person takes only the changes that were read.
    pub revision: Id,
    /// When its first change was made.
    pub created: SystemTime,
    /// The changes, sorted by path.
    pub changes: Vec<ProposedChange>,
}

impl Proposal {
    /// The files that it changes.
    pub fn paths(&self) -> impl Iterator<Item = &StorePath> {
        self.changes.iter().map(|change| &change.path)
    }

    /// The change of a file.
    pub fn change(&self, path: &StorePath) -> Option<&ProposedChange> {
        self.changes.iter().find(|change| change.path == *path)
    }

    /// The changed files at these paths, or else below these directories. All if there is no path.
    ///
    /// # Errors
    /// [`ProposalError::NotProposed`] for a path where the proposal changes no file.
    pub fn files_at(&self, paths: &[StorePath]) -> Result<Vec<StorePath>, ProposalError> {
        // A directory can take the place of a file, which has to go first.
        let is_at = |file: &StorePath, path: &StorePath| match self.change(path) {
            Some(_) => file == path,
            None => file.is_under(path),
        };
        match paths.iter().find(|path| !self.paths().any(|file| is_at(file, path))) {
            Some(path) => Err(ProposalError::NotProposed { path: path.clone() }),
            None => {
                let has = |file: &&StorePath| paths.is_empty() || paths.iter().any(|path| is_at(file, path));
                Ok(self.paths().filter(has).cloned().collect())
            }
        }
    }

    /// The paths, with both of each rename: half of one would remove or repeat the file.
    pub(crate) fn with_renames<'a>(
        &'a self,
        paths: impl IntoIterator<Item = &'a StorePath>,
    ) -> BTreeSet<&'a StorePath> {
        let mut all: BTreeSet<_> = paths.into_iter().collect();
        for change in &self.changes {
            if let Some(from) = &change.renamed_from
                && (all.contains(from) || all.contains(&change.path))
            {
                all.extend([from, &change.path]);
            }
        }
        all
    }
}

/// The change of a file that waits.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ProposedChange {
    /// The file.
    pub path: StorePath,
    /// The contents that the proposal changed. `None` if there was no file.
    pub before: Option<Vec<u8>>,
    /// The proposed contents. `None` if the file is removed.
    pub after: Option<Vec<u8>>,
    /// The contents in the memory now.
    pub present: Option<Vec<u8>>,
    /// The file from which this one was renamed without a change.
    pub renamed_from: Option<StorePath>,
    /// The actors of its changes, with their reasons.
    pub authors: Vec<Actor>,
    /// When it was changed last.
    pub modified: SystemTime,
    pub(crate) required: Precondition,
}

/// The effect of taking a change.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a change can be taken, or conflicts")]
pub enum Outcome {
    /// The file gets these contents, which have later changes of the memory, too. `None` removes it.
    Content(Option<Vec<u8>>),
    /// The memory was changed at the same or neighboring lines.
    Conflict,
}

impl ProposedChange {
    /// The difference that the proposal makes.
    pub fn diff(&self) -> FileDiff {
        FileDiff::new(self.path.clone(), self.before.clone(), self.after.clone())
    }

    /// Whether the memory changed the file after the proposal did.
    pub fn is_outdated(&self) -> bool {
        self.present != self.before
    }

    /// The reasons of its authors.
    pub fn reason(&self) -> Option<String> {
        Actor::reasons(&self.authors)
    }

    /// The effect of taking it.
    pub fn outcome(&self) -> Outcome {
        self.outcome_of(self.after.as_deref())
    }

    /// The effect of taking it in a word: `clean`, `merged` with later changes of the memory, or `conflict`.
    pub fn effect(&self) -> &'static str {
        match self.outcome() {
            Outcome::Conflict => "conflict",
            Outcome::Content(_) if self.is_outdated() => "merged",
            Outcome::Content(_) => "clean",
        }
    }

    /// The [parts](Self::parts) that conflict if they are taken singly, counted from zero. It is empty if there are
    /// more than 50 parts, since each is merged.
    pub fn parts_in_conflict(&self) -> Vec<usize> {
        const MAX_PARTS: usize = 50;
        let parts = self.parts().len();
        if parts == 1 || parts > MAX_PARTS || self.outcome() != Outcome::Conflict {
            return Vec::new();
        }
        let conflicts = |part: &usize| self.outcome_of(self.with_parts(&[*part]).as_deref()) == Outcome::Conflict;
        (0..parts).filter(conflicts).collect()
    }

    /// The contents for a person who edits them: the proposed ones, with later changes of the memory in other lines.
    pub fn draft(&self) -> Option<Vec<u8>> {
        match (self.outcome(), [&self.before, &self.present, &self.after].map(|content| text(content.as_deref()))) {
            (Outcome::Content(content), _) => content,
            (Outcome::Conflict, [Some(before), Some(present), Some(after)]) => {
                Some(merge_preferring_mine(before, present, after).into_bytes())
            }
            (Outcome::Conflict, _) => self.after.clone(),
        }
    }

    /// The effect of taking other contents than the proposed ones.
    pub(crate) fn outcome_of(&self, after: Option<&[u8]>) -> Outcome {
        let [before, present] = [&self.before, &self.present].map(Option::as_deref);
        if present == before || present == after {
            return Outcome::Content(after.map(<[u8]>::to_vec));
        }
        if after == before {
            return Outcome::Content(self.present.clone());
        }
        let (Some(before), Some(present), Some(after)) = (text(before), text(present), text(after)) else {
            return Outcome::Conflict;
        };
        let merged = merge(before, present, after);
        merged.map_or(Outcome::Conflict, |merged| Outcome::Content(Some(merged.into_bytes())))
    }

    /// The parts of the change that can be taken singly: differences in the unified format, without heads. It has one
    /// part if a file is created or removed, or is not text.
    pub fn parts(&self) -> Vec<String> {
        let (Some(before), Some(after)) = (text(self.before.as_deref()), text(self.after.as_deref())) else {
            return vec![self.diff().unified()];
        };
        let diff = TextDiff::from_lines(before, after);
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT).iter_hunks().map(|hunk| hunk.to_string()).collect()
    }

    /// The contents with some of the [parts](Self::parts), counted from zero.
    pub(crate) fn with_parts(&self, chosen: &[usize]) -> Option<Vec<u8>> {
        let whole = || if chosen.contains(&0) { self.after.clone() } else { self.before.clone() };
        let (Some(before), Some(after)) = (text(self.before.as_deref()), text(self.after.as_deref())) else {
            return whole();
        };
        let diff = TextDiff::from_lines(before, after);
        let mut made = String::new();
        let groups = diff.grouped_ops(CONTEXT);
        let part_of = |op: &similar::DiffOp| groups.iter().position(|group| group.contains(op));
        for op in diff.ops() {
            let is_chosen = part_of(op).is_some_and(|part| chosen.contains(&part));
            for change in diff.iter_changes(op) {
                let is_kept = match change.tag() {
                    ChangeTag::Equal => true,
                    ChangeTag::Delete => !is_chosen,
                    ChangeTag::Insert => is_chosen,
                };
                if is_kept {
                    made.push_str(change.value());
                }
            }
        }
        Some(made.into_bytes())
    }
}

fn text(content: Option<&[u8]>) -> Option<&str> {
    str::from_utf8(content?).ok()
}
