//! [`offload`]: computations that take long.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs a future that can compute for long between two waits, for example to parse a large body or to decode an image.
/// Other tasks of its thread move to another thread, so that no request of another tenant waits for it.
pub(crate) async fn offload<F: Future>(future: F) -> F::Output {
    let has_other_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut future = pin!(future);
    poll_fn(|context| match has_other_threads {
        true => block_in_place(|| future.as_mut().poll(context)),
        false => future.as_mut().poll(context),
    })
    .await
}
