//! [`Sequence`]: the number of the last change of a store. It tells a reader without a lock whether a change happened,
//! and a writer whether the last one was completed.
//!
//! Numbers are random, because the numbers of a restored copy would come again if they were counted. The number is odd
//! from before a change begins until it is complete and on the disk. A process that ends during a change leaves it odd,
//! so the next one recovers. The file is not flushed, so the number is useless after a loss of
//! power. But then every process opens the store again, and looks for a journal first.
//!
//! The file also contains the [`View`] of the last writer. Locks hold only in one view of a directory. Through FUSE or
//! a network file system, another program may use another view.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use sha2::{Digest as _, Sha256};

use crate::disk::{self, Access};
use crate::name::Name;

const SEQUENCE: Name<'_> = Name::constant("sequence");

const LENGTH: usize = size_of::<u64>();
const LENGTH_WITH_VIEW: usize = 2 * LENGTH;

/// How long after a change another view may still be in use.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The number of a store whose first change is not finished.
const UNFINISHED: u64 = 1;

/// The open file.
#[derive(Debug)]
pub(crate) struct Sequence {
    file: File,
    /// Whether the disk is writable.
    is_writable: bool,
    view: View,
    /// The number when this process last read or wrote it.
    last_seen: AtomicU64,
}

impl Sequence {
    pub(crate) fn new(file: File, is_writable: bool, view: View) -> Self {
        Self { file, is_writable, view, last_seen: AtomicU64::new(UNFINISHED) }
    }

    /// Opens the file; `None` if it does not exist or [`create`](Self::create) cannot have made it.
    pub(crate) fn open(private: &Dir, access: Access) -> io::Result<Option<Self>> {
        let found = disk::metadata(private, SEQUENCE)?;
        if !found.is_some_and(|found| found.is_file() && found.len() == LENGTH_WITH_VIEW as u64 && found.nlink() == 1) {
            return Ok(None);
        }
        let (opened, is_writable) = match disk::open_existing_file(private, SEQUENCE, access) {
            Err(error) if disk::is_refusal(&error) => {
                (disk::open_existing_file(private, SEQUENCE, Access::Read)?, false)
            }
            opened => (opened?, true),
        };
        let view = View::of(private)?;
        Ok(opened.map(|file| Self::new(file.into_std(), is_writable, view)))
    }

    /// Creates the file, or replaces one that is not usable. The caller holds the store lock exclusively.
    pub(crate) fn create(private: &Dir) -> io::Result<()> {
        // An existing file is not written, because it may be a hard link to a foreign file.
        match private.remove_file(SEQUENCE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // The directories of a new store may not be on the disk yet.
        disk::write_new_file(private, SEQUENCE, &View::of(private)?.with_number(UNFINISHED)).map(drop)
    }

    /// The present number. A truncated file means an unfinished change.
    pub(crate) fn read(&self) -> io::Result<u64> {
        self.read_with(|number| disk::read_at(&self.file, number))
    }

    /// The present number. `read_at` reads the beginning of the file.
    pub(crate) fn read_with<E>(&self, read_at: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<u64, E> {
        let mut bytes = [0; LENGTH];
        let length = read_at(&mut bytes)?;
        let number = if length == LENGTH { u64::from_le_bytes(bytes) } else { UNFINISHED };
        self.last_seen.store(number, Ordering::Release);
        Ok(number)
    }

    pub(crate) fn write(&self, number: u64) -> io::Result<()> {
        if !self.is_writable {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        disk::write_at(&self.file, &self.view.with_number(number), 0)?;
        self.last_seen.store(number, Ordering::Release);
        Ok(())
    }

    /// The present number; `None` if a program changed the store a moment ago in another view of the directory. The
    /// caller holds the lock.
    pub(crate) fn read_in_view(&self) -> io::Result<Option<u64>> {
        let mut view = [0; LENGTH];
        let number = self.read_with(|number| {
            let mut bytes = [0; LENGTH_WITH_VIEW];
            let length = disk::read_at(&self.file, &mut bytes)?;
            number.copy_from_slice(&bytes[..LENGTH]);
            view.copy_from_slice(&bytes[LENGTH..]);
            Ok::<_, io::Error>(length.min(LENGTH))
        })?;
        let is_foreign = view != self.view.0 && view != View::UNKNOWN.0;
        Ok(if is_foreign && self.is_recent()? { None } else { Some(number) })
    }

    /// Whether the file changed a moment ago. A time in the future is the fault of a clock, and would block the store.
    fn is_recent(&self) -> io::Result<bool> {
        let age = SystemTime::now().duration_since(self.file.metadata()?.modified()?);
        Ok(age.is_ok_and(|age| age < MAX_AGE))
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// A number that the file had in the past. If the present one is the same, nothing has changed since.
    #[cfg(target_os = "linux")]
    pub(crate) fn last_seen(&self) -> u64 {
        self.last_seen.load(Ordering::Acquire)
    }
}

/// Identifies the kernel and the file system through which a process sees a directory. Bind mounts, which
/// containers use, have the same view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct View([u8; LENGTH]);

impl View {
    const UNKNOWN: Self = Self([0; LENGTH]);

    fn of(directory: &Dir) -> io::Result<Self> {
        static BOOT: LazyLock<Vec<u8>> =
            LazyLock::new(|| std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
        let device = directory.dir_metadata()?.dev().to_le_bytes();
        let digest = Sha256::new().chain_update(&*BOOT).chain_update(device).finalize();
        let mut view = [0; LENGTH];
        view.copy_from_slice(&digest[..LENGTH]);
        Ok(Self(view))
    }

    fn with_number(self, number: u64) -> [u8; LENGTH_WITH_VIEW] {
        let mut bytes = [0; LENGTH_WITH_VIEW];
        bytes[..LENGTH].copy_from_slice(&number.to_le_bytes());
        bytes[LENGTH..].copy_from_slice(&self.0);
        bytes
    }

    #[cfg(test)]
    pub(crate) const fn test() -> Self {
        Self([7; LENGTH])
    }
}

/// The number of a change that follows `last`, while it is made.
pub(crate) fn unfinished(last: u64) -> u64 {
    last | 1
}

/// The number of a change that is complete.
pub(crate) fn finished() -> u64 {
    std::hash::RandomState::new().build_hasher().finish() & !1
}

/// Whether a change is unfinished.
pub(crate) fn is_unfinished(number: u64) -> bool {
    !number.is_multiple_of(2)
}
