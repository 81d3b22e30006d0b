//! [`Rules`]: which changes need no person.

use std::collections::BTreeMap;

use memory_tool_core::{Change, StorePath};

use crate::overlay::Member;

/// Which changes of a session count at once. By default, all wait.
///
/// The changes of a batch count at once if each of them does, and if the proposal has not changed its paths before.
/// Without a rule for its path, a file that is removed or renamed waits.
///
/// ```
/// use memory_tool_core::InMemoryStore;
/// use memory_tool_proposals::{ProposalStore, Rules};
///
/// let rules = Rules::new().except("/memories/scratch".parse()?).up_to_lines(5);
/// let session = ProposalStore::new(InMemoryStore::new(), "nightly".parse()?).rules(rules);
/// # drop(session);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Rules {
    except: Vec<StorePath>,
    lines: usize,
}

impl Rules {
    /// All changes wait.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes of this file, or under this directory, count at once.
    pub fn except(mut self, path: StorePath) -> Self {
        self.except.push(path);
        self
    }

    /// A text that is written counts at once if no more than this number of lines differ, from the first one that does
    /// to the last.
    pub fn up_to_lines(mut self, lines: usize) -> Self {
        self.lines = lines;
        self
    }

    /// Whether changes count at once, if the files of the inner store are these.
    pub(crate) fn allow(&self, changes: &[Change], files: &BTreeMap<StorePath, Member>) -> bool {
        changes.iter().all(|change| self.is_exempt(change) || self.is_small(change, files))
    }

    fn is_exempt(&self, change: &Change) -> bool {
        let is_exempt = |path: &StorePath| self.except.iter().any(|above| path == above || path.is_under(above));
        change.paths().all(is_exempt)
    }

    fn is_small(&self, change: &Change, files: &BTreeMap<StorePath, Member>) -> bool {
        let Change::Write { path, content, .. } = change else { return false };
        let present = match files.get(path) {
            Some(Member::Inner { file: Some(file), .. }) => file.content.as_slice(),
            Some(_) => return false,
            None => &[],
        };
        self.lines > 0 && different_lines(present, content) <= self.lines
    }
}

/// The lines from the first different one to the last, of the text that has more of them.
fn different_lines(old: &[u8], new: &[u8]) -> usize {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<_>>();
    let (old, new) = (lines(old), lines(new));
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[first..], &new[first..]);
    let last = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    old.len().max(new.len()) - last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_the_first_different_one_to_the_last() {
        for (old, new, expected) in [
            ("", "", 0),
            ("1\n2\n3\n", "1\n2\n3\n", 0),
            ("1\n2\n3\n", "1\ntwo\n3\n", 1),
            ("1\n2\n3\n", "1\n3\n", 1),
            ("1\n3\n", "1\n2\n3\n", 1),
            ("1\n2\n3\n4\n", "one\n2\n3\nfour\n", 4),
            ("1\n1\n", "1\n1\n1\n", 1),
            ("", "1\n2\n", 2),
            ("1\n2\n", "", 2),
            ("1", "1\n", 1),
        ] {
            assert_eq!(different_lines(old.as_bytes(), new.as_bytes()), expected, "{old:?} {new:?}");
        }
    }
}
