//! [`Writer`]: applies a batch in one transaction.
//!
//! A transaction takes the lock of its memory in its first message, and each later statement reads what was committed
//! before. The lock belongs to the transaction, so it also works behind a pooler that gives each transaction another
//! connection.
//!
//! Most edits are sent at once: the lock, a statement that writes if the preconditions hold, and the commit. All others
//! take two round trips: the lock and the state, which core checks, and then the changes and the commit.
//!
//! After a connection is lost during a commit, the outcome is determined. With two round trips, the number of the
//! transaction is known, and the server knows whether it was committed. An edit replaces a version, so it is repeated:
//! it can take effect only once.

use std::time::Duration;

use futures::future::join3;
use memory_tool_core::{Batch, ErrorKind, Snapshot, Stat, StorePath, StoreState as _, Version};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, SimpleQueryMessage};

use crate::failure::Failure;
use crate::files::{Changes, Condition, Memory, Statements, random_version};
use crate::pool::{Connections, Deadline, Held};

/// The time after the deadline within which the server reports that it could not get the lock, or that it commits.
const GRACE: Duration = Duration::from_secs(10);

/// The number of a lock. The locks of other programs in the same database have other numbers, most likely; if not, the
/// two wait for each other.
pub(crate) fn lock_number(names: &[&str]) -> i64 {
    let digest = names.iter().fold(Sha256::new(), |hash, name| hash.chain_update(name).chain_update([0]));
    let first = digest.finalize().first_chunk().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

/// The statements that begin a transaction and take a lock. They set the isolation and the durability that this module
/// relies on, until the end of the transaction.
pub(crate) fn take_lock(number: i64, deadline: &Deadline) -> String {
    let grace = GRACE.as_millis(); // a disappeared client must not keep the lock
    let milliseconds = deadline.remaining().as_millis().clamp(1, i32::MAX as u128);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {milliseconds}; \
         SET LOCAL idle_in_transaction_session_timeout = {grace}; \
         SET LOCAL memory_tool.batch = 'on'; \
         SELECT pg_catalog.pg_advisory_xact_lock({number}), pg_catalog.pg_current_xact_id() AS id, \
         extract(epoch FROM pg_catalog.now()) AS began, {TIMELINE} AS timeline, \
         CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
    )
}

const COMMIT: &str = "COMMIT";

/// A number that a failover changes.
const TIMELINE: &str = "left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)";

/// The status of a transaction. After a crash or a failover, a server can give the number of a lost transaction to
/// another one. A crash resets the statistics, and a failover begins another timeline, so after these, a commit is
/// unknown.
fn status_statement() -> String {
    format!(
        "SELECT CASE WHEN status <> 'committed' OR {TIMELINE} = $3 AND $2::numeric > \
         extract(epoch FROM pg_catalog.pg_stat_get_bgwriter_stat_reset_time()) \
         THEN status ELSE 'unknown' END FROM pg_catalog.pg_xact_status($1::xid8) AS found (status)"
    )
}

/// Applies one batch.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) statements: &'a Statements,
    pub(crate) memory: &'a Memory,
}

/// A transaction whose checks have passed.
struct Checked {
    held: Held,
    transaction: Transaction,
}

/// The values that identify a transaction later, in the format of the server.
struct Transaction {
    id: String,
    /// Seconds since 1970.
    began: String,
    timeline: String,
}

impl Writer<'_> {
    pub(crate) async fn apply(&self, batch: &Batch, limit: Duration) -> Result<(), Failure> {
        let mut deadline = Deadline::after(limit);
        let _turn = self.connections.turn(self.memory.lock.cast_unsigned(), &deadline).await?;
        let changes = Changes::of(batch, random_version()?);
        let mut lost = None;
        if let Some(condition) = Condition::of(batch) {
            match self.apply_at_once(&changes, &condition, &deadline).await {
                Ok(true) => return Ok(()),
                Ok(false) => {} // the checks in steps have the reason
                Err(Failure::Lost(error)) => lost = Some(error),
                Err(failure) => deadline.repeat_after(failure).await?,
            }
        }
        loop {
            let failure = match self.apply_in_steps(batch, &changes, lost.is_some(), &deadline).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let Some(error) = lost.take() else {
                deadline.repeat_after(failure).await?;
                continue;
            };
            let may_repeat = matches!(failure, Failure::Failed { .. });
            if deadline.pause(may_repeat).await.is_none() {
                return Err(Failure::Lost(error));
            }
            lost = Some(error);
        }
    }

    /// Applies a batch with one round trip. Returns whether its condition holds.
    async fn apply_at_once(
        &self,
        changes: &Changes<'_>,
        condition: &Condition<'_>,
        deadline: &Deadline,
    ) -> Result<bool, Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let client = held.client()?;
        let lock = take_lock(self.memory.lock, deadline);
        let (lock, write, commit) = sent(
            deadline,
            join3(
                client.batch_execute(&lock),
                self.statements.write(client, self.memory, changes, condition),
                client.batch_execute(COMMIT),
            ),
        )
        .await?;
        let is_written = first_error(lock, write, commit)?;
        held.release();
        Ok(is_written)
    }

    /// Applies a batch with two round trips.
    async fn apply_in_steps(
        &self,
        batch: &Batch,
        changes: &Changes<'_>,
        may_be_applied: bool,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let Some(checked) = self.check(batch, changes, may_be_applied, deadline).await? else { return Ok(()) };
        match self.commit(checked.held, changes, deadline).await {
            Err(Failure::Lost(error)) => match self.is_committed(&checked.transaction, deadline).await {
                Some(true) => Ok(()),
                Some(false) => Err(Failure::rolled_back(error)),
                None => Err(Failure::Lost(error)),
            },
            committed => committed,
        }
    }

    /// Begins the transaction and checks the batch. Returns `None` if the batch was applied before.
    async fn check(
        &self,
        batch: &Batch,
        changes: &Changes<'_>,
        may_be_applied: bool,
        deadline: &Deadline,
    ) -> Result<Option<Checked>, Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let client = held.client()?;
        let (lock, inputs) = (take_lock(self.memory.lock, deadline), batch.inputs());
        let answers = join3(
            client.simple_query(&lock),
            self.statements.snapshot(client, self.memory, &inputs),
            self.statements.refuse_too_long(client, self.memory, changes),
        );
        let (locked, snapshot, too_long) =
            timeout(deadline.remaining() + GRACE, answers).await.map_err(|_| Failure::timeout(GRACE))?;
        let transaction = transaction(&locked?)?;
        let snapshot = snapshot?;
        if may_be_applied && is_applied(changes, &snapshot) {
            roll_back(held, deadline).await;
            return Ok(None);
        }
        let check = || {
            batch.check(&snapshot)?;
            batch.changes().iter().try_for_each(|change| change.check(&snapshot))
        };
        match check().map_err(Failure::from).and(too_long) {
            Ok(()) => Ok(Some(Checked { held, transaction })),
            Err(failure) => {
                roll_back(held, deadline).await;
                Err(failure)
            }
        }
    }

    async fn commit(&self, held: Held, changes: &Changes<'_>, deadline: &Deadline) -> Result<(), Failure> {
        let client = held.client()?;
        let (statements, memory) = (self.statements, self.memory);
        let unconditional = Condition::default();
        let changed = join3(
            statements.remove(client, memory, changes),
            statements.rename(client, memory, changes),
            statements.write(client, memory, changes, &unconditional),
        );
        let ((removed, renamed, written), committed) =
            sent(deadline, futures::future::join(changed, client.batch_execute(COMMIT))).await?;
        first_error(removed, renamed, written.and(committed))?;
        held.release();
        Ok(())
    }

    /// Whether the server committed the transaction, or `None` if that is unknown. Takes the lock, so that the
    /// transaction has ended.
    async fn is_committed(&self, transaction: &Transaction, deadline: &Deadline) -> Option<bool> {
        loop {
            match self.status(transaction, deadline).await.as_ref().map(Option::as_deref) {
                Ok(Some("committed")) => return Some(true),
                Ok(Some("aborted")) => return Some(false),
                Ok(_) => return None,
                Err(_) => deadline.pause(true).await?,
            }
        }
    }

    async fn status(&self, transaction: &Transaction, deadline: &Deadline) -> Result<Option<String>, Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let client = held.client()?;
        let lock = take_lock(self.memory.lock, deadline);
        let status = status_statement();
        let Transaction { id, began, timeline } = transaction;
        let parameters = [(id as _, Type::TEXT), (began as _, Type::TEXT), (timeline as _, Type::TEXT)];
        let (lock, status, commit) = sent(
            deadline,
            join3(
                client.batch_execute(&lock),
                client.query_typed_one(&status, &parameters),
                client.batch_execute(COMMIT),
            ),
        )
        .await?;
        let status = match status {
            // The server has not reached this number since a crash.
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
                return Ok(Some("aborted".into()));
            }
            status => first_error(lock, status, commit)?.try_get(0)?,
        };
        held.release();
        Ok(status)
    }
}

/// Waits for the responses to messages that end with a commit.
async fn sent<T>(deadline: &Deadline, answers: impl Future<Output = T>) -> Result<T, Failure> {
    let answered = timeout(deadline.remaining() + GRACE, answers).await;
    answered.map_err(|_| Failure::Lost("the server did not respond to a commit".into()))
}

/// The second result, or the first error.
fn first_error<A, B, C>(
    first: Result<A, Error>,
    second: Result<B, Error>,
    third: Result<C, Error>,
) -> Result<B, Failure> {
    let _ = first.map_err(Failure::after_commit_was_sent)?;
    let value = second.map_err(Failure::after_commit_was_sent)?;
    let _ = third.map_err(Failure::after_commit_was_sent)?;
    Ok(value)
}

/// Ends a transaction whose checks have failed. Waits for the end, because some programs drive their connections only
/// during an operation, and the lock would stop other programs until then.
async fn roll_back(held: Held, deadline: &Deadline) {
    let Ok(client) = held.client() else { return };
    if let Ok(Ok(())) = deadline.limit(client.batch_execute("ROLLBACK")).await {
        held.release();
    }
}

/// Whether an edit was applied by an earlier attempt: its first file has the version that it got.
fn is_applied(changes: &Changes<'_>, snapshot: &Snapshot) -> bool {
    let first = changes.written.paths.first().zip(changes.written.versions.first());
    first.is_some_and(|(path, version)| {
        let found = path.parse::<StorePath>().ok().and_then(|path| snapshot.stat(&path).ok());
        found == Some(Stat::File(Version::new(version.clone())))
    })
}

fn transaction(answer: &[SimpleQueryMessage]) -> Result<Transaction, Failure> {
    let transaction = answer.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        let column = |name| row.get(name).map(str::to_owned);
        Some(Transaction { id: column("id")?, began: column("began")?, timeline: column("timeline")? })
    });
    transaction.ok_or_else(|| Failure::new(ErrorKind::Other, "the server did not return the number of the transaction"))
}
