//! [`Walk`]: the files under a directory.

use std::sync::Arc;

use memory_tool_core::{FailureKind, FileEntry, MemoryPath, StoreError};

use crate::failure::failed;
use crate::listing::{Entry, Handle, Listing};
use crate::name::Name;
use crate::tree::Tree;

/// The maximum number of directories that a walk keeps open, so that a deep tree does not exhaust the file descriptors.
const MAX_OPEN_DIRECTORIES: usize = 64;

/// Iterates over the files under a directory.
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    start: MemoryPath,
    pending: Vec<PendingDirectory>,
    current: Option<Listing>,
}

/// A directory that is still to be visited.
struct PendingDirectory {
    path: MemoryPath,
    /// Its parent, if that is kept open. Otherwise the directory is looked up from the root.
    parent: Option<Arc<Handle>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(tree: &'a Tree, start: MemoryPath) -> Self {
        let pending = vec![PendingDirectory { path: start.clone(), parent: None }];
        Self { tree, start, pending, current: None }
    }

    /// Opens a directory. Errors below the start that other programs caused are skipped.
    fn open(&self, pending: PendingDirectory) -> Result<Option<Listing>, StoreError> {
        let is_start = pending.path == self.start;
        match self.open_strictly(pending) {
            Err(error) if is_start => Err(error),
            // Replaced since it was listed, or not accessible.
            Err(
                StoreError::SymbolicLink { .. }
                | StoreError::NotARegularFile { .. }
                | StoreError::Failure { kind: FailureKind::AccessDenied, .. },
            ) => Ok(None),
            opened => opened,
        }
    }

    fn open_strictly(&self, pending: PendingDirectory) -> Result<Option<Listing>, StoreError> {
        let PendingDirectory { path, parent } = pending;
        let opened = match parent {
            Some(parent) => Listing::open(&parent, Name::of(&path)?, path.clone()),
            None => match self.tree.open_directory(&path)? {
                Some(directory) => Listing::of(directory, path),
                None => return Ok(None),
            },
        };
        opened.map_err(|error| failed("listing a directory", error))
    }

    fn push(&mut self, path: MemoryPath) {
        let keeps_open = self.pending.len() < MAX_OPEN_DIRECTORIES;
        let parent = self.current.as_ref().filter(|_| keeps_open).map(|listing| Arc::clone(listing.handle()));
        self.pending.push(PendingDirectory { path, parent });
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<FileEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.current.as_mut().and_then(Listing::next) {
                Some(Ok(Entry::Directory(path))) => self.push(path),
                Some(Ok(Entry::File(file))) => return Some(Ok(file)),
                Some(Err(error)) => return Some(Err(failed("listing a directory", error))),
                None => {
                    let pending = self.pending.pop()?;
                    match self.open(pending) {
                        Ok(listing) => self.current = listing,
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}
