//! Claims: a session that loses to others for long goes first.
//!
//! A large change, such as the restore of a directory, takes longer to prepare than a small one to write. So sessions
//! that write without a pause would outrun it for ever. Such a session writes a claim into the record of the head. Each
//! batch requires this record, so all others read the claim, and wait for its removal. A claim only asks: after a
//! timeout, for example because its process was killed, the next change removes it.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Batch, Store, StoreError};

use crate::attempts::Attempts;
use crate::hex::Id;
use crate::log::Log;
use crate::records::{self, HeadRecord};
use crate::tip::{Tip, is_outdated};

/// The first pause between two reads of a claim. Each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(160);

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
                    let Ok(own) = self.claim(&tip).await else { return Ok(tip) };
                    attempts.claims.own = own;
                }
                _ => return Ok(tip),
            }
            tip = self.load().await?;
        }
    }

    /// Makes a claim. `None` if another session changed the head first. The operation does not depend on a claim, so
    /// the caller ignores other errors.
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
mod tests {
    use async_trait::async_trait;
    use memory_tool_core::{Change, ErrorKind, InMemoryStore, Node, ReadOptions, StoreExt as _, StorePath};

    use tokio::time::Instant;

    use super::*;
    use crate::attempts::PATIENCE;
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

    /// A store that refuses claims.
    #[derive(Debug)]
    struct NoClaims(InMemoryStore);

    #[async_trait]
    impl Store for NoClaims {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            self.0.read_opts(path, options).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            match batch.changes() {
                [Change::Write { path, .. }] if *path == records::head() => {
                    Err(StoreError::failure(ErrorKind::OutcomeUnknown, "writing", "the connection was lost"))
                }
                _ => self.0.apply(batch).await,
            }
        }
    }

    #[tokio::test]
    async fn an_operation_does_not_fail_with_its_claim() {
        let session = HistoryStore::new(NoClaims(InMemoryStore::new()));
        session.write("/memories/a", "one").await.unwrap();
        let mut attempts = session.log().attempts();
        attempts.claims.lost = Instant::now().checked_sub(PATIENCE);
        assert_eq!(session.log().turn(&mut attempts).await.unwrap().next, 2);
    }

    /// A claim changes the record of the head without an entry, so the same end of the log can be lost twice.
    #[tokio::test]
    async fn a_claim_between_two_lost_attempts_is_no_damage() {
        let inner = Arc::new(InMemoryStore::new());
        let (late, other) = (HistoryStore::new(Arc::clone(&inner)), HistoryStore::new(inner));
        late.write("/memories/a", "one").await.unwrap();
        let (log, mut attempts, mut others) = (late.log(), late.log().attempts(), other.log().attempts());
        let lost = async |tip: &Tip| {
            let batch = Batch::new().write(records::single(log.load().await.unwrap().next), "");
            log.store.apply(tip.require(batch)).await.unwrap_err()
        };
        let first = log.load().await.unwrap();
        others.claims.own = other.log().claim(&other.log().load().await.unwrap()).await.unwrap();
        attempts.again(&first, lost(&first).await).unwrap();
        other.log().unclaim(&others).await;
        let second = log.load().await.unwrap();
        assert!(second.is_same(&first));
        other.write("/memories/a", "two").await.unwrap();
        attempts.again(&second, lost(&second).await).unwrap();
    }
}
