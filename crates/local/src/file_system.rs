//! File systems that pass calls on to a server.

#[cfg(target_os = "linux")]
pub(crate) use linux::{check, is_served};

/// Other systems have no such interface.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_: &cap_std::fs::Dir) -> std::io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use cap_std::fs::Dir;
    use rustix::fs::{FsWord, fstatfs};

    use crate::disk;

    const FUSE: u32 = 0x6573_5546;
    /// NFS, SMB (three numbers), 9p, Ceph, AFS and Coda.
    const REMOTE: [u32; 8] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x7375_7245];

    /// The servers of FUSE that acknowledge writes before a bucket or another machine has them.
    const REFUSED_SERVERS: [&str; 11] = [
        "rclone",
        "s3fs",
        "gcsfuse",
        "goofys",
        "geesefs",
        "mountpoint-s3",
        "blobfuse",
        "blobfuse2",
        "davfs",
        "davfs2",
        "curlftpfs",
    ];

    /// The suitability of a file system.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    enum Verdict {
        Works,
        /// Locks hold only for programs that use the same mount.
        OneMount,
        Refused,
    }

    /// Refuses a file system that may lose acknowledged writes. Warns about one whose locks hold for one mount only.
    pub(crate) fn check(base: &Dir) -> io::Result<()> {
        let magic = magic(fstatfs(base)?.f_type);
        if !is_served_magic(magic) {
            return Ok(());
        }
        let name = mount_type(base).unwrap_or_default();
        match verdict(magic, &name) {
            Verdict::Works => {}
            Verdict::OneMount => tracing::warn!(
                "locks on the file system {name} hold only for programs that use this mount: let all programs use it"
            ),
            Verdict::Refused => {
                let message = format!(
                    "the file system {name} may lose acknowledged writes: use a local disk. If only this machine uses \
                     the directory, and you accept that risk, open `file:DIR?trust_file_system=true`"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
        }
        Ok(())
    }

    fn verdict(magic: u32, name: &str) -> Verdict {
        match name.split_once('.') {
            _ if magic != FUSE => Verdict::Refused,
            Some((_, server)) if REFUSED_SERVERS.contains(&server) => Verdict::Refused,
            // The kernel mounts a device only once.
            None if name == "fuseblk" => Verdict::Works,
            Some(("fuseblk", _)) => Verdict::Works,
            _ => Verdict::OneMount,
        }
    }

    /// The type of the file system of a directory, such as `fuse.sshfs`; `None` if the system does not return it.
    fn mount_type(directory: &Dir) -> Option<String> {
        let mount = disk::mount_of(directory).ok()??.to_string();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = mounts.lines().find(|line| line.split(' ').next() == Some(&mount))?;
        line.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
    }

    /// Whether the system passes calls on to a server, another machine or another kernel.
    pub(crate) fn is_served(file_system: FsWord) -> bool {
        is_served_magic(magic(file_system))
    }

    fn is_served_magic(magic: u32) -> bool {
        magic == FUSE || REMOTE.contains(&magic)
    }

    /// The number from `linux/magic.h`, which has 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number has 32 bits")]
    fn magic(file_system: FsWord) -> u32 {
        file_system as u32
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_file_system_that_may_lose_writes_is_refused() {
            for name in ["fuse.rclone", "fuse.s3fs", "fuse.gcsfuse"] {
                assert_eq!(verdict(FUSE, name), Verdict::Refused, "{name}");
            }
            for name in ["fuse", "fuse.sshfs", "fuse.gocryptfs", "virtiofs", ""] {
                assert_eq!(verdict(FUSE, name), Verdict::OneMount, "{name}");
            }
            assert_eq!(verdict(FUSE, "fuseblk"), Verdict::Works);
            for magic in REMOTE {
                assert_eq!(verdict(magic, ""), Verdict::Refused, "{magic:x}");
            }
        }
    }
}
