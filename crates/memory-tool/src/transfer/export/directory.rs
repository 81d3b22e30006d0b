//! [`Directory`]: a directory to export to.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, Metadata, OpenOptions};
use memory_tool_core::{FileTimes, StorePath};

use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::export::target::{AddOutcome, FinishOutcome, PARTIAL_PREFIX, Target};

/// A directory to export to.
///
/// # Behavior
/// 1. Files and directories are accessible only by their owner.
/// 2. A file gets its name when it is complete.
/// 3. Links in the directory are not followed and not replaced.
/// 4. If the file system treats two names as equal, the second file does not replace the first.
pub(super) struct Directory {
    path: PathBuf,
    root: Dir,
    existing: Existing,
    /// The files that this run wrote.
    written: HashSet<Identity>,
}

/// The identity of a file, independent of its name: its device and inode numbers.
type Identity = (u64, u64);

impl Directory {
    /// Opens or creates a directory. It must be empty unless existing files are replaced.
    pub(super) fn open(path: &Path, existing: Existing) -> Result<Self, TransferError> {
        let failed = |source| TransferError::Target { path: path.to_owned(), source };
        let root = open_or_create(path).map_err(failed)?;
        let is_empty = root.entries().map_err(failed)?.next().is_none();
        if !is_empty && existing == Existing::Keep {
            return Err(TransferError::TargetExists { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), root, existing, written: HashSet::new() })
    }

    fn write(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> io::Result<AddOutcome> {
        let Some(name) = path.file_name() else { return Err(ErrorKind::IsADirectory.into()) };
        let mut directory = self.root.try_clone()?;
        let above = path.segments().rev().skip(1).collect::<Vec<_>>();
        for segment in above.into_iter().rev() {
            directory = enter(&directory, segment)?;
        }
        if let Some(reason) = self.obstacle(&directory, name)? {
            return Ok(AddOutcome::Refused { reason: reason.to_owned() });
        }
        let partial = format!("{PARTIAL_PREFIX}{:016x}", getrandom::u64().map_err(io::Error::other)?);
        let written =
            write_new(&self.root, &partial, content, times).and_then(|()| self.root.rename(&partial, &directory, name));
        if written.is_err() {
            let _ = self.root.remove_file(&partial); // the first error is reported
        }
        written?;
        self.written.extend(directory.symlink_metadata(name).ok().as_ref().and_then(identity));
        Ok(AddOutcome::Written)
    }

    /// The reason why a file with this name cannot be written.
    fn obstacle(&self, directory: &Dir, name: &str) -> io::Result<Option<&'static str>> {
        let found = match directory.symlink_metadata(name) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_written = identity(&found).is_some_and(|found| self.written.contains(&found));
        Ok(if found.is_symlink() {
            Some("the path is a link")
        } else if found.is_dir() {
            Some("the path is a directory")
        } else if !found.is_file() {
            Some("the path is a special file")
        } else if self.existing == Existing::Replace && !is_written {
            None
        } else {
            Some("the file exists. The target may treat different spellings as the same name")
        })
    }
}

impl Target for Directory {
    /// Writes a file. An error that affects only this file is returned as [`AddOutcome::Refused`].
    fn add(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<AddOutcome, TransferError> {
        match self.write(path, content, times) {
            Ok(added) => Ok(added),
            Err(source) if is_about_all_files(&source) => {
                Err(TransferError::Target { path: self.path.clone(), source })
            }
            Err(error) => Ok(AddOutcome::Refused { reason: error.to_string() }),
        }
    }

    fn finish(self: Box<Self>, _: Existing) -> Result<FinishOutcome, TransferError> {
        Ok(FinishOutcome::Written)
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> Option<Identity> {
    use cap_std::fs::MetadataExt as _;
    Some((found.dev(), found.ino()))
}

/// Windows provides this only for open files.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

fn is_about_all_files(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

fn open_or_create(path: &Path) -> io::Result<Dir> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    Dir::open_ambient_dir(path, ambient_authority())
}

fn enter(directory: &Dir, name: &str) -> io::Result<Dir> {
    match directory.open_dir_nofollow(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            #[cfg_attr(not(unix), expect(unused_mut, reason = "there is no mode to set"))]
            let mut builder = DirBuilder::new();
            #[cfg(unix)]
            cap_std::fs::DirBuilderExt::mode(&mut builder, 0o700);
            directory.create_dir_with(name, &builder)?;
            directory.open_dir_nofollow(name)
        }
        opened => opened,
    }
}

/// Writes a file that is readable only by its owner, and flushes it to the disk.
fn write_new(directory: &Dir, name: &str, content: &[u8], times: FileTimes) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = directory.open_with(name, &options)?;
    file.write_all(content)?;
    let file = file.into_std();
    if let Some(modified) = times.modified {
        let _ = file.set_modified(modified); // not every file system can keep every time
    }
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_files_from_before_the_export_are_replaced() {
        let target = tempfile::tempdir().unwrap();
        std::fs::write(target.path().join("a"), "before").unwrap();
        let mut directory = Directory::open(target.path(), Existing::Replace).unwrap();
        let path = "/memories/a".parse().unwrap();
        assert!(matches!(directory.add(&path, b"first", FileTimes::new()), Ok(AddOutcome::Written)));
        // A file system can treat another spelling as the same name.
        assert!(matches!(directory.add(&path, b"second", FileTimes::new()), Ok(AddOutcome::Refused { .. })));
        assert_eq!(std::fs::read(target.path().join("a")).unwrap(), b"first");
    }
}
