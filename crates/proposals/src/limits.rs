//! [`WaitingLimits`]: how much may wait in one proposal.

use std::time::{Duration, SystemTime};

use memory_tool_core::{StoreError, StorePath};

use crate::records::Index;

/// The policy of refusals.
const POLICY: &str = "proposals";

/// How much may wait in one proposal, and for how long.
///
/// ```
/// use memory_tool_proposals::WaitingLimits;
///
/// assert_eq!(WaitingLimits::new().files(20).files, 20);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WaitingLimits {
    /// The number of files that are changed. Default: 1,000.
    pub files: usize,
    /// The total size of their texts before and after the changes, in bytes. Default: 16 MiB.
    pub bytes: u64,
    /// The age of the first change after which no more are made, until a person takes or drops some. Default: 30 days.
    pub age: Duration,
}

impl Default for WaitingLimits {
    fn default() -> Self {
        Self { files: 1_000, bytes: 16 * 1024 * 1024, age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl WaitingLimits {
    /// The default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of files.
    #[must_use]
    pub fn files(mut self, files: usize) -> Self {
        self.files = files;
        self
    }

    /// Sets the total size in bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the age.
    #[must_use]
    pub fn age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// Whether a proposal that began at this time waits too long.
    pub fn are_exceeded_since(&self, created: SystemTime) -> bool {
        created.elapsed().is_ok_and(|age| age > self.age)
    }

    /// Refuses an index beyond the limits, unless the change makes it smaller. The model does not learn that its
    /// words wait.
    pub(crate) fn check(&self, before: &Index, after: &Index, path: &StorePath) -> Result<(), StoreError> {
        let refused =
            |limit: String| Err(StoreError::refused(path, POLICY, format!("No more {limit} can be changed.")));
        if after.files.len() > self.files.max(before.files.len()) {
            return refused(format!("than {} files", self.files));
        }
        if after.bytes() > self.bytes.max(before.bytes()) {
            return refused(format!("than {} bytes", self.bytes));
        }
        let is_less = after.files.len() < before.files.len();
        if !before.files.is_empty() && !is_less && self.are_exceeded_since(before.created()) {
            return Err(StoreError::refused(path, POLICY, "No more files can be changed now."));
        }
        Ok(())
    }
}
