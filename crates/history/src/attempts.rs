//! [`Attempts`]: an operation on the log tries again while others change it.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{ErrorKind, MAX_ATTEMPTS, StoreError};
use tokio::time::Instant;

use crate::hex::Id;
use crate::records::{self, READING, damaged};
use crate::tip::{Tip, is_outdated};

/// Replaces timeouts beyond the end of the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a session tries as any other, before it makes a claim.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// How long others wait for a claim.
const LEASE: Duration = Duration::from_secs(3);

/// The claims that an operation made and met.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// When the first attempt failed.
    pub(crate) lost: Option<Instant>,
    pub(crate) own: Option<Id>,
    /// The last claim of another session, and the time of its first read.
    pub(crate) met: Option<(Id, Instant)>,
}

impl Claims {
    pub(crate) fn is_due(&self) -> bool {
        self.lost.is_some_and(|lost| lost.elapsed() >= PATIENCE)
    }

    /// Whether to wait for a claim.
    pub(crate) fn respects(&mut self, claim: Id) -> bool {
        let met = self.met.filter(|(met, _)| *met == claim);
        let (_, since) = *self.met.insert(met.unwrap_or((claim, Instant::now())));
        self.own != Some(claim) && since.elapsed() < LEASE
    }
}

/// Attempts of an operation on the log.
#[derive(Debug)]
pub(crate) struct Attempts {
    made: usize,
    deadline: Instant,
    last: Option<Arc<Tip>>,
    pub(crate) claims: Claims,
}

impl Attempts {
    pub(crate) fn until(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            made: 0,
            deadline: now.checked_add(timeout).unwrap_or(now + MAX_TIMEOUT),
            last: None,
            claims: Claims::default(),
        }
    }

    pub(crate) fn has_seen(&self, tip: &Tip) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_same(tip))
    }

    /// Whether to try again after an error with this tip.
    ///
    /// # Errors
    /// The error itself, unless the log has changed since the last attempt. If it has not, a missing or unexpected
    /// record is damage. After too many attempts or the timeout, the store is busy.
    pub(crate) fn again(&mut self, tip: &Arc<Tip>, error: StoreError) -> Result<(), StoreError> {
        if !is_outdated(&error) {
            return Err(error);
        }
        self.count()?;
        // The end of the first attempt may be an old one, to which the store was restored since.
        let has_seen = self.made > 2 && self.has_seen(tip);
        match &error {
            StoreError::NotFound { path } if has_seen => return Err(damaged(format!("{path} is missing"))),
            StoreError::AlreadyExists { path } if has_seen => {
                return Err(damaged(format!("{path} exists, but the head of the history does not know it")));
            }
            _ => {}
        }
        // A claim changes the record of the head, and adds no entry, so this end may come again.
        let is_of_head = matches!(&error, StoreError::VersionMismatch { path } if *path == records::head());
        self.last = (!is_of_head).then(|| Arc::clone(tip));
        Ok(())
    }

    /// Counts an attempt that others made futile.
    ///
    /// # Errors
    /// The store is busy after too many of them, or after the timeout.
    pub(crate) fn count(&mut self) -> Result<(), StoreError> {
        if self.made >= MAX_ATTEMPTS {
            return Err(busy());
        }
        self.made += 1;
        self.claims.lost.get_or_insert_with(Instant::now);
        self.check_deadline()
    }

    pub(crate) fn check_deadline(&self) -> Result<(), StoreError> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(busy()) }
    }
}

fn busy() -> StoreError {
    StoreError::failure(ErrorKind::Busy, READING, "other sessions kept changing the memory")
}
