//! Noticing that the log was removed, or replaced by an older copy of the bucket, under an open session.
//!
//! A free number proves that no commit is newer only while the commit before it exists. A session therefore checks,
//! together with a poll, two commits: its last one, and the one that was its last at the check before. The second
//! matters to a busy session, whose next commit can follow a gap, and is then itself the last one.

use std::time::Duration;

use futures::future::try_join;
use memory_tool_core::lock;

use crate::blocking::run_maybe_blocking;
use crate::bucket::Revalidated;
use crate::contact::{Check, Seen};
use crate::deadline::Deadline;
use crate::digest::Digest;
use crate::failure::Failure;
use crate::format::{Damage, MAX_COMMIT_BYTES};
use crate::inner::Inner;

/// The time after a check until a poll checks again, unless so many round trips take longer. No operator replaces the
/// log faster, and a writer without a pause waits little for the checks.
const CHECK_AFTER: (Duration, u32) = (Duration::from_millis(100), 32);

impl Inner {
    /// Whether the next poll checks the log.
    pub(crate) fn is_check_due(&self) -> bool {
        let (least, round_trips) = CHECK_AFTER;
        let pause = least.max(self.contention.round_trip() * round_trips);
        lock(&self.contact.0).as_ref().is_some_and(|check| check.at.elapsed() >= pause)
    }

    /// Checks that the log still has the known commits, if it is time. Otherwise it was removed or replaced, or these
    /// commits were trimmed.
    pub(crate) async fn has_kept_log(&self, deadline: &Deadline) -> Result<bool, Failure> {
        if !self.is_check_due() {
            return Ok(true);
        }
        let Some(Check { last: before, .. }) = lock(&self.contact.0).clone() else { return Ok(true) };
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

    /// Continues from the present log, which lacks commits that the session knows. If another task has changed the
    /// state since, only a later one replaces it.
    pub(crate) async fn continue_from_log(&self, deadline: &Deadline) -> Result<(), Failure> {
        loop {
            let known = Seen::last_of(&self.state());
            let lost = || Damage::Missing { key: self.bucket.keys.commit(known.number).to_string() };
            let found = self.load_to_end(None, deadline).await?.ok_or_else(lost)?;
            let mut state = self.state_mut();
            state.refuse_other(&found, &self.bucket.keys)?;
            if Seen::last_of(&state).is_same(&known) || found.number >= state.number {
                self.contact.now(&found);
                *state = found;
                return Ok(());
            }
        }
    }
}
