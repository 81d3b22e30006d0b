//! Work on a large index, which would block the other tasks of a thread.

use memory_tool_core::FailureKind;
use tokio::task::spawn_blocking;

use crate::failure::Failure;

/// The size in bytes from which an index is read and written on a thread for blocking work: about a millisecond of it.
const LARGE: usize = 256 * 1024;

/// Does work on `size` bytes: here, or on a thread for blocking work if they are many.
pub(crate) async fn run_maybe_blocking<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if size < LARGE {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|error| Failure::new(FailureKind::Other, error))
}
