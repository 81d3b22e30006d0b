//! The file systems that need care.

/// Whether the system passes calls on to a server, another machine or another kernel.
#[cfg(target_os = "linux")]
pub(crate) fn is_served(magic: rustix::fs::FsWord) -> bool {
    /// FUSE, NFS, SMB (three numbers), 9p, Ceph, AFS and Coda, from `linux/magic.h`. A number is 32 bits long.
    const SERVED: [u32; 9] =
        [0x6573_5546, 0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x7375_7245];
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number is 32 bits long")]
    SERVED.contains(&(magic as u32))
}
