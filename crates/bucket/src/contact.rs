//! [`Contact`]: notices that the log of a session was removed, or replaced by an older copy of the bucket.
//!
//! A free number proves that no commit is newer only while the commit before it exists. A session therefore checks,
//! together with a poll, two commits: its last one, and the one that was its last at the check before. The second
//! matters to a busy session, whose next commit can follow a gap, and is then itself the last one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::try_join;
use tokio::time::Instant;

use crate::blocking::run_maybe_blocking;
use crate::bucket::Revalidated;
use crate::commit::MAX_COMMIT_BYTES;
use crate::deadline::Deadline;
use crate::digest::Digest;
use crate::failure::Failure;
use crate::format::Damage;
use crate::inner::Inner;
use crate::state::State;

/// The time after a check until a poll checks again, unless so many round trips take longer. No operator replaces the
/// log faster, and a writer without a pause waits little for the checks.
const CHECK_AFTER: (Duration, u32) = (Duration::from_millis(100), 32);

/// The last check of a session.
#[derive(Debug, Default)]
pub(crate) struct Contact(Mutex<Option<Check>>);

#[derive(Clone, Debug)]
struct Check {
    at: Instant,
    last: Seen,
}

/// A commit that was in the log.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    number: u64,
    digest: Digest,
    /// The entity tag of its object, if it is known.
    tag: Option<String>,
}

impl Seen {
    fn last_of(state: &State) -> Self {
        Self { number: state.number, digest: state.commit, tag: None }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.number, self.digest) == (other.number, other.digest)
    }
}

impl Contact {
    fn lock(&self) -> MutexGuard<'_, Option<Check>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the last commit of a state is in the log.
    pub(crate) fn now(&self, state: &State) {
        self.passed(Seen::last_of(state));
    }

    fn passed(&self, last: Seen) {
        *self.lock() = Some(Check { at: Instant::now(), last });
    }
}

impl Inner {
    /// Whether the next poll checks the log.
    pub(crate) fn is_check_due(&self) -> bool {
        let (least, round_trips) = CHECK_AFTER;
        let pause = least.max(self.contention.round_trip() * round_trips);
        self.contact.lock().as_ref().is_some_and(|check| check.at.elapsed() >= pause)
    }

    /// Checks that the log still has the known commits, if it is time. Otherwise it was removed or replaced, or these
    /// commits were trimmed.
    pub(crate) async fn has_kept_log(&self, deadline: &Deadline) -> Result<bool, Failure> {
        if !self.is_check_due() {
            return Ok(true);
        }
        let Some(Check { last: before, .. }) = self.contact.lock().clone() else { return Ok(true) };
        let last = Seen::last_of(&self.state());
        let kept = if before.is_same(&last) {
            self.revalidate(before, deadline).await?
        } else {
            let (before, last) = try_join(self.revalidate(before, deadline), self.revalidate(last, deadline)).await?;
            before.and(last)
        };
        let is_kept = kept.is_some();
        if let Some(last) = kept {
            self.contact.passed(last);
        }
        Ok(is_kept)
    }

    /// The commit with the tag of its object, if it is still in the log.
    async fn revalidate(&self, mut commit: Seen, deadline: &Deadline) -> Result<Option<Seen>, Failure> {
        let key = self.bucket.keys.commit(commit.number);
        match self.bucket.revalidate(&key, commit.tag.as_deref(), MAX_COMMIT_BYTES, deadline).await? {
            Revalidated::Missing => Ok(None),
            Revalidated::Unchanged => Ok(Some(commit)),
            Revalidated::Read { bytes, tag } => {
                commit.tag = tag;
                let digest = run_maybe_blocking(bytes.len(), move || Digest::of(&bytes)).await?;
                Ok((digest == commit.digest).then_some(commit))
            }
        }
    }

    /// Continues from the present log, which lacks commits that the session knows.
    pub(crate) async fn continue_from_log(&self, deadline: &Deadline) -> Result<(), Failure> {
        let known = self.state().number;
        let lost = || Damage::Missing { key: self.bucket.keys.commit(known).to_string() };
        let found = self.load_to_end(None, deadline).await?.ok_or_else(lost)?;
        let mut state = self.state_mut();
        state.refuse_other(&found, &self.bucket.keys)?;
        self.contact.now(&found);
        *state = found;
        Ok(())
    }
}
