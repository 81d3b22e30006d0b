//! [`Retries`]: exponential backoff for requests.

use std::time::Duration;

/// The maximum of the first delay. It doubles with each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The maximum of a delay, unless the API requests a longer one.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The maximum of all delays for one response together.
pub(crate) const MAX_TOTAL_DELAY: Duration = Duration::from_mins(5);

/// The remaining attempts of a request.
#[derive(Debug)]
pub(crate) struct Retries {
    left: u32,
    total: Duration,
    next: Duration,
}

impl Retries {
    /// Allows this number of attempts after the first one.
    pub(crate) fn new(number: u32) -> Self {
        Self { left: number, total: Duration::ZERO, next: FIRST_DELAY }
    }

    /// The delay before the next attempt, or `None` after the last one.
    ///
    /// # Behavior
    /// 1. A delay that the API requests is used without changes.
    /// 2. Otherwise half of the delay is fixed, and `jitter`, from 0 to 1, scales the other half, so that clients that
    ///    failed at the same time do not retry at the same time.
    /// 3. Returns `None` once the delays together exceed the maximum.
    pub(crate) fn next_delay(&mut self, requested: Option<Duration>, jitter: f64) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let delay = requested.unwrap_or_else(|| self.next.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0));
        self.next = (self.next * 2).min(MAX_DELAY);
        self.total = self.total.saturating_add(delay);
        (self.total <= MAX_TOTAL_DELAY).then_some(delay)
    }
}

/// A random number from 0 to 1.
pub(crate) fn random_jitter() -> f64 {
    // Without random numbers, the delays are the longest.
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut retries = Retries::new(9);
        let delays: Vec<_> =
            std::iter::from_fn(|| retries.next_delay(None, 1.0)).map(|delay| delay.as_millis()).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn delays_end_at_the_maximum_of_all_together() {
        let mut retries = Retries::new(u32::MAX);
        let delays: Duration = std::iter::from_fn(|| retries.next_delay(None, 1.0)).sum();
        assert!(delays <= MAX_TOTAL_DELAY && delays > MAX_TOTAL_DELAY - MAX_DELAY, "{delays:?}");
        assert_eq!(Retries::new(9).next_delay(Some(MAX_TOTAL_DELAY + FIRST_DELAY), 0.0), None);
        assert_eq!(Retries::new(9).next_delay(Some(Duration::MAX), 0.0), None);
    }

    #[test]
    fn a_requested_delay_is_used() {
        let requested = Duration::from_secs(42);
        assert_eq!(Retries::new(1).next_delay(Some(requested), 1.0), Some(requested));
        assert_eq!(Retries::new(0).next_delay(Some(requested), 1.0), None);
    }

    #[test]
    fn jitter_removes_up_to_half_of_the_delay() {
        assert_eq!(Retries::new(1).next_delay(None, 0.0), Some(FIRST_DELAY / 2));
        assert!((0.0..=1.0).contains(&random_jitter()));
    }
}
