//! [`Directory`]: a plain directory that files are written into.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, Metadata, OpenOptions};
use memory_tool_core::MemoryPath;

use crate::transfer::error::TransferError;
use crate::transfer::export::outcome::{Added, PARTIAL_PREFIX};

/// A directory that is written into.
///
/// # Behavior
/// 1. Files can be read by their owner alone, and directories entered.
/// 2. A file has its name only once it is whole.
/// 3. No link in the directory is followed, and none replaced.
/// 4. A file that was written is not replaced by the next, where the directory takes two spellings for one name.
pub(super) struct Directory {
    path: PathBuf,
    root: Dir,
    overwrites: bool,
    /// The files that this run wrote.
    written: HashSet<Identity>,
}

/// What a file is known by, whatever the spelling of its name: its device and its number there.
type Identity = (u64, u64);

impl Directory {
    /// Opens a directory that is new or empty, unless files in it are to be overwritten.
    pub(super) fn open(path: &Path, overwrites: bool) -> Result<Self, TransferError> {
        let failed = |source| TransferError::Target { path: path.to_owned(), source };
        let root = open_or_create(path).map_err(failed)?;
        let is_empty = root.entries().map_err(failed)?.next().is_none();
        if !is_empty && !overwrites {
            return Err(TransferError::TargetTaken { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), root, overwrites, written: HashSet::new() })
    }

    /// Writes a file. What only this file fails by is told.
    pub(super) fn add(&mut self, path: &MemoryPath, content: &[u8]) -> Result<Added, TransferError> {
        match self.write(path, content) {
            Ok(added) => Ok(added),
            Err(source) if is_about_all_files(&source) => {
                Err(TransferError::Target { path: self.path.clone(), source })
            }
            Err(error) => Ok(Added::Refused { reason: error.to_string() }),
        }
    }

    fn write(&mut self, path: &MemoryPath, content: &[u8]) -> io::Result<Added> {
        let Some(name) = path.file_name() else { return Err(ErrorKind::IsADirectory.into()) };
        let mut directory = self.root.try_clone()?;
        let above = path.segments().rev().skip(1).collect::<Vec<_>>();
        for segment in above.into_iter().rev() {
            directory = enter(&directory, segment)?;
        }
        if let Some(reason) = self.what_is_in_the_way(&directory, name)? {
            return Ok(Added::Refused { reason: reason.to_owned() });
        }
        let partial = format!("{PARTIAL_PREFIX}{:016x}", getrandom::u64().map_err(io::Error::other)?);
        let written =
            write_new(&self.root, &partial, content).and_then(|()| self.root.rename(&partial, &directory, name));
        if written.is_err() {
            let _ = self.root.remove_file(&partial); // the first error is the one to be told
        }
        written?;
        self.written.extend(directory.symlink_metadata(name).ok().as_ref().and_then(identity));
        Ok(Added::Written)
    }

    fn what_is_in_the_way(&self, directory: &Dir, name: &str) -> io::Result<Option<&'static str>> {
        let found = match directory.symlink_metadata(name) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(match () {
            () if found.is_symlink() => Some("a link is there"),
            () if found.is_dir() => Some("a directory is there"),
            () if !found.is_file() => Some("something that is no file is there"),
            () if self.overwrites && !identity(&found).is_some_and(|found| self.written.contains(&found)) => None,
            () => Some("a file is there, which may be another by a spelling that the target takes for the same"),
        })
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> Option<Identity> {
    use cap_std::fs::MetadataExt as _;
    Some((found.dev(), found.ino()))
}

/// Windows tells it of open files alone.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

/// Whether the other files would fail just so.
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

/// Opens a directory beneath another, made if need be.
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

/// Writes a file that its owner alone may read, and waits until the disk has it.
fn write_new(directory: &Dir, name: &str, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = directory.open_with(name, &options)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_this_run_wrote_is_not_replaced_and_what_was_there_before_is() {
        let target = tempfile::tempdir().unwrap();
        std::fs::write(target.path().join("a"), "before").unwrap();
        let mut directory = Directory::open(target.path(), true).unwrap();
        let path = "/memories/a".parse().unwrap();
        assert!(matches!(directory.add(&path, b"first"), Ok(Added::Written)));
        // As where another spelling comes to the same file.
        assert!(matches!(directory.add(&path, b"second"), Ok(Added::Refused { .. })));
        assert_eq!(std::fs::read(target.path().join("a")).unwrap(), b"first");
    }
}
