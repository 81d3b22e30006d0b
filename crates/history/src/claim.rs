//! Claims: a session that loses to others for long goes first.
//!
//! A large change, such as the restore of a directory, takes longer to prepare than a small one to write. So sessions
//! that write without a pause would outrun it for ever. Such a session writes a claim into the record of the head. Each
//! batch requires this record, so all others read the claim, and wait for its removal. A claim only asks: after a
//! timeout, for example because its process was killed, the next change removes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_tool_core::{Batch, Store, StoreError};

use crate::hex::Id;
use crate::log::{Attempts, Log, Tip, is_outdated};
use crate::records::{self, HeadRecord};

/// How long a session tries as any other, before it makes a claim.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long others wait for a claim.
const LEASE: Duration = Duration::from_secs(3);

/// The first pause between two reads of a claim. Each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(160);

/// The claims that an operation made and met.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// When the first attempt failed.
    lost: Option<Instant>,
    own: Option<Id>,
    /// The last claim of another session, and the time of its first read.
    met: Option<(Id, Instant)>,
}

impl Claims {
    /// An attempt failed.
    pub(crate) fn lose(&mut self) {
        self.lost.get_or_insert_with(Instant::now);
    }

    fn is_due(&self) -> bool {
        self.lost.is_some_and(|lost| lost.elapsed() >= PATIENCE)
    }

    /// Whether to wait for a claim.
    fn respects(&mut self, claim: Id) -> bool {
        let met = self.met.filter(|(met, _)| *met == claim);
        let (_, since) = *self.met.insert(met.unwrap_or((claim, Instant::now())));
        self.own != Some(claim) && since.elapsed() < LEASE
    }
}

impl<S: Store> Log<S> {
    /// The end of the log for a change, after sessions that go first.
    pub(crate) async fn turn(&self, attempts: &mut Attempts) -> Result<Arc<Tip>, StoreError> {
        self.turn_after(self.load().await?, attempts).await
    }

    /// This end of the log for a change, or a later one after sessions that go first.
    pub(crate) async fn turn_after(&self, mut tip: Arc<Tip>, attempts: &mut Attempts) -> Result<Arc<Tip>, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match tip.claim {
                Some(claim) if attempts.claims.respects(claim) => {
                    attempts.check_deadline()?;
                    tokio::time::sleep(pause).await;
                    pause = MAX_PAUSE.min(pause * 2);
                }
                None if tip.has_history() && attempts.claims.is_due() => {
                    attempts.check_deadline()?;
                    attempts.claims.own = self.claim(&tip).await?;
                }
                _ => return Ok(tip),
            }
            tip = self.load().await?;
        }
    }

    /// Makes a claim. `None` if another session changed the head first.
    async fn claim(&self, tip: &Tip) -> Result<Option<Id>, StoreError> {
        let claim = Some(Id::random()?);
        match self.write_claim(tip, claim).await {
            Err(error) if is_outdated(&error) => Ok(None),
            written => written.map(|()| claim),
        }
    }

    /// Takes a claim back after an operation that changed nothing. Without success, others wait for its end.
    pub(crate) async fn unclaim(&self, attempts: &Attempts) {
        if attempts.claims.own.is_some()
            && let Ok(tip) = self.load().await
            && tip.claim == attempts.claims.own
        {
            self.write_claim(&tip, None).await.ok();
        }
    }

    async fn write_claim(&self, tip: &Tip, claim: Option<Id>) -> Result<(), StoreError> {
        let record = HeadRecord { head: tip.head.clone(), claim };
        let batch = tip.require_head(Batch::new()).write(records::head(), records::to_json(&record)?);
        let written = self.store.apply(batch).await;
        self.replace_tip(tip, None);
        written
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use memory_tool_core::{InMemoryStore, StoreExt as _};

    use crate::store::HistoryStore;

    #[tokio::test]
    async fn the_claim_of_a_session_that_was_killed_goes_away() {
        let session = HistoryStore::new(InMemoryStore::new());
        session.write("/memories/a", "one").await.unwrap();
        let log = session.log();
        assert!(log.claim(&log.load().await.unwrap()).await.unwrap().is_some());
        assert!(log.load().await.unwrap().claim.is_some());
        session.write("/memories/a", "two").await.unwrap();
        assert_eq!(log.load().await.unwrap().claim, None);
        assert_eq!(session.history().verify().await.unwrap().damage, Vec::<String>::new());
    }
}
