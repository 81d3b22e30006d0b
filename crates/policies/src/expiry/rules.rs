//! [`Rules`]: when a file is idle for too long, and when its time is to be recorded.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_core::MemoryPath;

/// The default resolution is this part of the idle time.
const PARTS_OF_IDLE_TIME: u64 = 24;
/// The default resolution is a day at most.
const MAX_DEFAULT_RESOLUTION: u64 = 24 * 60 * 60;

/// A clock that shows an earlier time (2025 began then) was never set. It is taken as [`UNKNOWN`].
const EARLIEST: u64 = 1_735_689_600;
/// The time at which nothing is recorded, and nothing is expired.
const UNKNOWN: u64 = 0;

/// Why an [`ExpiringStore`](crate::ExpiringStore) cannot be built.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpiryError {
    /// Files would expire as soon as they are written.
    #[error("idle time must not be zero")]
    NoIdleTime,
    /// Access times that are coarser than the idle time would say nothing of it.
    #[error("resolution must be greater than zero and no longer than the idle time")]
    Resolution,
}

/// Tells the time: [`SystemTime`], which can be set, or [`Instant`](std::time::Instant), which only goes forward.
#[derive(Clone)]
pub(super) struct Clock<T>(Arc<dyn Fn() -> T + Send + Sync>);

impl<T> Clock<T> {
    pub(super) fn new(now: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(super) fn now(&self) -> T {
        (self.0)()
    }
}

impl<T> fmt::Debug for Clock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    /// It is read or written.
    Access,
    /// It is listed.
    Listing,
}

/// Whether a file is expired, and whether its time must be recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ExpiryState {
    /// It is there, and what is recorded will do.
    Settled,
    /// It is there, and the time is to be recorded.
    Due,
    /// It is gone.
    Expired,
}

/// When files expire.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    idle_seconds: u64,
    resolution_seconds: u64,
    pins: Vec<MemoryPath>,
    clock: Clock<SystemTime>,
}

impl Rules {
    pub(super) fn new(
        idle_time: Duration,
        resolution: Option<Duration>,
        pins: Vec<MemoryPath>,
        clock: Clock<SystemTime>,
    ) -> Result<Self, ExpiryError> {
        let idle_seconds = whole_seconds(idle_time);
        if idle_seconds == 0 {
            return Err(ExpiryError::NoIdleTime);
        }
        let resolution_seconds = match resolution {
            None => (idle_seconds / PARTS_OF_IDLE_TIME).clamp(1, MAX_DEFAULT_RESOLUTION),
            Some(resolution) => whole_seconds(resolution),
        };
        if resolution_seconds == 0 || resolution_seconds > idle_seconds {
            return Err(ExpiryError::Resolution);
        }
        Ok(Self { idle_seconds, resolution_seconds, pins, clock })
    }

    /// The time in whole seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        let now = self.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if now < EARLIEST { UNKNOWN } else { now }
    }

    pub(super) fn resolution(&self) -> Duration {
        Duration::from_secs(self.resolution_seconds)
    }

    pub(super) fn is_pinned(&self, path: &MemoryPath) -> bool {
        self.pins.iter().any(|pin| path == pin || path.is_under(pin))
    }

    /// What follows at the time `now` for a file that is used, from what is `recorded` of it.
    pub(super) fn state(&self, path: &MemoryPath, recorded: Option<u64>, used: Use, now: u64) -> ExpiryState {
        if self.is_pinned(path) {
            return ExpiryState::Settled;
        }
        match recorded {
            None if now == UNKNOWN => ExpiryState::Settled,
            None => ExpiryState::Due,
            Some(recorded) if self.is_over(recorded, now) => ExpiryState::Expired,
            Some(recorded) if used == Use::Access && age(recorded, now) >= self.resolution_seconds => ExpiryState::Due,
            Some(_) => ExpiryState::Settled,
        }
    }

    pub(super) fn is_expired(&self, path: &MemoryPath, recorded: u64, now: u64) -> bool {
        self.is_over(recorded, now) && !self.is_pinned(path)
    }

    /// Whether a file that was recorded then is idle for too long now. An access is not recorded while an earlier record is
    /// younger than the resolution, so the file may have been used that much later than the record says.
    fn is_over(&self, recorded: u64, now: u64) -> bool {
        age(recorded, now) >= self.idle_seconds.saturating_add(self.resolution_seconds)
    }
}

/// Zero for a time to come.
fn age(recorded: u64, now: u64) -> u64 {
    now.saturating_sub(recorded)
}

/// Rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
