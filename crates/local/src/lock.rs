//! The store lock: shared by readers and exclusive for writers, across all processes of the machine.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{File as CapFile, Metadata};

use crate::disk;
use crate::layout::Layout;
use crate::name::Name;

const LOCK: Name<'_> = Name::constant("lock");
const TURNSTILE: Name<'_> = Name::constant("turnstile");

/// The delay between two attempts: initial and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// The mode of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A held lock. The operating system releases it when the file is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock until `deadline`, then fails as `TimedOut`. Without a deadline it waits forever.
    pub(crate) fn acquire(layout: &Layout, mode: Mode, deadline: Option<Instant>) -> io::Result<Self> {
        loop {
            let private = layout.private()?;
            // A waiting process holds the turnstile and blocks later ones, so readers cannot starve a writer.
            let turnstile = disk::open_lock_file(&private, TURNSTILE)?.into_std();
            wait_for(&turnstile, Mode::Exclusive, deadline)?;
            if let Some(lock) = Self::wait(layout, disk::open_lock_file(&private, LOCK)?, mode, deadline)? {
                return Ok(lock);
            }
            refuse_after(deadline)?;
        }
    }

    /// Waits for the shared lock without creating a lock file. Returns `None` if the file does not exist, as in a copy
    /// of a store.
    pub(crate) fn acquire_existing(layout: &Layout, deadline: Option<Instant>) -> io::Result<Option<Self>> {
        loop {
            let Some(private) = layout.existing_private()? else { return Ok(None) };
            let turnstile = disk::open_existing_lock_file(&private, TURNSTILE)?.map(CapFile::into_std);
            // Shared, because network file systems grant exclusive locks to writers only. No reader holds it while it
            // reads.
            turnstile.iter().try_for_each(|turnstile| wait_for(turnstile, Mode::Shared, deadline))?;
            let Some(file) = disk::open_existing_lock_file(&private, LOCK)? else { return Ok(None) };
            if let Some(lock) = Self::wait(layout, file, Mode::Shared, deadline)? {
                return Ok(Some(lock));
            }
            refuse_after(deadline)?;
        }
    }

    /// Whether the lock file exists.
    pub(crate) fn exists(layout: &Layout) -> io::Result<bool> {
        let private = layout.existing_private()?;
        Ok(private.map_or(Ok(None), |private| disk::metadata(&private, LOCK))?.is_some())
    }

    /// Waits for the lock on an open lock file. Returns `None` if the file was replaced, because a lock on a removed
    /// file is useless.
    fn wait(layout: &Layout, file: CapFile, mode: Mode, deadline: Option<Instant>) -> io::Result<Option<Self>> {
        let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let opened = identity(&file.metadata()?);
        let file = file.into_std();
        wait_for(&file, mode, deadline)?;
        let private = layout.existing_private()?;
        let found = private.map_or(Ok(None), |private| disk::metadata(&private, LOCK))?;
        Ok(found.is_some_and(|found| identity(&found) == opened).then_some(Self { _file: file }))
    }
}

fn wait_for(file: &File, mode: Mode, deadline: Option<Instant>) -> io::Result<()> {
    let (mut pause, longest_pause) = PAUSES;
    loop {
        let locked = match mode {
            Mode::Shared => file.try_lock_shared(),
            Mode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        refuse_after(deadline)?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest_pause);
    }
}

fn refuse_after(deadline: Option<Instant>) -> io::Result<()> {
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the store lock"));
    }
    Ok(())
}
