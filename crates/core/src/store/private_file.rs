//! [`refuse_others`]: files with secrets that only their owner can access.

use std::fs::Metadata;
use std::io;

/// Refuses a file that other users can access. A secret that an orchestrator mounts is of another user, read-only, and
/// for the group of the service. One of systemd's `LoadCredential=` can be of root and its group, with an access list
/// for the service.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`], with the mode and the remedy.
#[cfg(unix)]
pub fn refuse_others(metadata: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let mode = metadata.mode() & 0o777;
    let is_of_root = (metadata.uid(), metadata.gid()) == (0, 0);
    if mode & 0o077 != 0 && !(mode == 0o440 && (is_of_root || is_own_group(metadata.gid()))) {
        let message = format!("mode {mode:03o} gives other users access: run `chmod 600` on it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Whether the group is one of this process.
#[cfg(unix)]
fn is_own_group(group: u32) -> bool {
    let own = rustix::process::getgroups().unwrap_or_default();
    own.into_iter().chain([rustix::process::getegid()]).any(|own| own.as_raw() == group)
}

/// Without file modes, the permissions are inherited from the directory.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn refuse_others(_: &Metadata) -> io::Result<()> {
    Ok(())
}
