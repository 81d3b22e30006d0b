//! The directory of installed servers and their output.

use std::env;
use std::path::{Path, PathBuf};

/// Returns `servers` in cargo's target directory. The output of the servers is in its subdirectory `run`.
///
/// `MEMORY_TOOL_TEST_SERVERS` overrides the path, so that several checkouts can share it.
pub(crate) fn directory() -> PathBuf {
    match env::var_os("MEMORY_TOOL_TEST_SERVERS") {
        Some(directory) => directory.into(),
        None => target().join("servers"),
    }
}

/// Returns the target directory of the running program, which cargo marks as a cache.
fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}
