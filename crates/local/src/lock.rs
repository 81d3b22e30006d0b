//! The store lock: shared by readers and exclusive for writers, across all processes of the machine.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handles::Handles;
use crate::layout::Layout;
use crate::sequence::Sequence;

/// The delay between two attempts: initial and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// The delay between two looks for other views.
const VIEW_PAUSE: Duration = Duration::from_millis(50);

/// The mode of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// A held lock. The operating system releases it if the process ends.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    layout: &'a Layout,
    handles: Arc<Handles>,
}

impl<'a> Lock<'a> {
    /// Waits for the lock until `deadline`, then fails as `TimedOut`. Without a deadline it waits forever.
    pub(crate) fn acquire(layout: &'a Layout, mode: Mode, deadline: Option<Instant>) -> io::Result<Self> {
        loop {
            let handles = match layout.idle_handles() {
                Some(handles) => handles,
                None => {
                    layout.refuse_other_writers()?;
                    Arc::new(Handles::open_or_create(layout.private()?)?)
                }
            };
            // A waiting process holds the turnstile and blocks later ones, so readers cannot starve a writer.
            if let Some(lock) = Self::wait(layout, handles, mode, Mode::Exclusive, deadline)? {
                if mode == Mode::Shared || !lock.create_sequence()? {
                    return Ok(lock);
                }
                lock.note_failed();
            }
            refuse_after(deadline)?;
        }
    }

    /// The number of the last change. Waits while programs in another view of the directory change the store, because
    /// they do not see the lock.
    pub(crate) fn last_change(&self, sequence: &Sequence, deadline: Option<Instant>) -> io::Result<u64> {
        loop {
            if let Some(number) = sequence.read_in_view()? {
                return Ok(number);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let message = "another program changes this directory through another mount, which does not share \
                               locks: let all programs use the same mount";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(VIEW_PAUSE);
        }
    }

    /// Waits for the shared lock without creating a lock file. Returns `None` if the file does not exist, as in a copy
    /// of a store.
    pub(crate) fn acquire_existing(layout: &'a Layout, deadline: Option<Instant>) -> io::Result<Option<Self>> {
        loop {
            let handles = match layout.idle_handles() {
                Some(handles) => handles,
                None => match layout.existing_private()?.map_or(Ok(None), Handles::open)? {
                    Some(handles) => Arc::new(handles),
                    None => return Ok(None),
                },
            };
            // Shared, because network file systems grant exclusive locks to writers only. No reader holds it while it
            // reads.
            if let Some(lock) = Self::wait(layout, handles, Mode::Shared, Mode::Shared, deadline)? {
                return Ok(Some(lock));
            }
            refuse_after(deadline)?;
        }
    }

    /// Waits for the lock on an open lock file. Returns `None` if the file was replaced, because a lock on a removed
    /// file is useless.
    fn wait(
        layout: &'a Layout,
        handles: Arc<Handles>,
        mode: Mode,
        turnstile_mode: Mode,
        deadline: Option<Instant>,
    ) -> io::Result<Option<Self>> {
        handles.turnstile.iter().try_for_each(|turnstile| wait_for(turnstile, turnstile_mode, deadline))?;
        wait_for(&handles.lock, mode, deadline)?;
        handles.turnstile.iter().try_for_each(File::unlock)?;
        let is_current = layout.holds_lock_of(&handles)?;
        // The handles of a replaced file are closed, which releases the lock.
        Ok(is_current.then(|| Self { layout, handles }))
    }
}

impl Deref for Lock<'_> {
    type Target = Arc<Handles>;

    fn deref(&self) -> &Self::Target {
        &self.handles
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Otherwise the last owner closes the file, which releases the lock too.
        if self.handles.lock.unlock().is_ok() && self.handles.is_valid() {
            self.layout.keep(Arc::clone(&self.handles));
        }
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
