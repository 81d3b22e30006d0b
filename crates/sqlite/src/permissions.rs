//! Creates the database with access for its owner only, regardless of the umask. SQLite gives the files beside it the
//! same mode.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates the database file and its directories if they are missing.
pub(crate) fn create_missing(file: &Path) -> io::Result<()> {
    let Some(directory) = file.parent() else { return Err(io::ErrorKind::IsADirectory.into()) };
    create_missing_directories(directory)?;
    match create_file(file) {
        Ok(()) => sync_directory(directory),
        Err(_) if file.exists() => Ok(()), // on a read-only disk, too
        Err(error) => Err(error),
    }
}

fn create_missing_directories(directory: &Path) -> io::Result<()> {
    let mut missing: Vec<_> = directory.ancestors().take_while(|above| !above.exists()).collect();
    missing.reverse();
    for directory in missing {
        match create_directory(directory) {
            Ok(()) => directory.parent().map_or(Ok(()), sync_directory)?,
            // Created by another process, or by the previous step: `new/..` exists once `new` does.
            Err(_) if directory.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn create_file(path: &Path) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

#[cfg(unix)]
fn create_directory(path: &Path) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    DirBuilder::new().mode(0o700).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // This file system cannot flush directories.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(not(unix))]
fn create_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path).map(|_file: File| ())
}

#[cfg(not(unix))]
fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}
