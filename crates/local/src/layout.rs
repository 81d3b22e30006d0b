//! Where things lie in the base directory:
//!
//! ```text
//! {base}/memories/                 the files, as a person may read and edit them; nothing of ours
//! {base}/.memory-tool/lock         held shared by readers, exclusively by writers
//! {base}/.memory-tool/turnstile    held while waiting for `lock`, so that readers cannot starve a writer
//! {base}/.memory-tool/staging/     contents on their way in, and directories on their way out
//! {base}/.memory-tool/journal      a batch of several changes that was decided and may not be done yet
//! {base}/.memory-tool/stamp         whose change was the last, where somebody counts what is there
//! {base}/.memory-tool/conflicts/   contents that a journal could not put in place because another program was there
//! ```

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use memory_tool_core::StoreError;

use crate::disk::{self, Child};
use crate::failure::{failed, unconfirmed};
use crate::tree::Tree;

const MEMORIES: &str = "memories";
const PRIVATE: &str = ".memory-tool";
const STAGING: &str = "staging";
const CONFLICTS: &str = "conflicts";

/// The open base directory. Everything else is found from it by name, again for every operation: so it does no harm when
/// another program removes a directory meanwhile.
#[derive(Debug)]
pub(crate) struct Layout {
    base: Dir,
    /// Whether the file system finds a file by another spelling of its name, as those of macOS and Windows do.
    ignores_case: bool,
}

impl Layout {
    /// Opens the base directory, and makes it and what belongs in it where it is missing.
    pub(crate) fn open(base: &Path) -> io::Result<Self> {
        create_base(base)?;
        let mut layout = Self { base: Dir::open_ambient_dir(base, ambient_authority())?, ignores_case: false };
        let staging = layout.staging()?;
        let memories = layout.memories_or_create()?;
        if !disk::is_one_mount(&staging, &memories)? {
            let message = "the directory `memories` in it is a mount of its own, so files cannot be moved into it";
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, message));
        }
        layout.ignores_case = disk::metadata(&layout.base, &MEMORIES.to_uppercase())?.is_some()
            && !disk::lists(&layout.base, &MEMORIES.to_uppercase())?;
        Ok(layout)
    }

    /// The files, in the directory `memories`. While that is missing, there are none.
    pub(crate) fn tree(&self) -> io::Result<Tree> {
        Ok(Tree::new(directory(&self.base, MEMORIES)?, self.ignores_case))
    }

    /// The files, in the directory `memories`, which is made if need be.
    pub(crate) fn tree_or_create(&self) -> io::Result<Tree> {
        Ok(Tree::new(Some(self.memories_or_create()?), self.ignores_case))
    }

    fn memories_or_create(&self) -> io::Result<Dir> {
        directory_or_create(&self.base, MEMORIES)
    }

    /// Moves the whole directory `memories` away, to `name` in `staging`, and makes a new one.
    pub(crate) fn remove_memories(&self, staging: &Dir, name: &str) -> Result<(), StoreError> {
        const OPERATION: &str = "removing all files";
        disk::rename_new(&self.base, MEMORIES, staging, name).map_err(|error| failed(OPERATION, error))?;
        disk::sync_directory(&self.base).map_err(|error| unconfirmed(OPERATION, error))?;
        // While it is missing there are no files, and the next change makes it: so no failure here matters.
        let _ = self.memories_or_create();
        Ok(())
    }

    /// The directory of the lock and the journal.
    pub(crate) fn private(&self) -> io::Result<Dir> {
        directory_or_create(&self.base, PRIVATE)
    }

    /// The directory of contents that were set aside for the operator.
    pub(crate) fn conflicts(&self) -> io::Result<Dir> {
        directory_or_create(&self.private()?, CONFLICTS)
    }

    /// The directory of contents on their way in or out.
    pub(crate) fn staging(&self) -> io::Result<Dir> {
        directory_or_create(&self.private()?, STAGING)
    }
}

fn directory_or_create(parent: &Dir, name: &str) -> io::Result<Dir> {
    if let Some(found) = directory(parent, name)? {
        return Ok(found);
    }
    match disk::create_private_directory(parent, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => disk::sync_directory(parent)?,
    }
    directory(parent, name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn directory(parent: &Dir, name: &str) -> io::Result<Option<Dir>> {
    let found = match disk::child(parent, name)? {
        Child::Directory(found) => return Ok(Some(found)),
        Child::Absent => return Ok(None),
        Child::Link => "a symbolic link",
        Child::File | Child::Special => "not a directory",
    };
    Err(io::Error::new(io::ErrorKind::NotADirectory, format!("`{name}` in it is {found}")))
}

/// Makes the base directory and those above it that are missing, for the owner alone.
fn create_base(base: &Path) -> io::Result<()> {
    let missing = base.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
    let mut missing: Vec<_> = missing.collect();
    missing.reverse();
    for directory in missing {
        match create_ambient(directory) {
            // Made meanwhile by another process, or by the step before: `new/..` exists once `new` does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
    }
    Ok(())
}

fn create_ambient(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return std::fs::create_dir(path); // `..`, or the root of the file system
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
    disk::create_private_directory(&parent, name)?;
    disk::sync_directory(&parent)
}
