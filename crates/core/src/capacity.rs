//! [`Capacity`]: how much may lie beneath a directory after a batch, and the [`Usage`] that it is judged by.

use std::fmt;

use crate::error::StoreError;
use crate::path::MemoryPath;
use crate::store::{Change, FileEntry};

/// How much may lie beneath a directory once a batch is applied (`[X4]`): a precondition of the batch, on that directory. What is
/// `None` is not limited.
///
/// A store judges it together with the batch, in one step. So those that write at once never pass it together, and a number that
/// it gives is of that moment.
///
/// # Behavior
/// 1. A batch that does not add to what is limited always passes: what is over its limits can be read, shortened, moved and
///    removed.
/// 2. So a file that is longer than `file_bytes` may be replaced by one that is not longer. Of what lies too deep, files may be
///    edited, and moved to where they lie no deeper.
/// 3. Counted are the files of a listing, whoever wrote them, but those of `uncounted`.
///
/// ```
/// use memory_tool_core::{Batch, Capacity, Expected, InMemoryStore, MemoryPath, Store, StoreError};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = InMemoryStore::new();
/// let limited = Batch::new().require(MemoryPath::root(), Expected::Capacity(Capacity::new().with_bytes(8)));
///
/// store.apply(limited.clone().write("/memories/a.txt".parse()?, b"Hello".to_vec())?).await?;
/// let refused = store.apply(limited.write("/memories/b.txt".parse()?, b"Hello".to_vec())?).await;
/// assert!(matches!(refused, Err(StoreError::OverCapacity { limit: 8, asked: 10, left: 3, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// How many files.
    pub files: Option<u64>,
    /// How many bytes all files have together.
    pub bytes: Option<u64>,
    /// How many bytes one file has.
    pub file_bytes: Option<u64>,
    /// How deep a file lies: in the directory itself is 1.
    pub depth: Option<u64>,
    /// Files that are not counted: what a store over this one keeps there for itself.
    pub uncounted: Vec<MemoryPath>,
}

impl Capacity {
    /// A capacity without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `files`.
    #[must_use]
    pub fn with_files(mut self, files: u64) -> Self {
        self.files = Some(files);
        self
    }

    /// Sets `bytes`.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets `file_bytes`.
    #[must_use]
    pub fn with_file_bytes(mut self, file_bytes: u64) -> Self {
        self.file_bytes = Some(file_bytes);
        self
    }

    /// Sets `depth`.
    #[must_use]
    pub fn with_depth(mut self, depth: u64) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Adds a file to `uncounted`.
    #[must_use]
    pub fn without(mut self, file: MemoryPath) -> Self {
        self.uncounted.push(file);
        self
    }

    /// Judges the changes of a batch, each with the number of bytes that it writes, for a store that keeps these apart. Others call
    /// [`Batch::check_preconditions`](crate::Batch::check_preconditions).
    ///
    /// # Behavior
    /// 1. `usage` tells what is at or beneath a path before the batch. It is asked about paths that the batch changes, and about
    ///    `directory` only where the batch adds to it.
    ///
    /// # Errors
    /// [`StoreError::OverCapacity`]; those of `usage`.
    pub fn check<'a>(
        &self,
        directory: &MemoryPath,
        changes: impl IntoIterator<Item = (&'a Change, u64)>,
        mut usage: impl FnMut(&MemoryPath) -> Result<Usage, StoreError>,
    ) -> Result<(), StoreError> {
        let mut judgement = Judgement::new(self, directory, &mut usage);
        let mut removed = Vec::new();
        for (change, length) in changes {
            match change {
                Change::Write { path, .. } => judgement.write(path, length)?,
                Change::Rename { from, to } => judgement.rename(from, to)?,
                Change::Remove { path } => removed.push(path),
            }
        }
        if judgement.grows() {
            removed.into_iter().try_for_each(|path| judgement.remove(path))?;
        }
        judgement.totals()
    }
}

/// What lies at or beneath a path. Collected from the entries of a listing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of files.
    pub files: u64,
    /// The bytes that they have together.
    pub bytes: u64,
    /// The number of names in the longest of their paths, counted from `/memories`.
    pub depth: u64,
}

impl Usage {
    /// So many files with so many bytes, of which the deepest lies so many names beneath `/memories`.
    pub fn new(files: u64, bytes: u64, depth: u64) -> Self {
        Self { files, bytes, depth }
    }

    fn add(&mut self, other: Self) {
        // The sizes may be what others wrote, so their sum may be anything.
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.depth = self.depth.max(other.depth);
    }

    /// Takes away what lies in it. What lies deepest may do so still.
    fn subtract(&mut self, part: Self) {
        self.files = self.files.saturating_sub(part.files);
        self.bytes = self.bytes.saturating_sub(part.bytes);
    }
}

impl FromIterator<FileEntry> for Usage {
    fn from_iter<I: IntoIterator<Item = FileEntry>>(files: I) -> Self {
        let mut usage = Self::default();
        for file in files {
            usage.add(Self::new(1, file.size, depth(&file.path)));
        }
        usage
    }
}

/// Of what there would be too much (`[X4]`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CapacityMeasure {
    /// [`Capacity::files`].
    Files,
    /// [`Capacity::bytes`].
    Bytes,
    /// [`Capacity::file_bytes`].
    FileBytes,
    /// [`Capacity::depth`].
    Depth,
}

impl fmt::Display for CapacityMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Bytes => "bytes in all",
            Self::FileBytes => "bytes in one file",
            Self::Depth => "levels of directories and files",
        })
    }
}

type UsageLookup<'a> = &'a mut dyn FnMut(&MemoryPath) -> Result<Usage, StoreError>;

/// A batch being judged, change by change.
struct Judgement<'a> {
    capacity: &'a Capacity,
    directory: &'a MemoryPath,
    usage: UsageLookup<'a>,
    added: Usage,
    freed: Usage,
}

impl<'a> Judgement<'a> {
    fn new(capacity: &'a Capacity, directory: &'a MemoryPath, usage: UsageLookup<'a>) -> Self {
        Self { capacity, directory, usage, added: Usage::default(), freed: Usage::default() }
    }

    fn write(&mut self, path: &MemoryPath, length: u64) -> Result<(), StoreError> {
        if !is_within(path, self.directory) || self.capacity.uncounted.contains(path) {
            return Ok(());
        }
        let replaced = self.counted(path)?;
        self.expect(CapacityMeasure::FileBytes, self.capacity.file_bytes, replaced.bytes, length)?;
        let depth_before = if replaced.files == 0 { 0 } else { self.depth_within(depth(path)) };
        self.expect(CapacityMeasure::Depth, self.capacity.depth, depth_before, self.depth_within(depth(path)))?;
        self.added.add(Usage::new(1, length, 0));
        self.freed.add(replaced);
        Ok(())
    }

    fn rename(&mut self, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        let leaving = part_within(from, self.directory);
        let arriving = self.arriving(from, to);
        let stays_within = leaving.is_some() && leaving == arriving.as_ref();
        if stays_within && (self.capacity.depth.is_none() || depth(to) <= depth(from)) {
            return Ok(());
        }
        if let Some(arriving) = arriving {
            let moved = self.counted(&arriving)?;
            let depth_before = if stays_within { self.depth_within(moved.depth) } else { 0 };
            let depth_after = self.depth_within((moved.depth + depth(to)).saturating_sub(depth(from)));
            if moved.files > 0 {
                self.expect(CapacityMeasure::Depth, self.capacity.depth, depth_before, depth_after)?;
            }
            self.added.add(moved);
            if stays_within {
                self.freed.add(moved);
                return Ok(());
            }
        }
        leaving.map_or(Ok(()), |leaving| self.free(leaving))
    }

    /// What a rename brings to the directory: all of it, or the part that has the directory's place in it.
    fn arriving(&self, from: &MemoryPath, to: &MemoryPath) -> Option<MemoryPath> {
        if is_within(to, self.directory) {
            return Some(from.clone());
        }
        // Where the rebased path would be too long, nothing is there.
        if self.directory.is_beneath(to) { self.directory.rebase(to, from).ok() } else { None }
    }

    fn remove(&mut self, path: &MemoryPath) -> Result<(), StoreError> {
        part_within(path, self.directory).map_or(Ok(()), |path| self.free(path))
    }

    fn free(&mut self, path: &MemoryPath) -> Result<(), StoreError> {
        let freed = self.counted(path)?;
        self.freed.add(freed);
        Ok(())
    }

    /// What is at or beneath a path, without what is not counted.
    fn counted(&mut self, path: &MemoryPath) -> Result<Usage, StoreError> {
        let mut counted = (self.usage)(path)?;
        for file in self.capacity.uncounted.iter().filter(|file| is_within(file, path)) {
            counted.subtract((self.usage)(file)?);
        }
        Ok(counted)
    }

    fn grows(&self) -> bool {
        self.capacity.files.is_some() && self.added.files > self.freed.files
            || self.capacity.bytes.is_some() && self.added.bytes > self.freed.bytes
    }

    fn totals(mut self) -> Result<(), StoreError> {
        if !self.grows() {
            return Ok(());
        }
        let before = self.counted(self.directory)?;
        let after = |before: u64, added: u64, freed: u64| before.saturating_add(added).saturating_sub(freed);
        let files = after(before.files, self.added.files, self.freed.files);
        self.expect(CapacityMeasure::Files, self.capacity.files, before.files, files)?;
        let bytes = after(before.bytes, self.added.bytes, self.freed.bytes);
        self.expect(CapacityMeasure::Bytes, self.capacity.bytes, before.bytes, bytes)
    }

    fn depth_within(&self, depth_of_file: u64) -> u64 {
        depth_of_file.saturating_sub(depth(self.directory))
    }

    fn expect(&self, measure: CapacityMeasure, limit: Option<u64>, before: u64, asked: u64) -> Result<(), StoreError> {
        match limit {
            Some(limit) if asked > limit && asked > before => {
                let left = limit.saturating_sub(before);
                Err(StoreError::OverCapacity { path: self.directory.clone(), measure, limit, asked, left })
            }
            _ => Ok(()),
        }
    }
}

/// What of `path` lies in the directory: all of it, or the whole directory, which lies in it.
fn part_within<'a>(path: &'a MemoryPath, directory: &'a MemoryPath) -> Option<&'a MemoryPath> {
    if is_within(path, directory) {
        return Some(path);
    }
    directory.is_beneath(path).then_some(directory)
}

fn is_within(path: &MemoryPath, directory: &MemoryPath) -> bool {
    path == directory || path.is_beneath(directory)
}

fn depth(path: &MemoryPath) -> u64 {
    path.segments().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureKind;
    use crate::store::{Batch, Expected, Node};

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    /// The paths that a store is asked about in which everything is one file of 5 bytes.
    fn asked(capacity: &Capacity, batch: Batch) -> Vec<String> {
        let mut asked = Vec::new();
        let batch = batch.require(MemoryPath::root(), Expected::Capacity(capacity.clone()));
        let usage = |path: &MemoryPath| {
            asked.push(path.to_string());
            Ok(Usage::new(1, 5, 3))
        };
        batch.check_preconditions(|_| unreachable!("no other precondition"), usage).unwrap();
        asked
    }

    #[test]
    fn the_directory_is_counted_only_where_a_batch_adds_to_it() {
        let all = Capacity::new().with_files(9).with_bytes(90).with_file_bytes(9).with_depth(9);
        let write = |bytes| Batch::new().write(path("/memories/a"), vec![b'x'; bytes]).unwrap();
        assert_eq!(asked(&all, write(5)), ["/memories/a"]);
        assert_eq!(asked(&all, write(6)), ["/memories/a", "/memories"]);
        assert_eq!(asked(&Capacity::new().with_files(9), write(6)), ["/memories/a"]);
        assert_eq!(asked(&all, Batch::new().remove(path("/memories/a")).unwrap()), [""; 0]);
        let rename = |to| Batch::new().rename(path("/memories/a"), path(to)).unwrap();
        assert_eq!(asked(&all, rename("/memories/b")), [""; 0]);
        assert_eq!(asked(&all, rename("/memories/b/c")), ["/memories/a"]);
        assert_eq!(asked(&Capacity::new().with_files(9).with_bytes(9), rename("/memories/b/c")), [""; 0]);
    }

    #[test]
    fn what_is_not_counted_is_neither_in_the_way_nor_room() {
        let hidden = path("/memories/.hidden");
        let capacity =
            Capacity::new().with_files(2).with_bytes(10).with_file_bytes(9).with_depth(1).without(hidden.clone());
        // In the directory: the hidden file of 5 bytes, and as many others as it takes to make so many files.
        let judge = |files: u64, batch: Batch| {
            let batch = batch.require(MemoryPath::root(), Expected::Capacity(capacity.clone()));
            batch.check_preconditions(
                |_| unreachable!("no other precondition"),
                |path| match path.as_str() {
                    "/memories" => Ok(Usage::new(files, 5 * files, 1)),
                    "/memories/.hidden" => Ok(Usage::new(1, 5, 1)),
                    _ => Ok(Usage::default()),
                },
            )
        };
        let write = |bytes: usize| Batch::new().write(path("/memories/a"), vec![b'x'; bytes]).unwrap();
        judge(2, write(5)).unwrap();
        judge(2, write(6)).unwrap_err();
        judge(3, write(0)).unwrap_err();
        let beside = |batch: Batch| batch.write(hidden.clone(), vec![b'x'; 100]).unwrap();
        judge(2, beside(write(5))).unwrap();
        judge(2, beside(write(6))).unwrap_err();
        // To remove it makes no room.
        judge(3, write(5).remove(hidden.clone()).unwrap()).unwrap_err();
    }

    /// One that knows preconditions by `Expected::check` alone must not ignore what it cannot judge.
    #[test]
    fn a_store_that_judges_no_capacity_refuses_it() {
        let checked = Expected::Capacity(Capacity::new().with_files(1)).check(&MemoryPath::root(), &Node::Directory);
        assert!(matches!(checked, Err(StoreError::Failure { kind: FailureKind::Other, .. })), "{checked:?}");
    }
}
