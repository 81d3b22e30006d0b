//! Work on large objects, which would block the other tasks of a thread.

use memory_tool_core::{ErrorKind, is_simulated};
use tokio::task::spawn_blocking;

use crate::failure::Failure;

/// The size in bytes from which an object is encoded and decoded on a thread for blocking work. This takes about a
/// millisecond.
const LARGE: usize = 256 * 1024;

/// Does work on `size` bytes, on a thread for blocking work if there are many.
pub(crate) async fn run_maybe_blocking<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if size < LARGE || is_simulated() {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|error| Failure::new(ErrorKind::Other, error))
}
