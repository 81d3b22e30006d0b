//! The directory that holds all that the servers need and leave.

use std::env;
use std::path::{Path, PathBuf};

/// `servers` in the target directory of cargo: what is installed, and beneath `run` the output of every server.
///
/// `MEMORY_TOOL_TEST_SERVERS` names another, for several checkouts to share.
pub(crate) fn directory() -> PathBuf {
    match env::var_os("MEMORY_TOOL_TEST_SERVERS") {
        Some(directory) => directory.into(),
        None => target().join("servers"),
    }
}

/// The target directory that the running program was built into: cargo marks it as a cache.
fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}
