//! File operations on the disk of a backend, off the async threads.

use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use crate::case::Capability;
use crate::failure::{CaseError, Failure};

/// Runs blocking file operations, as another program would.
pub(crate) async fn on_disk<T: Send + 'static>(
    what: impl Display,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CaseError> {
    match spawn_blocking(act).await.unwrap_or_else(|error| Err(error.into())) {
        Ok(done) => Ok(done),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Err(CaseError::unsupported(Capability::PlainFiles, format!("this platform has no way to {what}")))
        }
        Err(error) => Err(Failure::new(format!("another program cannot {what}: {error}")).into()),
    }
}

/// Writes the file at a path of the memory.
pub(crate) async fn write_file(path: impl Display, file: PathBuf, content: Vec<u8>) -> Result<(), CaseError> {
    on_disk(format!("write {path}"), move || {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, content)
    })
    .await
}

/// Reads the file at a path of the memory.
pub(crate) async fn read_file(path: impl Display, file: PathBuf) -> Result<Vec<u8>, CaseError> {
    on_disk(format!("read {path}"), move || fs::read(file)).await
}

/// All entries under a directory, if it exists. No file is opened, because closing it would release SQLite's locks on
/// it.
pub(crate) fn entries_under(directory: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let mut entries = Vec::new();
    let mut pending = if directory.try_exists()? { vec![directory.to_owned()] } else { Vec::new() };
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            if file_type.is_dir() {
                pending.push(entry.path());
            }
            entries.push((entry.path(), file_type));
        }
    }
    Ok(entries)
}
