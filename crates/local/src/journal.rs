//! The journal: a batch of several changes that is committed but may not be complete. The next operation on a store
//! that is open for writing completes it.
//!
//! A batch is committed when the journal gets its name. Until then it is invisible. Afterwards every step can be
//! repeated until all of them are done, and then the journal is removed.
//!
//! If a step fails permanently, every step is undone, and then the journal is removed. An undo can be repeated too: the
//! staging directory shows whether a step is done. A process that ends during either leaves a journal that the next one
//! completes or undoes.
//!
//! A journal that can be neither completed nor undone gets the name `stuck`, and then the reason, if the disk takes it.
//! Changes fail until the operator removes the cause, but the files can be read.
//!
//! A store may be copied, cloned or unpacked from an archive, so the contents of a journal are not trusted. A journal
//! that [`commit`] cannot have written is damaged, and none of its steps is executed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;

use cap_std::fs::Dir;
use memory_tool_core::{Batch, BoxError, PathMap};
use serde::{Deserialize, Serialize};

use crate::disk::{self, Content};
use crate::name::Name;
use crate::step::Step;

const JOURNAL: Name<'_> = Name::constant("journal");
const UNFINISHED_JOURNAL: Name<'_> = Name::constant("journal");
const STUCK_JOURNAL: Name<'_> = Name::constant("stuck");

/// The only format so far. Others are rejected.
const FORMAT: u32 = 1;

/// The maximum length of a journal. A step takes about 500 bytes, so this is enough for 100,000 changes, more
/// than any command makes, and small enough to read into memory.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Journal<'a> {
    format: u32,
    steps: Cow<'a, [Step]>,
    /// The step that blocks the journal and its error, for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stuck: Option<Cow<'a, str>>,
}

/// The steps of a journal, and why it is stuck if that is known.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) steps: Vec<Step>,
    pub(crate) stuck: Option<String>,
}

/// Whether a journal is waiting to be completed, also one that is stuck.
pub(crate) fn is_pending(private: &Dir) -> io::Result<bool> {
    Ok(disk::metadata(private, JOURNAL)?.is_some() || is_stuck(private)?)
}

/// Whether a process could neither complete nor undo a journal.
pub(crate) fn is_stuck(private: &Dir) -> io::Result<bool> {
    Ok(disk::metadata(private, STUCK_JOURNAL)?.is_some())
}

/// Notes that the journal can be neither completed nor undone, and why. The name comes first, because a full disk can
/// rename a file.
pub(crate) fn note_stuck(private: &Dir, staging: &Dir, reason: &str) -> io::Result<()> {
    match disk::rename_new(private, JOURNAL, private, STUCK_JOURNAL) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let reason = truncated(reason);
    match read(private)? {
        Some(Committed { steps, stuck }) if stuck.as_deref() != Some(reason) => {
            stage(staging, &steps, Some(reason), |name| disk::rename_over(staging, name, private, STUCK_JOURNAL))
        }
        _ => Ok(()),
    }
}

/// The beginning of a long reason.
fn truncated(text: &str) -> &str {
    const MAX_BYTES: usize = 1_000;
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

/// Commits the batch. The staged contents must already be on the disk.
pub(crate) fn commit(private: &Dir, staging: &Dir, steps: &[Step]) -> io::Result<()> {
    stage(staging, steps, None, |name| disk::rename_new(staging, name, private, JOURNAL))
}

/// Writes a journal to the staging directory, and moves it into place.
fn stage(
    staging: &Dir,
    steps: &[Step],
    stuck: Option<&str>,
    rename: impl FnOnce(Name<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let journal = encode(steps, stuck)?;
    if journal.len() as u64 > MAX_BYTES {
        let message = format!("the journal of {} changes would exceed {MAX_BYTES} bytes", steps.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let staged = disk::create_file(staging, UNFINISHED_JOURNAL, &journal)
        .and_then(|()| disk::sync_directory(staging))
        .and_then(|()| rename(UNFINISHED_JOURNAL));
    if staged.is_err() {
        let _ = staging.remove_file(UNFINISHED_JOURNAL);
    }
    staged
}

/// The committed steps; `None` if there is no journal.
pub(crate) fn read(private: &Dir) -> io::Result<Option<Committed>> {
    let names = [JOURNAL, STUCK_JOURNAL];
    let found = names.iter().find_map(|name| match disk::metadata(private, *name) {
        Ok(None) => None,
        found => Some(found.map(|_| *name)),
    });
    let Some(name) = found.transpose()? else { return Ok(None) };
    match disk::read_file(private, name, MAX_BYTES)? {
        Content::Whole(journal) => parse(&journal).map(Some).map_err(|cause| damaged(name, cause)),
        Content::TooLarge { size, .. } => {
            Err(damaged(name, format!("it has {size} bytes; the limit is {MAX_BYTES}").into()))
        }
    }
}

/// Removes the journal of these steps, which must be complete and on the disk.
///
/// The removal of a journal of writes is not flushed: recovery skips writes without a staged file.
pub(crate) fn remove(private: &Dir, steps: &[Step]) -> io::Result<()> {
    remove_unflushed(private)?;
    if steps.iter().all(|step| step.staged().is_some()) { Ok(()) } else { disk::sync_directory(private) }
}

/// Removes the journal of steps that are undone, which must be on the disk.
pub(crate) fn remove_undone(private: &Dir) -> io::Result<()> {
    remove_unflushed(private)?;
    disk::sync_directory(private)
}

fn remove_unflushed(private: &Dir) -> io::Result<()> {
    match private.remove_file(JOURNAL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => private.remove_file(STUCK_JOURNAL),
        removed => removed,
    }
}

pub(crate) fn encode(steps: &[Step], stuck: Option<&str>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Journal { format: FORMAT, steps: Cow::Borrowed(steps), stuck: stuck.map(Cow::Borrowed) })
}

/// Parses a journal. Only journals that [`commit`] can have written are valid.
pub(crate) fn parse(journal: &[u8]) -> Result<Committed, BoxError> {
    let journal = serde_json::from_slice::<Journal<'_>>(journal)?;
    if journal.format != FORMAT {
        return Err(
            format!("unknown format {}: a newer version of this program may have written it", journal.format).into()
        );
    }
    let steps = journal.steps.into_owned();
    steps.iter().fold(Batch::new(), |batch, step| step.add_to(batch)).check(&PathMap::<Vec<u8>>::new())?;
    let names: BTreeSet<_> = steps.iter().flat_map(Step::temporary_names).collect();
    if names.len() < steps.iter().flat_map(Step::temporary_names).count() {
        return Err("two steps have the same temporary name".into());
    }
    if !steps.iter().all(Step::can_be_undone) {
        return Err("a step cannot be undone".into());
    }
    Ok(Committed { steps, stuck: journal.stuck.map(|stuck| truncated(&stuck).to_owned()) })
}

fn damaged(name: Name<'_>, cause: BoxError) -> io::Error {
    let message = format!(
        "invalid journal `.memory-tool/{name}`: {cause}; check the origin of this store, then move the file away"
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    /// A journal that cannot be read back would block the store.
    #[test]
    fn an_oversized_journal_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let private = Dir::open_ambient_dir(directory.path(), ambient_authority()).unwrap();
        let segment = "x".repeat(250);
        let long = format!("/memories/{segment}/{segment}/{segment}/{segment}").parse().unwrap();
        let step = Step::Rename { from: long, to: "/memories/a".parse().unwrap() };
        let refused = commit(&private, &private, &vec![step; 70_000]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        assert!(refused.to_string().contains("70000 changes"), "{refused}");
        assert_eq!(private.entries().unwrap().count(), 0);
    }
}
