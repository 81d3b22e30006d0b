//! [`Retries`]: how often a request is sent again, and after how long.

use std::time::Duration;

/// The longest that the first wait lasts. Each one after it may last twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest that a wait lasts, unless the API asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest that all waits for one response last together.
pub(crate) const LONGEST_IN_ALL: Duration = Duration::from_mins(5);

/// The attempts that are left for one request.
#[derive(Debug)]
pub(crate) struct Retries {
    left: u32,
    waited: Duration,
    next: Duration,
}

impl Retries {
    /// So many after the first attempt.
    pub(crate) fn new(number: u32) -> Self {
        Self { left: number, waited: Duration::ZERO, next: FIRST_WAIT }
    }

    /// How long to wait before the next attempt; `None` where there is to be none.
    ///
    /// # Behavior
    /// 1. What the API asks for is what is waited, and no shorter.
    /// 2. Otherwise half of the wait is fixed and `chance`, from 0 to 1, is the part of the other half, so that clients that were
    ///    refused at once do not come back at once.
    /// 3. There is no attempt after a wait that the time in all does not hold.
    pub(crate) fn next_wait(&mut self, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let wait = asked.unwrap_or_else(|| self.next.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0));
        self.next = (self.next * 2).min(LONGEST_WAIT);
        self.waited = self.waited.saturating_add(wait);
        (self.waited <= LONGEST_IN_ALL).then_some(wait)
    }
}

/// A number from 0 to 1 by chance.
pub(crate) fn chance() -> f64 {
    // Without any, all waits are the longest: that is as safe.
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_end() {
        let mut retries = Retries::new(9);
        let waits: Vec<_> = std::iter::from_fn(|| retries.next_wait(None, 1.0)).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn all_waits_together_have_a_bound() {
        let mut retries = Retries::new(u32::MAX);
        let waits: Duration = std::iter::from_fn(|| retries.next_wait(None, 1.0)).sum();
        assert!(waits <= LONGEST_IN_ALL && waits > LONGEST_IN_ALL - LONGEST_WAIT, "{waits:?}");
        assert_eq!(Retries::new(9).next_wait(Some(LONGEST_IN_ALL + FIRST_WAIT), 0.0), None);
        assert_eq!(Retries::new(9).next_wait(Some(Duration::MAX), 0.0), None);
    }

    #[test]
    fn what_the_api_asks_for_is_waited() {
        let asked = Duration::from_secs(42);
        assert_eq!(Retries::new(1).next_wait(Some(asked), 1.0), Some(asked));
        assert_eq!(Retries::new(0).next_wait(Some(asked), 1.0), None);
    }

    #[test]
    fn chance_takes_up_to_half() {
        assert_eq!(Retries::new(1).next_wait(None, 0.0), Some(FIRST_WAIT / 2));
        assert!((0.0..=1.0).contains(&chance()));
    }
}
