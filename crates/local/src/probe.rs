//! [`probe`]: tries what a new store needs from its file system.

use std::fs::TryLockError;
use std::io;

use cap_std::fs::Dir;

use crate::disk;
use crate::name::{Name, TemporaryName};

/// Has capitals and lower-case letters.
const PROBE: Name<'_> = Name::constant("Probe");

/// Tries names, renames and locks in the directories of a new store. Removes what it creates.
pub(crate) fn probe(staging: &Dir, memories: &Dir) -> io::Result<()> {
    let temporary = TemporaryName::random();
    disk::create_directory(staging, memories, temporary.as_name())?;
    memories.remove_dir(temporary.as_name())?;
    let probed = probe_file(staging);
    staging.remove_file(PROBE)?;
    probed.and_then(|()| disk::sync_directory(staging))
}

fn probe_file(staging: &Dir) -> io::Result<()> {
    let first = disk::open_lock_file(staging, PROBE)?.into_std();
    if !disk::lists(staging, PROBE)? {
        return Err(unsupported("this file system changes the spelling of names: mount it without `ignore_case`"));
    }
    let second = disk::open_lock_file(staging, PROBE)?.into_std();
    first.try_lock()?;
    match second.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Err(unsupported("this file system does not lock files, so concurrent changes would be lost")),
    }
}

fn unsupported(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, message)
}
