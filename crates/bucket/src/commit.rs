//! [`Commit`]: an object of the log, with the changes of a group of batches.

use std::fmt;

use memory_tool_core::{Batch, Change, StorePath};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::content::FileRecord;
use crate::digest::Digest;
use crate::format::{self, Damage, Format, MAX_COMMIT_BYTES, MAX_STEPS};
use crate::id::Id;
use crate::manifest::Manifest;

/// A commit. It takes effect when its object is created. A number can be created once.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Commit {
    /// Distinguishes the store from a later one under the same prefix.
    pub(crate) store: Id,
    pub(crate) number: u64,
    /// Distinguishes the commit from its competitors for the number.
    pub(crate) id: Id,
    pub(crate) after: Digest,
    /// The time of planning in seconds since 1970, by the clock of the author. It is for people; no decision depends on
    /// it.
    pub(crate) time: u64,
    /// The changes of each batch, in the order in which they took effect.
    #[serde(deserialize_with = "batches")]
    pub(crate) batches: Vec<Vec<Step>>,
}

/// The size and digest of the object of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) size: usize,
    pub(crate) digest: Digest,
}

impl Stored {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len(), digest: Digest::of(bytes) }
    }
}

/// One change of a batch, or a note.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// A file is created or replaced.
    Write { path: StorePath, file: FileRecord },
    /// A file or directory is removed.
    Remove { path: StorePath },
    /// A file or directory gets another path.
    Rename { from: StorePath, to: StorePath },
    /// Unused contents are about to be removed. A writer that put contents earlier must put them again before it refers
    /// to them.
    Collection,
    /// There is a checkpoint.
    Checkpoint(Manifest),
    /// Markers have replaced all commits up to this number except the first.
    Trimmed { through: u64 },
    /// Collections may remove the objects that they kept since a repair with losses.
    LossAccepted,
}

impl Step {
    /// Whether it changes no file.
    pub(crate) fn is_note(&self) -> bool {
        matches!(self, Self::Collection | Self::Checkpoint(_) | Self::Trimmed { .. } | Self::LossAccepted)
    }
}

/// An object of the log.
#[derive(Debug)]
pub(crate) enum LogObject {
    Commit(Commit),
    /// The number of the commit stays taken.
    Trimmed(Id),
}

impl Commit {
    /// The first commit of a store. It depends only on the id.
    pub(crate) fn birth(store: Id) -> Self {
        Self { store, number: 1, id: store, after: Digest::default(), time: 0, batches: Vec::new() }
    }

    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        format::encode(Format::Commit, self)
    }

    /// Whether a reader accepts a commit with so many steps and bytes.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let steps = self.batches.iter().fold(0, |steps, batch| steps + batch.len());
        bytes <= MAX_COMMIT_BYTES && self.batches.len().max(steps) <= MAX_STEPS
    }
}

/// Reads the batches of a commit. More than [`MAX_STEPS`] steps or batches are refused before they take memory.
fn batches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<Step>>, D::Error> {
    deserializer.deserialize_seq(Batches)
}

struct Batches;

impl<'de> Visitor<'de> for Batches {
    type Value = Vec<Vec<Step>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of batches")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut batches, mut steps) = (Vec::new(), 0);
        while let Some(batch) = list.next_element_seed(Steps(&mut steps))? {
            batches.push(batch);
            refuse_above_limit(batches.len())?;
        }
        Ok(batches)
    }
}

/// The steps of a batch, which are counted together with the steps of the batches before it.
struct Steps<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Steps<'_> {
    type Value = Vec<Step>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Steps<'_> {
    type Value = Vec<Step>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element()? {
            steps.push(step);
            *self.0 += 1;
            refuse_above_limit(*self.0)?;
        }
        Ok(steps)
    }
}

fn refuse_above_limit<E: Error>(count: usize) -> Result<(), E> {
    if count <= MAX_STEPS { Ok(()) } else { Err(E::custom(format_args!("a commit has more than {MAX_STEPS} steps"))) }
}

impl LogObject {
    pub(crate) fn decode(key: &str, bytes: &[u8]) -> Result<Self, Damage> {
        match format::decode_head(key, bytes)?.format {
            Format::Commit => Ok(Self::Commit(format::decode_body(key, bytes)?)),
            Format::Trimmed => Ok(Self::Trimmed(format::decode_body::<Marker>(key, bytes)?.id)),
            Format::Checkpoint | Format::Run => Err(Damage::inconsistent(key, "it has the format of another object")),
        }
    }
}

/// The replacement of a trimmed commit.
#[derive(Deserialize, Serialize)]
struct Marker {
    id: Id,
}

/// The marker that replaces a commit with this id.
pub(crate) fn trimmed_marker(id: Id) -> serde_json::Result<Vec<u8>> {
    format::encode(Format::Trimmed, &Marker { id })
}

/// The steps of a batch. `record` returns the record of the contents for the [number](Batch::content) of a change.
pub(crate) fn steps_of(batch: &Batch, record: impl Fn(usize) -> FileRecord) -> Vec<Step> {
    let step = |(number, change): (usize, &Change)| match change {
        Change::Write { path, .. } => Step::Write { path: path.clone(), file: record(number) },
        Change::Remove { path } => Step::Remove { path: path.clone() },
        Change::Rename { from, to } => Step::Rename { from: from.clone(), to: to.clone() },
    };
    batch.changes().iter().enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::state::State;

    const GOLDEN: &[u8] = include_bytes!("../tests/commit-version-1.json");

    fn golden() -> Commit {
        match LogObject::decode("log/2", GOLDEN).unwrap() {
            LogObject::Commit(commit) => commit,
            LogObject::Trimmed(_) => panic!("it is a commit"),
        }
    }

    fn stored() -> Stored {
        Stored::of(&Commit::birth(golden().store).encode().unwrap())
    }

    #[test]
    fn what_was_written_by_version_1_is_written_back_the_same() {
        let (written, golden): (Value, Value) =
            (serde_json::from_slice(&golden().encode().unwrap()).unwrap(), serde_json::from_slice(GOLDEN).unwrap());
        assert_eq!(written, golden);
    }

    #[test]
    fn a_commit_applies_after_the_one_before_it_alone() {
        let birth = Commit::birth(golden().store);
        let mut state = State::default();
        assert!(state.apply("log/2", golden(), stored()).is_err());
        state.apply("log/1", birth.clone(), stored()).unwrap();
        assert!(state.apply("log/1", birth, stored()).is_err());
        let of_another = Commit { after: Digest::default(), ..golden() };
        assert!(state.apply("log/2", of_another, stored()).is_err());
        state.apply("log/2", golden(), stored()).unwrap();
        let paths: Vec<_> = state.files.files().keys().map(ToString::to_string).collect();
        assert_eq!(paths, ["/memories/notes/first.md", "/memories/projects/a.md"]);
        assert_eq!((state.collections, state.trimmed, state.files.under(&StorePath::records()).count()), (1, 1, 0));
    }

    /// Only an attacker or a defect writes such a commit.
    #[test]
    fn a_commit_that_does_not_fit_changes_nothing() {
        let mut state = State::default();
        state.apply("log/1", Commit::birth(golden().store), stored()).unwrap();
        let mut commit = golden();
        commit.batches.push(vec![Step::Remove { path: "/memories/none".parse().unwrap() }]);
        assert!(matches!(state.apply("log/2", commit, stored()), Err(Damage::DoesNotFit { .. })));
        assert_eq!((state.number, state.files.files().len()), (1, 0));
        state.apply("log/2", golden(), stored()).unwrap();
    }

    /// The shortest steps and batches, which take the most memory for their bytes.
    #[test]
    fn a_commit_with_too_many_steps_is_not_read() {
        let read = |batches: String| {
            let birth = String::from_utf8(Commit::birth(golden().store).encode().unwrap()).unwrap();
            let commit = birth.replace("\"batches\":[]", &format!("\"batches\":[{batches}]"));
            LogObject::decode("log/1", commit.as_bytes()).map(drop)
        };
        let steps = |count| vec!["\"collection\""; count].join(",");
        let [all, some, half] = [MAX_STEPS, 1, MAX_STEPS / 2].map(steps);
        read(format!("[{all}]")).unwrap();
        read(format!("[{half}],[{half}]")).unwrap();
        read(vec!["[]"; MAX_STEPS].join(",")).unwrap();
        let one_too_many =
            [format!("[{all},{some}]"), format!("[{half}],[{half}],[{some}]"), vec!["[]"; MAX_STEPS + 1].join(",")];
        for batches in one_too_many {
            let Err(Damage::Unreadable { source, .. }) = read(batches) else { panic!("it was read") };
            assert!(source.to_string().starts_with("a commit has more than 50000 steps"), "{source}");
        }
    }

    #[test]
    fn a_commit_notes_no_later_one() {
        let mut state = State::default();
        state.apply("log/1", Commit::birth(golden().store), stored()).unwrap();
        let checkpoint = |through, trimmed| Step::Checkpoint(Manifest { through, trimmed, ..Manifest::default() });
        for note in [Step::Trimmed { through: u64::MAX }, checkpoint(u64::MAX, 0), checkpoint(1, u64::MAX)] {
            let commit = Commit { batches: vec![vec![note]], ..golden() };
            assert!(matches!(state.apply("log/2", commit, stored()), Err(Damage::Inconsistent { .. })));
        }
        assert_eq!((state.number, state.trimmed), (1, 0));
    }
}
