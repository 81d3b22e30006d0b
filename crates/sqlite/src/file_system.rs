//! File systems that pass calls on to a server.

use std::path::Path;

use crate::failure::ConnectError;

/// Refuses a file system that acknowledges writes before it stores them. Warns about one whose locks hold for one mount
/// only. The database may not exist yet.
#[cfg(target_os = "linux")]
pub(crate) fn check(database: &Path) -> Result<(), ConnectError> {
    use std::fs::File;

    use memory_tool_core::{ErrorKind, FileSystem};

    use crate::failure::OpenFailure;

    // SQLite reports what cannot be opened.
    let Some(above) = database.ancestors().skip(1).find_map(|above| File::open(above).ok()) else { return Ok(()) };
    match FileSystem::of(above)? {
        FileSystem::Deferring(name) => {
            let source = format!("the file system {name} may lose acknowledged writes: use a local disk").into();
            return Err(OpenFailure::Failed { kind: ErrorKind::Unsupported, source }.into());
        }
        FileSystem::OneMount(name) | FileSystem::Remote(name) => tracing::warn!(
            "locks on the file system {name} hold at most for programs that use this mount: let all programs use it"
        ),
        _ => {}
    }
    Ok(())
}

/// Other systems have no such interface.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_: &Path) -> Result<(), ConnectError> {
    Ok(())
}
