//! [`CachedReader`]: reads a file that the operating system has in memory, on the calling thread and without a lock.
//!
//! Such a read never waits for the disk or for another process. The result counts only if the sequence number is even,
//! and the same before and after the read. Then no change began or ended during the read, as if under the lock.
//! Otherwise the result is `None`, and the caller reads under the lock.
//!
//! The number never returns to an earlier value. So the one that this process saw last, perhaps long before the read,
//! is as good as one read just before it.

use std::sync::Arc;

use memory_tool_core::{Node, Precondition, StorePath};

use crate::open_files::OpenFiles;
use crate::version_cache::VersionCache;

/// Reads cached files. Linux only: other systems cannot promise not to wait for the disk.
#[derive(Debug, Default)]
pub(crate) struct CachedReader {
    #[cfg(target_os = "linux")]
    is_unsupported: std::sync::atomic::AtomicBool,
}

impl CachedReader {
    /// Reads the file at `path`, or an absent record, under preconditions, if the store allows reads without a lock.
    #[cfg(target_os = "linux")]
    pub(crate) fn read(
        &self,
        files: &Arc<OpenFiles>,
        path: &StorePath,
        required: &[(StorePath, Precondition)],
        max_bytes: u64,
        versions: &VersionCache,
    ) -> Option<Node> {
        use std::sync::atomic::Ordering;

        if self.is_unsupported.load(Ordering::Relaxed) {
            return None;
        }
        let (base, sequence) = files.readable()?;
        let place = linux::Place { base: &base, max_bytes, versions };
        match linux::read(&sequence, &place, path, required) {
            Ok(node) => node,
            Err(error) => {
                if linux::is_unsupported(error) {
                    self.is_unsupported.store(true, Ordering::Relaxed);
                }
                None
            }
        }
    }

    /// Reads nothing on this system.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read(
        &self,
        _: &Arc<OpenFiles>,
        _: &StorePath,
        _: &[(StorePath, Precondition)],
        _: u64,
        _: &VersionCache,
    ) -> Option<Node> {
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSliceMut;
    use std::os::fd::AsFd;
    use std::time::SystemTime;

    use cap_std::fs::Dir;
    use memory_tool_core::{Node, Precondition, StorePath, StoredFile, Version};
    use rustix::fd::OwnedFd;
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use crate::directories;
    use crate::disk::FileStamp;
    use crate::sequence::{Sequence, is_unfinished};
    use crate::tree::version_of;
    use crate::version_cache::VersionCache;

    /// The largest file in bytes that is copied and digested on the calling thread.
    const MAX_BYTES: u64 = 64 * 1024;

    /// A store, and the known versions of its files.
    pub(super) struct Place<'a> {
        pub(super) base: &'a Dir,
        pub(super) max_bytes: u64,
        pub(super) versions: &'a VersionCache,
    }

    pub(super) fn read(
        sequence: &Sequence,
        place: &Place<'_>,
        path: &StorePath,
        required: &[(StorePath, Precondition)],
    ) -> Result<Option<Node>, Errno> {
        undisturbed(sequence, || {
            // Read first: other programs take no lock, and a precondition must hold after the read.
            let node = match read_file(place, path) {
                Err(Errno::NOENT) if path.is_record() => Some(Node::Absent),
                file => file?.map(Node::File),
            };
            for (path, precondition) in required {
                let holds = match precondition {
                    Precondition::Absent => is_absent(place, path)?,
                    Precondition::Version(version) => read_version(place, path)?.as_ref() == Some(version),
                };
                if !holds {
                    return Ok(None);
                }
            }
            Ok(node)
        })
    }

    fn is_absent(place: &Place<'_>, path: &StorePath) -> Result<bool, Errno> {
        match open(place.base, &directories::relative_path(path), OFlags::PATH) {
            Err(Errno::NOENT) => Ok(true),
            opened => opened.map(|_| false),
        }
    }

    /// Returns the result of `read`, unless a change is made during it. Reads again once, because the number that was
    /// seen last may be outdated.
    fn undisturbed<T>(sequence: &Sequence, read: impl Fn() -> Result<Option<T>, Errno>) -> Result<Option<T>, Errno> {
        const ATTEMPTS: usize = 2;
        let mut before = sequence.last_seen();
        if is_unfinished(before) {
            before = read_number(sequence)?;
        }
        for _ in 0..ATTEMPTS {
            if is_unfinished(before) {
                return Ok(None);
            }
            let Some(found) = read()? else { return Ok(None) };
            let after = read_number(sequence)?;
            if after == before {
                return Ok(Some(found));
            }
            before = after;
        }
        Ok(None)
    }

    /// The version of a file, which is read unless its version is known.
    fn read_version(place: &Place<'_>, path: &StorePath) -> Result<Option<Version>, Errno> {
        let found = fstat(open(place.base, &directories::relative_path(path), OFlags::PATH)?)?;
        if is_regular(&found)
            && let Some(version) = place.versions.get(path, &FileStamp::of_stat(&found))
        {
            return Ok(Some(version));
        }
        Ok(read_file(place, path)?.map(|file| file.version))
    }

    fn read_file(place: &Place<'_>, path: &StorePath) -> Result<Option<StoredFile>, Errno> {
        let Place { base, max_bytes, versions } = place;
        let path_in_base = directories::relative_path(path);
        let now = SystemTime::now();
        // Opening a pipe or a device for reading has effects, so the entry is looked at first.
        let found = fstat(open(base, &path_in_base, OFlags::PATH)?)?;
        let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
        if !is_regular(&found) || size > MAX_BYTES.min(*max_bytes) {
            return Ok(None);
        }
        let file = open(base, &path_in_base, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let Some(content) = read_cached(&file, usize::try_from(size).unwrap_or_default())? else { return Ok(None) };
        let stamp = FileStamp::of_stat(&found);
        let version = versions.get(path, &stamp).unwrap_or_else(|| {
            let version = version_of(&content);
            versions.note(path, stamp, now, version.clone());
            version
        });
        Ok(Some(StoredFile::new(content, version)))
    }

    fn read_number(sequence: &Sequence) -> Result<u64, Errno> {
        let file = sequence.as_file();
        sequence.read_with(|number| preadv2(file, &mut [IoSliceMut::new(number)], 0, ReadWriteFlags::NOWAIT))
    }

    /// Opens a path under `base` without following links, if all its names are cached.
    fn open(base: &Dir, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
        openat2(base, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    fn is_regular(found: &Stat) -> bool {
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
    }

    /// The contents of a file of `size` bytes, if all of them are cached and the file has not grown.
    fn read_cached(file: impl AsFd, size: usize) -> Result<Option<Vec<u8>>, Errno> {
        if size == 0 {
            return Ok(None); // such a read could wait, because it has nothing to find in the cache
        }
        let mut content = vec![0; size + 1];
        let length = preadv2(file, &mut [IoSliceMut::new(&mut content)], 0, ReadWriteFlags::NOWAIT)?;
        content.truncate(length);
        Ok((length == size).then_some(content))
    }

    /// Whether every later read would fail in the same way.
    pub(super) fn is_unsupported(error: Errno) -> bool {
        matches!(error, Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM)
    }
    #[cfg(test)]
    mod tests {
        use std::cell::Cell;

        use super::*;
        use crate::sequence::View;

        /// A store whose last change has this number.
        fn sequence(number: u64) -> Sequence {
            let sequence = Sequence::new(tempfile::tempfile().unwrap(), true, View::test());
            sequence.write(number).unwrap();
            sequence
        }

        /// The same file in another process.
        fn elsewhere(sequence: &Sequence) -> Sequence {
            Sequence::new(sequence.as_file().try_clone().unwrap(), true, View::test())
        }

        #[test]
        fn a_change_during_a_read_repeats_it() {
            let sequence = sequence(4);
            let reads = Cell::new(0);
            let read = undisturbed(&sequence, || {
                reads.update(|reads| reads + 1);
                elsewhere(&sequence).write(6).unwrap();
                Ok(Some(reads.get()))
            });
            assert_eq!(read, Ok(Some(2)));
        }

        #[test]
        fn changes_during_each_read_discard_its_result() {
            let sequence = sequence(4);
            let numbers = Cell::new(4);
            let read = undisturbed(&sequence, || {
                numbers.update(|number| number + 2);
                elsewhere(&sequence).write(numbers.get()).unwrap();
                Ok(Some("read"))
            });
            assert_eq!(read, Ok(None));
        }

        #[test]
        fn a_read_during_a_change_is_discarded() {
            let sequence = sequence(4);
            let during = undisturbed(&sequence, || {
                elsewhere(&sequence).write(5).unwrap();
                Ok(Some("read"))
            });
            assert_eq!(during, Ok(None));
            let unfinished = undisturbed(&sequence, || -> Result<Option<&str>, Errno> { panic!("a change is made") });
            assert_eq!(unfinished, Ok(None));
        }

        #[test]
        fn a_change_of_another_process_since_the_last_read_is_detected() {
            let (sequence, file) = (sequence(4), Cell::new("old"));
            elsewhere(&sequence).write(6).unwrap();
            let read = undisturbed(&sequence, || Ok(Some(file.replace("new"))));
            assert_eq!(read, Ok(Some("new")), "the first read may be of a time before the change");
        }
    }
}
