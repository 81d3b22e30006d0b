//! [`offload`]: computations that take long.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::block_in_place;

/// The processors that one tenant or memory can keep busy.
pub(crate) const PROCESSORS: usize = 1;

/// Runs a future that can compute for long between two waits, for example to parse a large body or to decode an image.
/// Other tasks of its thread move to another thread, so that no request of another tenant waits for it. Futures that
/// share `processors` compute one after another.
pub(crate) async fn offload<F: Future>(processors: Arc<Semaphore>, future: F) -> F::Output {
    let has_other_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut future = pin!(future);
    let mut taking = None;
    poll_fn(move |context| {
        let taken = taking.get_or_insert_with(|| Box::pin(Arc::clone(&processors).acquire_owned()));
        let _processor: Result<OwnedSemaphorePermit, _> = ready!(taken.as_mut().poll(context));
        taking = None;
        if has_other_threads { block_in_place(|| future.as_mut().poll(context)) } else { future.as_mut().poll(context) }
    })
    .await
}
