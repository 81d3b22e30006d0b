//! [`OpenFiles`]: the files that a store keeps open between operations.
//!
//! A process keeps those of the stores that it used last, so that it can have any number of stores. The files of
//! another store are opened again when it is used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use memory_tool_core::lock;

use crate::disk;
use crate::handles::{Handles, VALIDITY};
use crate::sequence::Sequence;

/// The number of stores whose files are kept open. Each takes six descriptors, and a process may often have 1,024, on
/// macOS 256.
pub(crate) const MAX_STORES: usize = 32;

/// The stores whose files are kept open.
static KEPT: Mutex<Vec<Weak<OpenFiles>>> = Mutex::new(Vec::new());

/// The number of times that the files of a store were opened. Serves as a clock for [`OpenFiles::last_used`].
static CLOCK: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// The absolute path of the base directory.
    path: PathBuf,
    /// The identity of the base directory. A new directory at the same path is another store.
    identity: (u64, u64),
    kept: Mutex<Option<Kept>>,
    last_used: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    base: Arc<Dir>,
    /// Those that no operation uses.
    handles: Option<Arc<Handles>>,
    /// The open sequence number, and when a holder of the lock found that it is the one that other processes use.
    readable: Option<(Arc<Sequence>, Instant)>,
}

impl OpenFiles {
    /// Opens the base directory of a store.
    pub(crate) fn open(base: &Path) -> io::Result<Arc<Self>> {
        // The working directory may change. If it is unknown, the path is not changed.
        let path = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        let opened = Dir::open_ambient_dir(&path, ambient_authority())?;
        let identity = disk::identity(&opened)?;
        let files = Arc::new(Self { path, identity, kept: Mutex::default(), last_used: AtomicU64::default() });
        files.keep_base(opened);
        Ok(files)
    }

    /// The base directory.
    pub(crate) fn base(self: &Arc<Self>) -> io::Result<Arc<Dir>> {
        if let Some(kept) = lock(&self.kept).as_ref() {
            self.note_used();
            return Ok(Arc::clone(&kept.base));
        }
        let opened = Dir::open_ambient_dir(&self.path, ambient_authority())?;
        if disk::identity(&opened)? != self.identity {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another directory is now at the path of the store"));
        }
        Ok(self.keep_base(opened))
    }

    /// Keeps the base directory open. Returns the one that is kept already, if another thread was faster.
    fn keep_base(self: &Arc<Self>, opened: Dir) -> Arc<Dir> {
        let new = || Kept { base: Arc::new(opened), handles: None, readable: None };
        let base = Arc::clone(&lock(&self.kept).get_or_insert_with(new).base);
        self.last_used.store(CLOCK.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        close_least_recently_used(self);
        base
    }

    /// Handles that no operation uses.
    pub(crate) fn take_handles(&self) -> Option<Arc<Handles>> {
        lock(&self.kept).as_mut()?.handles.take().filter(|handles| handles.is_valid())
    }

    /// Keeps the handles of an operation that ended.
    pub(crate) fn keep_handles(&self, handles: Arc<Handles>) {
        if let Some(kept) = lock(&self.kept).as_mut() {
            kept.handles = Some(handles);
        }
    }

    /// Allows reads without a lock for a while.
    pub(crate) fn allow_reads(&self, sequence: &Arc<Sequence>) {
        if let Some(kept) = lock(&self.kept).as_mut() {
            kept.readable = Some((Arc::clone(sequence), Instant::now()));
        }
    }

    /// The base directory and the sequence number, if reads without a lock are allowed.
    #[cfg(target_os = "linux")]
    pub(crate) fn readable(&self) -> Option<(Arc<Dir>, Arc<Sequence>)> {
        self.note_used();
        let kept = lock(&self.kept);
        let Kept { base, readable: Some((sequence, since)), .. } = kept.as_ref()? else { return None };
        (since.elapsed() < VALIDITY).then(|| (Arc::clone(base), Arc::clone(sequence)))
    }

    fn note_used(&self) {
        self.last_used.store(CLOCK.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Notes that the files of a store are kept open, and closes those of another store if they are too many. Operations
/// that run have their own references.
fn close_least_recently_used(opened: &Arc<OpenFiles>) {
    let mut kept = lock(&KEPT);
    kept.retain(|files| files.strong_count() > 0 && !files.ptr_eq(&Arc::downgrade(opened)));
    kept.push(Arc::downgrade(opened));
    let mut closed = Vec::new();
    while kept.len() > MAX_STORES {
        let last_used = |files: &Weak<OpenFiles>| files.upgrade().map(|files| files.last_used.load(Ordering::Relaxed));
        let Some((oldest, _)) = kept.iter().enumerate().min_by_key(|(_, files)| last_used(files)) else { break };
        closed.push(kept.swap_remove(oldest));
    }
    drop(kept);
    for files in closed.iter().filter_map(Weak::upgrade) {
        lock(&files.kept).take();
    }
}
