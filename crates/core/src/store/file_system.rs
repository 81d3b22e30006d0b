//! [`FileSystem`]: the promises of a file system about writes and locks.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FsWord, StatxFlags, fstatfs, statx};

const FUSE: u32 = 0x6573_5546;
/// NFS, SMB (three numbers), 9p, Ceph, AFS and Coda.
const REMOTE: [u32; 8] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x7375_7245];

/// The servers of FUSE that acknowledge writes before a bucket or another machine has them.
const DEFERRING: [&str; 11] = [
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

/// The promises of a file system about writes and locks, from its type. Only on Linux.
///
/// A backend that keeps files warns about [`OneMount`](Self::OneMount), and refuses what may lose acknowledged writes.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FileSystem {
    /// A flush reaches the disk, and all programs of this machine share locks.
    Local,
    /// A FUSE server, with its type, such as `fuse.sshfs`. Only programs that use the same mount share locks.
    OneMount(String),
    /// Another machine or another kernel, with the type, such as `nfs4` or `9p`. It may ignore locks.
    Remote(String),
    /// A FUSE server that acknowledges writes before it stores them, with its type, such as `fuse.rclone`.
    Deferring(String),
}

impl FileSystem {
    /// The file system of an open file or directory.
    ///
    /// # Errors
    /// If the system does not return it.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let magic = magic(fstatfs(&file)?.f_type);
        Ok(if is_served(magic) { Self::of_type(magic, mount_type(file).unwrap_or_default()) } else { Self::Local })
    }

    /// Whether calls are passed on to a server, another machine or another kernel. `syncfs` may then have no effect.
    ///
    /// # Errors
    /// If the system does not return the type.
    pub fn is_served(file: impl AsFd) -> io::Result<bool> {
        Ok(is_served(magic(fstatfs(file)?.f_type)))
    }

    fn of_type(magic: u32, name: String) -> Self {
        match name.split_once('.') {
            _ if magic != FUSE => Self::Remote(name),
            Some((_, server)) if DEFERRING.contains(&server) => Self::Deferring(name),
            // The kernel mounts a device only once.
            None if name == "fuseblk" => Self::Local,
            Some(("fuseblk", _)) => Self::Local,
            _ => Self::OneMount(name),
        }
    }
}

fn is_served(magic: u32) -> bool {
    magic == FUSE || REMOTE.contains(&magic)
}

/// The number from `linux/magic.h`, which has 32 bits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number has 32 bits")]
fn magic(file_system: FsWord) -> u32 {
    file_system as u32
}

/// The type of the mount of a file, such as `fuse.sshfs`; `None` if the system does not return it.
fn mount_type(file: impl AsFd) -> Option<String> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let has_mount = found.stx_mask & StatxFlags::MNT_ID.bits() != 0; // since Linux 5.8
    let mount = has_mount.then(|| found.stx_mnt_id.to_string())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&mount))?;
    line.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_decides() {
        let of_type = |magic, name: &str| FileSystem::of_type(magic, name.to_owned());
        for name in ["fuse.rclone", "fuse.s3fs", "fuse.gcsfuse"] {
            assert_eq!(of_type(FUSE, name), FileSystem::Deferring(name.to_owned()));
        }
        for name in ["fuse", "fuse.sshfs", "fuse.gocryptfs", "virtiofs", ""] {
            assert_eq!(of_type(FUSE, name), FileSystem::OneMount(name.to_owned()));
        }
        assert_eq!(of_type(FUSE, "fuseblk"), FileSystem::Local);
        for magic in REMOTE {
            assert_eq!(of_type(magic, ""), FileSystem::Remote(String::new()), "{magic:x}");
        }
    }

    #[test]
    fn the_system_returns_the_type_of_a_mount() {
        let opened = std::fs::File::open("/proc").unwrap();
        assert_eq!(mount_type(&opened).as_deref(), Some("proc"));
        assert_eq!(FileSystem::of(opened).unwrap(), FileSystem::Local);
    }
}
