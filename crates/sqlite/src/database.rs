//! [`Database`]: the connections to one file, and whose turn it is to use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_core::FailureKind;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::config::OpenFailure;
use crate::failure::{Failure, NotOpened};
use crate::idle::IdleConnections;
use crate::{private, schema};

/// How many tasks of this process read at a time.
const READERS: usize = 4;

/// How long to wait before trying again what SQLite itself does not wait for.
const PAUSE: Duration = Duration::from_millis(5);

/// One database file. All stores in it share its connections.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    busy_timeout: Duration,
    readers: Arc<Semaphore>,
    writer: Arc<Semaphore>,
    idle: IdleConnections,
}

/// What a task is going to do. Readers and the writer do not wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Database {
    /// Opens the database, and makes it where it is missing. Blocks.
    pub(crate) fn open(path: &Path, busy_timeout: Duration) -> Result<Self, NotOpened> {
        let deadline = Deadline::after(busy_timeout);
        // Absolute, since connections are opened later too, and to SQLite `:memory:` and `file:` are no files.
        let path = std::path::absolute(path)?;
        private::create_missing(&path)?;
        let mut connection = connect(&path, deadline)?;
        prepare(&mut connection, deadline)?;
        let idle = IdleConnections::new();
        idle.put(connection);
        Ok(Self {
            path,
            busy_timeout,
            readers: Arc::new(Semaphore::new(READERS)),
            writer: Arc::new(Semaphore::new(1)),
            idle,
        })
    }

    /// Runs `work` on a connection, off the async threads. Once started it runs to its end, also when this future is
    /// dropped.
    pub(crate) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        access: Access,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let deadline = Deadline::after(self.busy_timeout);
        let (turns, kind_if_lost) = match access {
            Access::Read => (&self.readers, FailureKind::Other),
            Access::Write => (&self.writer, FailureKind::OutcomeUnknown),
        };
        // The semaphore is never closed, so there is always a permit to wait for.
        let turn = Arc::clone(turns).acquire_owned().await;
        let working = spawn_blocking(move || {
            let _turn = turn;
            self.use_connection(deadline, work)
        });
        working.await.unwrap_or_else(|error| Err(Failure::new(kind_if_lost, error)))
    }

    fn use_connection<T>(
        &self,
        deadline: Deadline,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = self.idle.take().map_or_else(|| connect(&self.path, deadline), Ok)?;
        connection.busy_timeout(deadline.remaining())?;
        let result = work(&mut connection);
        if !matches!(result, Err(Failure::Failed { .. })) {
            self.idle.put(connection);
        }
        result
    }
}

fn connect(path: &Path, deadline: Deadline) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(deadline.remaining())?; // the settings below may have to wait already
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Else SQLite prepares a cached statement again for each use, in case other parameters call for another plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A commit is on the disk before it is acknowledged, also on macOS `[X2]`; nothing goes into temporary files.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

/// Of several processes that open a new file at once, SQLite turns some away without waiting.
fn prepare(connection: &mut Connection, deadline: Deadline) -> Result<(), NotOpened> {
    loop {
        connection.busy_timeout(deadline.remaining())?;
        match schema::prepare(connection) {
            Err(NotOpened(OpenFailure::Failed { kind: FailureKind::Busy, .. })) if !deadline.remaining().is_zero() => {
                thread::sleep(PAUSE);
            }
            prepared => return prepared,
        }
    }
}

/// When an operation gives up waiting; `None` where that is beyond all time.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// The time that is left, as far as SQLite can count it.
    fn remaining(self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);
        self.0.map_or(LONGEST, |end| end.saturating_duration_since(Instant::now()).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_failed_is_not_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("memory.sqlite"), Duration::from_secs(5)).unwrap();
        let database = Arc::new(database);
        let failing = Arc::clone(&database).run(Access::Write, |connection| {
            connection.execute_batch("BEGIN IMMEDIATE; no SQL")?;
            Ok(())
        });
        failing.await.unwrap_err();
        let panicking = Arc::clone(&database).run(Access::Write, |_| -> Result<(), Failure> { panic!("as asked") });
        let lost = panicking.await.unwrap_err();
        assert!(matches!(lost, Failure::Failed { kind: FailureKind::OutcomeUnknown, .. }), "{lost:?}");
        assert!(database.idle.take().is_none());
        let working =
            database.run(Access::Write, |connection| Ok(connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?));
        working.await.unwrap();
    }
}
