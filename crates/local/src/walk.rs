//! [`Walk`]: the files under a directory, and the items that cannot be listed.

use std::mem;
use std::sync::Arc;

use cap_std::fs::Dir;
use memory_tool_core::{ErrorKind, FileEntry, StoreError, StorePath, UnlistedItem, UnlistedReason};

use crate::failure::failed;
use crate::listing::{Entry, Handle, Listing};
use crate::name::Name;

/// The maximum number of directories that a walk keeps open, so that a deep tree does not exhaust the file descriptors.
const MAX_OPEN_DIRECTORIES: usize = 64;

/// Opens the directory at a path without following links; `None` if it does not exist.
type OpenDirectory<'a> = Box<dyn Fn(&StorePath) -> Result<Option<Arc<Dir>>, StoreError> + 'a>;

/// Iterates over the files under a directory.
pub(crate) struct Walk<'a> {
    open_directory: OpenDirectory<'a>,
    start: StorePath,
    current: Option<Listing>,
    /// The subdirectories found in `current`.
    subdirectories: Vec<StorePath>,
    /// The subdirectories of the other directories, which are still to be visited.
    pending: Vec<Subdirectories>,
    unlisted: Vec<UnlistedItem>,
}

/// One or more subdirectories of a directory.
struct Subdirectories {
    /// The directory, if it is kept open. Otherwise its subdirectories are looked up from the root.
    parent: Option<Arc<Handle>>,
    paths: Vec<StorePath>,
}

struct NextDirectory {
    path: StorePath,
    parent: Option<Arc<Handle>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(open_directory: OpenDirectory<'a>, start: StorePath) -> Self {
        let pending = vec![Subdirectories { parent: None, paths: vec![start.clone()] }];
        Self { open_directory, start, current: None, subdirectories: Vec::new(), pending, unlisted: Vec::new() }
    }

    /// The items that could not be listed so far (`[V1]`).
    pub(crate) fn into_unlisted(self) -> Vec<UnlistedItem> {
        self.unlisted
    }

    /// Whether there is a file, or an item that cannot be listed.
    pub(crate) fn finds_anything(mut self) -> Result<bool, StoreError> {
        Ok(self.next().transpose()?.is_some() || !self.unlisted.is_empty())
    }

    fn leave(&mut self) -> Option<NextDirectory> {
        if let Some(left) = self.current.take()
            && !self.subdirectories.is_empty()
        {
            let keeps_open = self.pending.len() < MAX_OPEN_DIRECTORIES;
            let parent = keeps_open.then(|| Arc::clone(left.handle()));
            self.pending.push(Subdirectories { parent, paths: mem::take(&mut self.subdirectories) });
        }
        let last = self.pending.last_mut()?;
        let next = NextDirectory { path: last.paths.pop()?, parent: last.parent.clone() };
        self.pending.pop_if(|last| last.paths.is_empty());
        Some(next)
    }

    /// Opens a directory. Errors below the start that other programs caused do not stop the walk.
    fn open(&mut self, next: NextDirectory) -> Result<Option<Listing>, StoreError> {
        let path = next.path.clone();
        match self.open_strictly(next) {
            Err(error) if path == self.start => Err(error),
            // Replaced since it was listed.
            Err(StoreError::SymbolicLink { .. } | StoreError::NotARegularFile { .. }) => Ok(None),
            Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. }) => {
                self.note_unreadable(&path);
                Ok(None)
            }
            opened => opened,
        }
    }

    /// Notes a directory that this process may not list, or in which it may not look names up.
    fn note_unreadable(&mut self, directory: &StorePath) {
        if let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) {
            self.unlisted.push(UnlistedItem::new(parent, name, UnlistedReason::Unreadable));
        }
    }

    /// Leaves the current directory after an error, and notes it if it is unreadable. Returns any other error.
    fn abandon(&mut self, error: std::io::Error) -> Result<(), StoreError> {
        let left = self.current.take();
        let unreadable =
            left.filter(|left| error.kind() == std::io::ErrorKind::PermissionDenied && *left.path() != self.start);
        let Some(unreadable) = unreadable else { return Err(failed("listing a directory", error)) };
        self.subdirectories.clear();
        self.note_unreadable(unreadable.path());
        Ok(())
    }

    fn open_strictly(&self, next: NextDirectory) -> Result<Option<Listing>, StoreError> {
        let NextDirectory { path, parent } = next;
        let opened = match parent {
            Some(parent) => Listing::open(&parent, Name::of(&path)?, path.clone()),
            None => match (self.open_directory)(&path)? {
                Some(directory) => Listing::of(&directory, path),
                None => return Ok(None),
            },
        };
        opened.map_err(|error| failed("listing a directory", error))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<FileEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.current.as_mut().and_then(Listing::next) {
                Some(Ok(Entry::Directory(path))) => self.subdirectories.push(path),
                Some(Ok(Entry::File(file))) => return Some(Ok(file)),
                Some(Ok(Entry::Unlisted(item))) => self.unlisted.push(item),
                Some(Err(error)) => {
                    if let Err(error) = self.abandon(error) {
                        return Some(Err(error));
                    }
                }
                None => {
                    let next = self.leave()?;
                    match self.open(next) {
                        Ok(opened) => self.current = opened,
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::tree::Tree;
    use crate::version_cache::VersionCache;

    #[test]
    fn a_walk_keeps_a_limited_number_of_directories_open() {
        const LEVELS: usize = 2 * MAX_OPEN_DIRECTORIES;
        let base = tempfile::tempdir().unwrap();
        let mut deepest = base.path().join("memories");
        std::fs::create_dir(&deepest).unwrap();
        for level in 0..LEVELS {
            // In the order of creation and of names, directories precede and follow the next level.
            let siblings = ["!a", "!b", "", "sa", "sb"].map(|sibling| deepest.join(format!("{sibling}{level}")));
            for sibling in siblings {
                std::fs::create_dir(&sibling).unwrap();
                std::fs::write(sibling.join("f"), "x").unwrap();
            }
            deepest.push(level.to_string());
        }
        let root = Dir::open_ambient_dir(base.path(), ambient_authority()).unwrap();
        let versions = VersionCache::default();
        let tree = Tree::new(Arc::new(root), &versions, false, u64::MAX);
        let mut walk = tree.files_under(&StorePath::memories());
        let (mut files, mut most_open) = (Vec::new(), 0);
        while let Some(file) = walk.next() {
            files.push(file.unwrap().path);
            most_open = most_open.max(walk.pending.iter().filter(|directory| directory.parent.is_some()).count());
        }
        assert_eq!(most_open, MAX_OPEN_DIRECTORIES);
        files.sort();
        files.dedup();
        assert_eq!(files.len(), LEVELS * 5);
    }
}
