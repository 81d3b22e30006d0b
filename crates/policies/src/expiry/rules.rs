//! [`Rules`]: decides which files are expired, and which uses are recorded.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_core::StorePath;

/// The default resolution is the idle time divided by this.
const IDLE_TIME_DIVISOR: u64 = 24;
/// The maximum default resolution in seconds: one day.
const MAX_DEFAULT_RESOLUTION: u64 = 24 * 60 * 60;

/// The start of 2025. A clock with an earlier time was never set, and counts as [`UNKNOWN`].
const EARLIEST: u64 = 1_735_689_600;
/// The time of an unset clock. With it, no use is recorded and no file expires.
const UNKNOWN: u64 = 0;

/// Invalid options for an [`ExpiringStore`](crate::ExpiringStore).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpiryError {
    /// The idle time is zero.
    #[error("idle time must not be zero")]
    NoIdleTime,
    /// The resolution is zero or longer than the idle time.
    #[error("resolution must be greater than zero and no longer than the idle time")]
    Resolution,
}

/// A clock for [`SystemTime`] or the monotonic [`Instant`](std::time::Instant).
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

/// How a file is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    /// Read or written.
    Access,
    /// Listed or searched, which is not recorded as a use.
    Listing,
}

/// Whether a file is expired, and whether its use must be recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ExpiryState {
    /// Not expired, and there is no use to record.
    Recent,
    /// Not expired, and the use must be recorded.
    NeedsRecording,
    /// Expired, so invisible.
    Expired,
}

/// Expired files that are not removed yet because they are most files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) since: u64,
    /// Whether they may be removed now.
    pub(super) is_over: bool,
}

/// The idle time, resolution, pins and clock.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    idle_seconds: u64,
    resolution_seconds: u64,
    pins: Vec<StorePath>,
    clock: Clock<SystemTime>,
}

impl Rules {
    pub(super) fn new(
        idle_time: Duration,
        resolution: Option<Duration>,
        pins: Vec<StorePath>,
        clock: Clock<SystemTime>,
    ) -> Result<Self, ExpiryError> {
        let idle_seconds = whole_seconds(idle_time);
        if idle_seconds == 0 {
            return Err(ExpiryError::NoIdleTime);
        }
        let resolution_seconds = match resolution {
            None => (idle_seconds / IDLE_TIME_DIVISOR).clamp(1, MAX_DEFAULT_RESOLUTION),
            Some(resolution) => whole_seconds(resolution),
        };
        if resolution_seconds == 0 || resolution_seconds > idle_seconds {
            return Err(ExpiryError::Resolution);
        }
        Ok(Self { idle_seconds, resolution_seconds, pins, clock })
    }

    /// The time in seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        let now = self.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if now < EARLIEST { UNKNOWN } else { now }
    }

    /// Whether a sweep holds back expired files, and since when. It holds them if they are two or more, and more than
    /// half of the files that can expire, until they have been held for the resolution.
    pub(super) fn hold(&self, expired: usize, files: usize, since: Option<u64>, now: u64) -> Option<Hold> {
        if expired < 2 || expired <= files / 2 {
            return None;
        }
        let since = since.filter(|since| *since <= now).unwrap_or(now);
        Some(Hold { since, is_over: now - since >= self.resolution_seconds })
    }

    pub(super) fn resolution(&self) -> Duration {
        Duration::from_secs(self.resolution_seconds)
    }

    pub(super) fn is_pinned(&self, path: &StorePath) -> bool {
        self.pins.iter().any(|pin| path == pin || path.is_under(pin))
    }

    /// Returns the state of a file with the `recorded` time that is used at the time `now`.
    pub(super) fn state(&self, path: &StorePath, recorded: Option<u64>, used: Use, now: u64) -> ExpiryState {
        if self.is_pinned(path) {
            return ExpiryState::Recent;
        }
        match recorded {
            None if now == UNKNOWN => ExpiryState::Recent,
            None => ExpiryState::NeedsRecording,
            // Recorded with a clock that was ahead. Otherwise the file would not expire until then.
            Some(recorded) if recorded > now && now != UNKNOWN => ExpiryState::NeedsRecording,
            Some(recorded) if self.is_idle_too_long(recorded, now) => ExpiryState::Expired,
            Some(recorded) if used == Use::Access && age(recorded, now) >= self.resolution_seconds => {
                ExpiryState::NeedsRecording
            }
            Some(_) => ExpiryState::Recent,
        }
    }

    pub(super) fn is_expired(&self, path: &StorePath, recorded: u64, now: u64) -> bool {
        self.is_idle_too_long(recorded, now) && !self.is_pinned(path)
    }

    /// Whether a file with the `recorded` time has been idle for too long. Uses within the resolution are not recorded,
    /// so the last use may be later than `recorded` by that much.
    fn is_idle_too_long(&self, recorded: u64, now: u64) -> bool {
        age(recorded, now) >= self.idle_seconds.saturating_add(self.resolution_seconds)
    }
}

/// Returns zero for a time in the future.
fn age(recorded: u64, now: u64) -> u64 {
    now.saturating_sub(recorded)
}

/// Rounds up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
