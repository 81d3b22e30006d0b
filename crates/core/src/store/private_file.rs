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
    if !is_private(mode, (metadata.uid(), metadata.gid()), is_own_group) {
        let message = format!("mode {mode:03o} gives other users access: run `chmod 600` on it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

#[cfg(unix)]
fn is_private(mode: u32, owner: (u32, u32), is_own_group: impl Fn(u32) -> bool) -> bool {
    mode & 0o077 == 0 || mode == 0o440 && (owner == (0, 0) || is_own_group(owner.1))
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_root_and_its_group_is_private_if_it_is_read_only() {
        let is_private = |mode, owner| is_private(mode, owner, |group| group == 7);
        assert!(is_private(0o440, (0, 0)) && is_private(0o440, (5, 7)) && is_private(0o600, (5, 5)));
        assert!(!is_private(0o440, (0, 5)) && !is_private(0o440, (5, 0)) && !is_private(0o640, (0, 0)));
    }
}
