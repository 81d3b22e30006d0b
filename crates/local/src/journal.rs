//! The journal: a batch of several changes, decided but perhaps not done, which whoever next takes the lock completes.
//!
//! The batch is decided at the instant at which the journal gets its name. Before that nothing of it can be seen; after
//! that every step can be made again and again until all are, and then the journal is removed.

use std::borrow::Cow;
use std::io;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::step::Step;

const JOURNAL: &str = "journal";
const UNFINISHED_JOURNAL: &str = "journal";

/// The only format so far. A reader refuses any other.
const FORMAT: u32 = 1;

#[derive(Deserialize, Serialize)]
struct Journal<'a> {
    format: u32,
    steps: Cow<'a, [Step]>,
}

/// Whether there is a journal to be completed.
pub(crate) fn is_pending(private: &Dir) -> io::Result<bool> {
    Ok(disk::metadata(private, JOURNAL)?.is_some())
}

/// Decides the batch: the staged contents must be on the disk by now.
pub(crate) fn decide(private: &Dir, staging: &Dir, steps: &[Step]) -> io::Result<()> {
    let journal = serde_json::to_vec(&Journal { format: FORMAT, steps: Cow::Borrowed(steps) })?;
    disk::create_file(staging, UNFINISHED_JOURNAL, &journal)?;
    disk::sync_directory(staging)?;
    disk::rename_new(staging, UNFINISHED_JOURNAL, private, JOURNAL)
}

/// The steps that were decided; `None` where there is no journal.
pub(crate) fn read(private: &Dir) -> io::Result<Option<Vec<Step>>> {
    if !is_pending(private)? {
        return Ok(None);
    }
    let journal = serde_json::from_slice::<Journal<'_>>(&disk::read_file(private, JOURNAL)?);
    let journal = journal.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    if journal.format != FORMAT {
        let message = format!("the journal has format {}, of a newer version of this program", journal.format);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(Some(journal.steps.into_owned()))
}

/// Forgets the steps, which must all be done and on the disk.
pub(crate) fn remove(private: &Dir) -> io::Result<()> {
    private.remove_file(JOURNAL)?;
    disk::sync_directory(private)
}
