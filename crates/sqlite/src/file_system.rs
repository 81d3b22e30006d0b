//! Warns about file systems that pass calls on to a server: SQLite's locks hold for one mount only.

use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) fn warn_if_served(database: &Path) {
    // An unknown file system is reported when SQLite fails on it.
    if rustix::fs::statfs(database).is_ok_and(|found| linux::is_served(found.f_type)) {
        tracing::warn!(
            "the database is on a network or FUSE file system: let all programs use this mount, and use no rclone or \
             other mount of a bucket, which loses changes"
        );
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn warn_if_served(_: &Path) {}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::fs::FsWord;

    /// FUSE, NFS, SMB (three numbers), 9p, Ceph, AFS and Coda.
    const SERVED: [u32; 9] =
        [0x6573_5546, 0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x7375_7245];

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number has 32 bits")]
    pub(super) fn is_served(file_system: FsWord) -> bool {
        SERVED.contains(&(file_system as u32))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn local_disks_are_not_served() {
            for local in [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630] {
                assert!(!is_served(local), "{local:x}");
            }
            for served in [0x6573_5546, 0x6969, 0x0102_1997] {
                assert!(is_served(served), "{served:x}");
            }
        }
    }
}
