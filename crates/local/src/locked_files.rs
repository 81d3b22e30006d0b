//! [`LockedFiles`]: the files of a store while its lock is held exclusively.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use cap_std::fs::Dir;
use memory_tool_core::StorePath;

use crate::disk;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::name::{Name, TemporaryName};
use crate::tree::Tree;

/// The files, with the work that their changes leave for the end of the transaction.
pub(crate) struct LockedFiles<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) tree: Tree<'a>,
    pub(crate) lock: Lock<'a>,
    /// Whether the steps of another process are completed, which may have been done in part.
    pub(crate) is_recovering: Cell<bool>,
    /// Names in the staging directory that are left when the transaction ends.
    temporary: RefCell<Vec<TemporaryName>>,
    /// Directories whose names changed, with their paths.
    unflushed: RefCell<Vec<(StorePath, Arc<Dir>)>>,
    /// Paths that were left, so that directories above them may be empty.
    left: RefCell<Vec<StorePath>>,
}

impl<'a> LockedFiles<'a> {
    pub(crate) fn open(layout: &'a Layout, lock: Lock<'a>) -> io::Result<Self> {
        lock.staging(|private| layout.staging_in(private))?;
        Ok(Self {
            layout,
            tree: layout.tree()?,
            lock,
            is_recovering: Cell::default(),
            temporary: RefCell::default(),
            unflushed: RefCell::default(),
            left: RefCell::default(),
        })
    }

    pub(crate) fn staging(&self) -> io::Result<&Dir> {
        self.lock.staging(|private| self.layout.staging_in(private))
    }

    /// Removes a name from the staging directory when the transaction ends.
    pub(crate) fn clear_later(&self, name: &TemporaryName) {
        self.temporary.borrow_mut().push(name.clone());
    }

    /// Notes that new contents were moved out of the staging directory.
    pub(crate) fn note_moved(&self, name: &TemporaryName) {
        self.temporary.borrow_mut().retain(|temporary| temporary != name);
    }

    /// Flushes a directory before the changes are reported as done.
    pub(crate) fn flush_later(&self, path: StorePath, directory: Arc<Dir>) {
        let mut unflushed = self.unflushed.borrow_mut();
        if !unflushed.iter().any(|(known, _)| *known == path) {
            unflushed.push((path, directory));
        }
    }

    /// Removes the directories above a path that are empty when the transaction ends. Their flush comes first: it may
    /// have no effect on a removed directory.
    pub(crate) fn prune_later(&self, path: &StorePath) {
        self.left.borrow_mut().push(path.clone());
    }

    /// Flushes the directories above a path for the first time, because another program may have created them. A loss
    /// of power would remove such a directory with its contents.
    pub(crate) fn flush_above(&self, path: &StorePath) -> io::Result<()> {
        let mut below = path.clone();
        while !self.layout.is_flushed(&below) {
            let Some(above) = below.parent() else {
                self.layout.sync_above_root(path)?;
                self.layout.note_flushed(path);
                return Ok(());
            };
            if let Some(directory) = self.tree.open_directory(&above).map_err(io::Error::other)? {
                disk::sync_directory(&directory)?;
            }
            below = above;
        }
        self.layout.note_flushed(path);
        Ok(())
    }

    /// Flushes the directories whose names changed.
    pub(crate) fn flush_directories(&self) -> io::Result<()> {
        self.unflushed.take().iter().try_for_each(|(_, directory)| disk::sync_directory(directory))
    }

    /// Forgets the directories to flush, because the whole file system was flushed.
    pub(crate) fn note_all_flushed(&self) {
        self.unflushed.take();
    }

    /// Removes the directories that changes left empty.
    pub(crate) fn prune(&self) {
        self.left.take().iter().for_each(|path| self.prune_above(path));
    }

    /// Removes the directories above `path` that became empty (`[P5]`). Stops at the first error, because an empty
    /// directory is invisible.
    fn prune_above(&self, path: &StorePath) {
        for directory in path.parents() {
            let (Some(parent), Ok(name)) = (directory.parent(), Name::of(&directory)) else { return };
            match self.tree.open_directory(&parent) {
                Ok(Some(parent)) if parent.remove_dir(name).is_ok() => self.layout.forget_flushed(),
                _ => return,
            }
        }
    }

    /// Empties the staging directory. The next change and the next process that opens the store retry failed removals.
    pub(crate) fn clear_staging(&self) {
        let temporary = self.temporary.take();
        let clear = |name: &TemporaryName| match disk::remove_all(self.staging()?, name.as_name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // never created
            removed => removed,
        };
        // Each is tried.
        if temporary.iter().map(clear).filter(Result::is_err).count() > 0 {
            self.lock.note_failed();
        }
    }
}
