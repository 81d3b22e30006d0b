//! Creates the file of the shared memory (`-shm`) where SQLite's way to create it is dangerous.
//!
//! SQLite maps the file. On btrfs, a change of a page needs a new block. If the disk is full, the system ends the
//! process with `SIGBUS`. A file with the attribute "no copy on write" keeps its blocks.

use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) fn create(database: &Path) {
    use std::fs::{OpenOptions, Permissions};
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    use rustix::fs::{IFlags, ioctl_setflags, statfs};

    use crate::sidecar::{SHARED_MEMORY, beside, metadata};

    const BTRFS: i64 = 0x9123_683e;
    // A failure has no consequence, or SQLite has and reports it too.
    let is_on_btrfs = statfs(database).is_ok_and(|found| found.f_type == BTRFS);
    let Some(found) = metadata(database).ok().flatten().filter(|_| is_on_btrfs) else { return };
    let path = beside(database, SHARED_MEMORY);
    if let Ok(file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        let _ = ioctl_setflags(&file, IFlags::NOCOW); // works only on an empty file
        let _ = file.set_permissions(Permissions::from_mode(found.permissions().mode() & 0o777));
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn create(_: &Path) {}
