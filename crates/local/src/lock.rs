//! The lock of a store: shared by readers, exclusive for writers, across all processes of the machine.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use cap_fs_ext::MetadataExt;

use crate::disk;
use crate::layout::Layout;

const LOCK: &str = "lock";
const TURNSTILE: &str = "turnstile";

/// How long to sleep between two attempts: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// How a lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A held lock. The operating system releases it with the file: on drop, and when the process ends however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock until `deadline`, `TimedOut` after that; for ever without one.
    pub(crate) fn acquire(layout: &Layout, mode: Mode, deadline: Option<Instant>) -> io::Result<Self> {
        loop {
            let private = layout.private()?;
            // Whoever waits for the lock holds up those that come later, so that readers cannot starve a writer.
            let turnstile = disk::open_lock_file(&private, TURNSTILE)?.into_std();
            wait_for(&turnstile, Mode::Exclusive, deadline)?;
            let file = disk::open_lock_file(&private, LOCK)?;
            let identity = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))?;
            let file = file.into_std();
            wait_for(&file, mode, deadline)?;
            if is_still_there(layout, identity)? {
                return Ok(Self { _file: file });
            }
            refuse_after(deadline)?;
        }
    }
}

/// Whether the lock file is still the one that others will find: a lock on a removed file keeps nobody out.
fn is_still_there(layout: &Layout, identity: (u64, u64)) -> io::Result<bool> {
    let found = disk::metadata(&layout.private()?, LOCK)?;
    Ok(found.is_some_and(|metadata| (metadata.dev(), metadata.ino()) == identity))
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
        return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock of the store"));
    }
    Ok(())
}
