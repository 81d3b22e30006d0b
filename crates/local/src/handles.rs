//! [`Handles`]: the files of the private directory that every operation needs, kept open for a while.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File as CapFile};

use crate::disk::{self, Access};
use crate::journal;
use crate::name::Name;
use crate::sequence::{self, Sequence};

const LOCK: Name<'_> = Name::constant("lock");
const TURNSTILE: Name<'_> = Name::constant("turnstile");

/// How long handles are used. After that they are opened again, with all checks: another program may have removed a
/// file, or given others access.
pub(crate) const VALIDITY: Duration = Duration::from_secs(1);

/// Each operation uses its own handles, because a lock belongs to an open file.
#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) private: Dir,
    /// `None` in a read-only store without one.
    pub(crate) turnstile: Option<File>,
    pub(crate) lock: File,
    pub(crate) lock_identity: (u64, u64),
    access: Access,
    /// Opened under the lock.
    sequence: OnceLock<Arc<Sequence>>,
    /// Opened by the first change.
    staging: OnceLock<Dir>,
    /// Whether a holder of the lock has looked for a journal, which a loss of power may have left.
    has_checked_journal: AtomicBool,
    /// Whether a writer has removed what another process or a loss of power left.
    has_recovered: AtomicBool,
    opened: Instant,
    /// Whether one of the handles failed, perhaps because its file was removed.
    has_failed: AtomicBool,
}

impl Handles {
    /// Opens the files, and creates missing ones.
    pub(crate) fn open_or_create(private: Dir) -> io::Result<Self> {
        let turnstile = disk::open_lock_file(&private, TURNSTILE)?.into_std();
        let lock = disk::open_lock_file(&private, LOCK)?;
        Self::new(private, Some(turnstile), lock, Access::ReadWrite)
    }

    /// Opens the files without creating any; `None` if there is no lock file, as in a copy of a store.
    pub(crate) fn open(private: Dir) -> io::Result<Option<Self>> {
        let turnstile = disk::open_existing_file(&private, TURNSTILE, Access::Read)?.map(CapFile::into_std);
        let Some(lock) = disk::open_existing_file(&private, LOCK, Access::Read)? else { return Ok(None) };
        Self::new(private, turnstile, lock, Access::Read).map(Some)
    }

    fn new(private: Dir, turnstile: Option<File>, lock: CapFile, access: Access) -> io::Result<Self> {
        let found = lock.metadata()?;
        let lock_identity = (found.dev(), found.ino());
        Ok(Self {
            private,
            turnstile,
            lock: lock.into_std(),
            lock_identity,
            access,
            sequence: OnceLock::new(),
            staging: OnceLock::new(),
            has_checked_journal: AtomicBool::new(false),
            has_recovered: AtomicBool::new(false),
            opened: Instant::now(),
            has_failed: AtomicBool::new(false),
        })
    }

    /// The sequence number file; `None` if it does not exist. The caller holds the lock.
    pub(crate) fn sequence(&self) -> io::Result<Option<&Arc<Sequence>>> {
        if self.sequence.get().is_none()
            && let Some(opened) = Sequence::open(&self.private, self.access)?
        {
            return Ok(Some(self.sequence.get_or_init(|| Arc::new(opened))));
        }
        Ok(self.sequence.get())
    }

    /// The number of changes; `None` if it is not known. The caller holds the lock.
    pub(crate) fn number(&self) -> io::Result<Option<u64>> {
        self.sequence()?.map(|sequence| sequence.read()).transpose()
    }

    /// Creates the sequence number file if it is missing. The caller holds the lock exclusively. Returns whether the
    /// lock must be acquired again: the lock file is replaced too, so that all processes open the new file.
    pub(crate) fn create_sequence(&self) -> io::Result<bool> {
        if self.sequence()?.is_some() {
            return Ok(false);
        }
        Sequence::create(&self.private)?;
        let _ = self.private.remove_file(LOCK); // not possible on Windows
        Ok(true)
    }

    /// The directory of new contents and removed directories, which `open` opens in the private directory.
    pub(crate) fn staging(&self, open: impl FnOnce(&Dir) -> io::Result<Dir>) -> io::Result<&Dir> {
        match self.staging.get() {
            Some(opened) => Ok(opened),
            None => {
                let opened = open(&self.private)?;
                Ok(self.staging.get_or_init(|| opened))
            }
        }
    }

    /// Whether the last change is complete and on the disk. The caller holds the lock.
    pub(crate) fn is_consistent(&self) -> io::Result<bool> {
        let Some(sequence) = self.sequence()? else { return Ok(false) };
        if sequence::is_unfinished(sequence.read()?) {
            return Ok(false);
        }
        if !self.has_checked_journal.load(Ordering::Relaxed) {
            if journal::is_pending(&self.private)? {
                return Ok(false);
            }
            self.has_checked_journal.store(true, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Lets the next operation open the files again.
    pub(crate) fn note_failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed) && self.opened.elapsed() < VALIDITY
    }

    pub(crate) fn has_recovered(&self) -> bool {
        self.has_recovered.load(Ordering::Relaxed)
    }

    pub(crate) fn note_recovered(&self) {
        self.has_recovered.store(true, Ordering::Relaxed);
        self.has_checked_journal.store(true, Ordering::Relaxed);
    }
}
