//! [`Writer`]: applies a batch with one call, which is one transaction.
//!
//! The call takes the lock of the memory, checks the condition of the batch, and changes the files. So the batch and
//! the state that it was checked against come from one server. If the condition does not hold, the call returns the
//! state, which core checks. If it allows the batch, the next call requires that state.
//!
//! The lock belongs to the transaction, so it also works behind a pooler that gives each transaction another
//! connection.
//!
//! After a connection is lost, the call is repeated. The server keeps the number of the newest call of each writer, so
//! a batch is applied once, and an earlier call that arrives later has no effect.

use std::time::Duration;

use memory_tool_core::Batch;

use crate::failure::Failure;
use crate::files::{Call, Changes, Condition, Memory, State, Statements};
use crate::pool::{Connections, Deadline, Held, Turn, random_number};
use crate::recent::RecentFiles;

/// The time after the deadline within which the outcome of a lost connection is determined.
const GRACE: Duration = Duration::from_secs(10);

/// Applies one batch.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) statements: &'a Statements,
    pub(crate) memory: &'a Memory,
    pub(crate) recent: &'a RecentFiles,
}

impl Writer<'_> {
    pub(crate) async fn apply(&self, batch: Batch, limit: Duration) -> Result<(), Failure> {
        let mut deadline = Deadline::after(limit);
        let turn = self.connections.turn(self.memory.lock.cast_unsigned(), &deadline).await?;
        let first_version = random_number()?;
        let applied = self.try_apply(&batch, first_version, &turn, &mut deadline).await;
        applied.inspect_err(|_| self.recent.clear())?;
        self.recent.add_applied(batch, first_version);
        Ok(())
    }

    async fn try_apply(
        &self,
        batch: &Batch,
        first_version: u128,
        turn: &Turn<'_>,
        deadline: &mut Deadline,
    ) -> Result<(), Failure> {
        let changes = Changes::of(batch, first_version);
        let mut condition = Condition::of(batch);
        let (mut first, mut lost) = (None, None);
        loop {
            match self.call(turn, &mut first, &condition, &changes, deadline).await {
                Ok(None) => return Ok(()),
                Ok(Some(state)) => {
                    lost = None; // the server has not applied the batch, and refuses earlier calls that arrive later
                    state.check(batch)?;
                    condition = state.unchanged;
                    deadline.check()?;
                }
                Err(mut failure) => {
                    if let Failure::Lost(error) = failure {
                        deadline.extend(GRACE);
                        failure = Failure::closed(&error);
                        lost.get_or_insert(error);
                    }
                    if let Err(failure) = deadline.repeat_after(failure).await {
                        return Err(lost.map_or(failure, Failure::Lost));
                    }
                }
            }
        }
    }

    /// Makes one call. Returns the state if the batch was not applied.
    async fn call(
        &self,
        turn: &Turn<'_>,
        first: &mut Option<i64>,
        condition: &Condition,
        changes: &Changes<'_>,
        deadline: &Deadline,
    ) -> Result<Option<State>, Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let number = turn.next_call();
        let first = *first.get_or_insert(number);
        let call = Call { writer: turn.writer(), number, first, lock_timeout: deadline.milliseconds() };
        let calling = self.statements.apply(held.client()?, self.memory, &call, condition, changes);
        let called = tokio::time::timeout(deadline.remaining() + GRACE, calling).await;
        let state = called.map_err(|_| Failure::Lost("the server did not respond to a commit".into()))??;
        held.release();
        Ok(state)
    }
}
