//! [`Manifest`]: the object of a checkpoint, which names its runs.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::format::{self, Damage, Format};
use crate::id::Id;

/// A checkpoint.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Manifest {
    pub(crate) store: Id,
    /// The number of the last commit in this state.
    pub(crate) through: u64,
    pub(crate) commit: Digest,
    pub(crate) collections: u64,
    pub(crate) trimmed: u64,
    pub(crate) kept_before: i64,
    /// The oldest first.
    pub(crate) runs: Vec<RunName>,
}

/// The location of a run, or of a part of a large run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct RunName {
    /// The key of the object under `contents/`.
    pub(crate) key: String,
    /// The run holds changes after this commit, or the whole state if this is 0.
    pub(crate) after: u64,
    /// The run holds changes up to this commit.
    pub(crate) through: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
}

impl Manifest {
    /// The commit up to which a run holds everything.
    pub(crate) fn base(&self) -> u64 {
        match self.runs.first() {
            Some(run) if run.after == 0 => run.through,
            Some(run) => run.after,
            None => self.through,
        }
    }

    pub(crate) fn shares_runs_with(&self, other: &Self) -> bool {
        self.runs.iter().any(|run| other.runs.iter().any(|others| others.key == run.key))
    }

    pub(crate) fn decode(key: &str, bytes: &[u8]) -> Result<Self, Damage> {
        let manifest: Self = format::decode(key, bytes, Format::Checkpoint)?;
        manifest.check(key)?;
        Ok(manifest)
    }

    /// Checks that the runs follow one another up to the commit of the checkpoint.
    pub(crate) fn check(&self, key: &str) -> Result<(), Damage> {
        let mut range = (0, self.base());
        for run in &self.runs {
            if (run.after, run.through) == range && run.after < run.through {
                continue; // another part of the same run
            }
            if run.after != range.1 || run.through <= run.after {
                return Err(Damage::inconsistent(key, "its runs do not follow one another"));
            }
            range = (run.after, run.through);
        }
        if range.1 > self.through {
            return Err(Damage::inconsistent(key, "its runs hold later commits"));
        }
        if self.trimmed > self.through || self.collections > self.through {
            return Err(Damage::inconsistent(key, "it counts later commits"));
        }
        Ok(())
    }
}
