//! [`Draft`]: the file that an editor changes.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use memory_tool::MemoryPath;
use tempfile::TempDir;

use crate::failure::{Context as _, Failure};
use crate::terminal::escapes::on_one_line;

const PREFIX: &str = "memory-tool-edit-";
const LOCK: &str = ".lock";
const CANNOT_CREATE: &str = "cannot create a file for the editor";

/// A file for an editor in a directory that only this user can read. Both are removed on drop, with other files of the
/// editor. The next draft removes those of programs that were killed.
pub(super) struct Draft {
    /// The lock of the directory. The system releases it if the program is killed. It is dropped first, because Windows
    /// removes only closed files.
    _lock: File,
    directory: TempDir,
    file: PathBuf,
    original: Vec<u8>,
}

impl Draft {
    pub(super) fn create(path: &MemoryPath, text: &[u8]) -> Result<Self, Failure> {
        Self::try_create(path, text).context(CANNOT_CREATE)
    }

    fn try_create(path: &MemoryPath, text: &[u8]) -> io::Result<Self> {
        let directory = private_directory(PREFIX)?;
        remove_leftovers(directory.path());
        let (unlocked, lock) = (directory.path().join(".new"), directory.path().join(LOCK));
        let locked = File::create_new(&unlocked)?;
        locked.lock()?;
        fs::rename(unlocked, lock)?;
        let file = directory.path().join(name(path));
        private_file().open(&file)?.write_all(text)?;
        Ok(Self { directory, file, original: text.to_vec(), _lock: locked })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The text of the person, unless it is the original one or the editor removed it.
    pub(super) fn changed(&self) -> Result<Option<Vec<u8>>, Failure> {
        let file = &self.file;
        let read = || match fs::symlink_metadata(file) {
            Ok(found) if found.is_file() => fs::read(file).map(Some),
            Ok(_) => Err(io::Error::other("it is not a plain file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let text = read().context(format!("cannot read {}, which the editor wrote", file.display()))?;
        Ok(text.filter(|text| *text != self.original))
    }

    /// Keeps a changed text in a file that only this user can read. Returns its path for a terminal.
    pub(super) fn keep_changed(&mut self) -> Result<Option<String>, Failure> {
        if self.changed()?.is_none() {
            return Ok(None);
        }
        let kept = self.move_file().unwrap_or_else(|_| {
            // The disk may be full.
            self.directory.disable_cleanup(true);
            drop(fs::remove_file(self.directory.path().join(LOCK)));
            self.file.clone()
        });
        Ok(Some(on_one_line(&kept.display().to_string()).to_string()))
    }

    fn move_file(&self) -> io::Result<PathBuf> {
        let directory = private_directory("memory-tool-kept-")?;
        let kept = directory.path().join(self.file.file_name().unwrap_or_default());
        fs::rename(&self.file, &kept)?;
        // An editor may have replaced it.
        #[cfg(unix)]
        drop(fs::set_permissions(&kept, permissions(0o600)));
        drop(directory.keep());
        Ok(kept)
    }
}

/// The name of the file for the editor, which may derive the language from it. Characters are replaced if they have a
/// meaning for a system or an editor, such as the dot of `.dir-locals.el`.
fn name(path: &MemoryPath) -> String {
    let name = path.file_name().unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let plain = |part: &str| -> String {
        part.chars().map(|character| if character.is_alphanumeric() { character } else { '-' }).take(32).collect()
    };
    let dot = if extension.is_empty() { "" } else { "." };
    ["memory-", &plain(stem), dot, &plain(extension)].concat()
}

fn private_directory(prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(permissions(0o700));
    builder.tempdir()
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn permissions(mode: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}

/// Removes the directories of drafts whose program was killed. An error here must not prevent an edit.
fn remove_leftovers(own: &Path) {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let directory = entry.path();
        let is_draft = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_draft && directory != own && belongs_to_owner_of(own, &directory) {
            let lock = File::open(directory.join(LOCK));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                drop(fs::remove_dir_all(&directory));
            }
        }
    }
}

/// Whether the directory is a private one of the same user. Other users may create names in the parent.
#[cfg(unix)]
fn belongs_to_owner_of(own: &Path, directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let (Ok(own), Ok(found)) = (fs::symlink_metadata(own), fs::symlink_metadata(directory)) else { return false };
    found.is_dir() && found.uid() == own.uid() && found.mode() & 0o077 == 0
}

#[cfg(not(unix))]
fn belongs_to_owner_of(_own: &Path, directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir())
}
