//! [`Limits`]: how much history is kept.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::entry::millis;

/// The entries of a block, which are removed at once.
pub(crate) const BLOCK: u64 = 64;

/// How much history is kept. A change that exceeds a limit removes the oldest 64 entries with their contents.
///
/// The limits are stored with the history and apply to all sessions until one sets others. Entries that are in no
/// block of 64 yet do not count, and the newest block stays, so that up to 127 entries more can exist.
///
/// ```
/// use std::time::Duration;
///
/// use memory_tool_history::Limits;
///
/// let limits = Limits::new().age(Duration::from_secs(30 * 24 * 60 * 60)).changes(1_000);
/// assert_ne!(limits, Limits::default());
/// ```
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[must_use]
pub struct Limits {
    age: Option<Duration>,
    changes: Option<u64>,
    bytes: Option<u64>,
}

impl Limits {
    /// The default limits: 100,000 changes and 256 MiB, of any age.
    pub fn new() -> Self {
        Self { age: None, changes: Some(100_000), bytes: Some(256 * 1024 * 1024) }
    }

    /// The age at which a block of entries is removed. `None` is no limit.
    pub fn age(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.age = age.into();
        self
    }

    /// The number of changes to keep. `None` is no limit.
    pub fn changes(mut self, changes: impl Into<Option<u64>>) -> Self {
        self.changes = changes.into();
        self
    }

    /// The stored size of the history. `None` is no limit.
    pub fn bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.bytes = bytes.into();
        self
    }

    /// The number of blocks to remove, from the oldest. The newest one stays. `blocks` are the time of the newest entry
    /// and the size of each.
    pub(crate) fn exceeded(&self, blocks: &[(u64, u64)], now: SystemTime) -> usize {
        let mut bytes = blocks.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let mut entries = blocks.len() as u64 * BLOCK;
        let oldest = self.age.and_then(|age| now.checked_sub(age)).map(millis);
        let exceeds = |(until, size): &&(u64, u64)| {
            let is_old = oldest.is_some_and(|oldest| *until < oldest);
            let has_too_many = self.changes.is_some_and(|limit| entries - BLOCK >= limit);
            let exceeds = is_old || has_too_many || self.bytes.is_some_and(|limit| bytes > limit);
            (bytes, entries) = (bytes.saturating_sub(*size), entries - BLOCK);
            exceeds
        };
        blocks.iter().take(blocks.len().saturating_sub(1)).take_while(exceeds).count()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}
