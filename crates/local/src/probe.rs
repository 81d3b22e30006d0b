//! [`probe`]: tries what a new store needs from its file system.

use std::ffi::OsStr;
use std::fs::TryLockError;
use std::io;

use cap_std::fs::Dir;

use crate::disk::{self, Access};
use crate::name::{Name, TemporaryName};

/// The most probes. Another process that opens the same new store may remove what a probe creates.
const ATTEMPTS: usize = 50;

/// Tries names, renames and locks in the directories of a new store. Removes what it creates.
pub(crate) fn probe(staging: &Dir, memories: &Dir) -> io::Result<()> {
    let mut more = 1..ATTEMPTS;
    loop {
        match try_once(staging, memories) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && more.next().is_some() => {}
            outcome => return outcome,
        }
    }
}

fn try_once(staging: &Dir, memories: &Dir) -> io::Result<()> {
    let temporary = TemporaryName::random();
    disk::create_directory(staging, memories, temporary.as_name())?;
    memories.remove_dir(temporary.as_name())?;
    // Has capitals and lower-case letters.
    let name = format!("Probe-{}", temporary.as_name().as_os_str().display());
    let name = Name::parse(OsStr::new(&name))?;
    let probed = probe_file(staging, name);
    staging.remove_file(name)?;
    probed.and_then(|()| disk::sync_directory(staging))
}

fn probe_file(staging: &Dir, name: Name<'_>) -> io::Result<()> {
    let first = disk::open_lock_file(staging, name)?.into_std();
    if !disk::lists(staging, name)? && disk::metadata(staging, name)?.is_some() {
        return Err(unsupported("this file system changes the spelling of names: mount it without `ignore_case`"));
    }
    let second = disk::open_existing_file(staging, name, Access::ReadWrite)?;
    let second = second.ok_or(io::ErrorKind::NotFound)?.into_std();
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
