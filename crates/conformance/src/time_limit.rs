//! [`within`]: a time limit that a busy machine does not use up.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::time::sleep;

/// Short, so that a busy machine delays each tick.
const TICK: Duration = Duration::from_millis(10);

/// Waits for a future. Returns `None` if it does not end within the limit.
///
/// The limit is counted in ticks of this process. A machine that does not run the suite does not run the program under
/// test either, and the ticks are late by that time, so it does not count. A program that hangs on an idle machine gets
/// no more than the limit.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let ticks = async {
        let mut left = limit;
        while !left.is_zero() {
            let tick = left.min(TICK);
            sleep(tick).await;
            left -= tick;
        }
    };
    match select(pin!(future), pin!(ticks)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_limit_ends() {
        assert_eq!(within(3 * TICK, pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn time_in_which_the_process_does_not_run_does_not_count() {
        let limit = 5 * TICK;
        let slowly = async {
            std::thread::sleep(2 * limit);
            sleep(TICK / 2).await;
            std::thread::sleep(2 * limit);
            sleep(TICK / 2).await;
        };
        assert_eq!(within(limit, slowly).await, Some(()));
    }
}
