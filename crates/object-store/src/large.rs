//! Work on a large index, which would keep the other tasks of a thread waiting.

use memory_tool_core::FailureKind;
use tokio::task::spawn_blocking;

use crate::failure::Failure;

/// The size in bytes from which on an index is read and written on a thread for such work: about a millisecond of it.
const LARGE: usize = 256 * 1024;

/// Does work on so many bytes where it keeps nobody waiting.
pub(crate) async fn off_the_thread_if_large<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if size < LARGE {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|error| Failure::new(FailureKind::Other, error))
}
