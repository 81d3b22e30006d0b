//! File systems that pass calls on to a server.

use std::io;

use cap_std::fs::Dir;

/// Refuses a file system that may lose acknowledged writes. Warns about one whose locks hold for one mount only.
#[cfg(target_os = "linux")]
pub(crate) fn check(base: &Dir) -> io::Result<()> {
    use memory_tool_core::FileSystem;

    match FileSystem::of(base)? {
        FileSystem::Remote(name) | FileSystem::Deferring(name) => {
            let message = format!(
                "the file system {name} may lose acknowledged writes: use a local disk. If only this machine uses the \
                 directory, and you accept that risk, open `file:DIR?trust_file_system=true`"
            );
            Err(io::Error::new(io::ErrorKind::Unsupported, message))
        }
        FileSystem::OneMount(name) => {
            tracing::warn!(
                "locks on the file system {name} hold only for programs that use this mount: let all programs use it"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Other systems have no such interface.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_: &Dir) -> io::Result<()> {
    Ok(())
}
