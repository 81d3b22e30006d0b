//! [`Database`]: the connections to one file, and the limits on their concurrent use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_core::{ErrorKind, MemoryName, Node, OpenMode, ReadOptions, StorePath};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task::coop::consume_budget;
use tokio::task::spawn_blocking;

use crate::caching::CachingConnection;
use crate::failure::{CanBeBusy, ConnectError, Failure, OpenFailure};
use crate::files::{Files, Memory};
use crate::open_files::OpenFiles;
use crate::pool::ConnectionPool;
use crate::read_only::FileSnapshot;
use crate::schema::CheckedSchema;
use crate::{caching, file_system, permissions, pool, schema, shared_memory, sidecar};

/// The number of tasks in this process that read at a time.
const READERS: usize = 4;

/// The part of tokio's budget of 128 that a read uses, so that a task yields after eight reads. Otherwise, a task that
/// only reads would occupy a thread for a millisecond at a time. A yield takes as long as a read, and wakes a thread.
const BUDGET_OF_A_READ: usize = 16;

/// The delay before a retry that SQLite does not make itself.
const PAUSE: Duration = Duration::from_millis(5);

/// Limits on statements, including those in the schema of the file. Content sizes are limited separately.
const LIMITS: [(Limit, i32); 8] = [
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 10_000),
    (Limit::SQLITE_LIMIT_COLUMN, 100),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 3),
    (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 8),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
];

/// One database file. All stores in it share its connections.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    mode: OpenMode,
    timeout: Duration,
    readers: Arc<Semaphore>,
    writer: Arc<Semaphore>,
    pool: ConnectionPool,
}

impl Database {
    /// Opens the database of the memory, and creates it if the mode allows it. Blocks.
    pub(crate) fn open(path: &Path, memory: &Memory, timeout: Duration, mode: OpenMode) -> Result<Self, ConnectError> {
        let deadline = Deadline::after(timeout);
        // Absolute, because connections are also opened later, and because SQLite gives `:memory:` and `file:` a
        // meaning.
        let path = std::path::absolute(path)?;
        if mode != OpenMode::ReadOnly {
            file_system::check(&path)?;
        }
        if mode == OpenMode::Create {
            permissions::create_missing(&path)?;
        } else if !path.try_exists()? {
            return Err(OpenFailure::NotFound.into());
        }
        let database = Self {
            path,
            mode,
            timeout,
            readers: Arc::new(Semaphore::new(READERS)),
            writer: Arc::new(Semaphore::new(1)),
            pool: ConnectionPool::new(),
        };
        database.prepare(memory, deadline)?;
        Ok(database)
    }

    pub(crate) fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Retries while the database is busy: SQLite does not wait if several processes open a new file concurrently.
    fn prepare(&self, memory: &Memory, deadline: Deadline) -> Result<(), ConnectError> {
        loop {
            match self.prepare_once(memory, deadline) {
                Err(error) if error.is_busy() && !deadline.remaining().is_zero() => thread::sleep(PAUSE),
                prepared => return prepared,
            }
        }
    }

    fn prepare_once(&self, memory: &Memory, deadline: Deadline) -> Result<(), ConnectError> {
        if self.mode == OpenMode::ReadOnly {
            return self.read_only(deadline, |connection| self.prepare_on(connection, memory));
        }
        let mut connection = connect(&self.path, deadline)?;
        self.prepare_on(connection.connection(), memory)?;
        self.pool.put(connection);
        Ok(())
    }

    fn prepare_on(&self, connection: &mut Connection, memory: &Memory) -> Result<(), ConnectError> {
        schema::prepare(connection, self.mode)?;
        if self.mode == OpenMode::Create
            || memory.name == MemoryName::default()
            || (Files { connection, memory }).memory_exists()?
        {
            return Ok(());
        }
        Err(OpenFailure::NoSuchMemory { name: memory.name.clone() }.into())
    }

    /// Reads a path. A node that was read before and is current is returned without leaving the thread. Not in the mode
    /// [`ReadOnly`](OpenMode::ReadOnly), where a connection may change the access method.
    pub(crate) async fn read_node(
        self: Arc<Self>,
        memory: &Memory,
        path: &StorePath,
        options: ReadOptions,
    ) -> Result<Node, Failure> {
        for _ in 0..BUDGET_OF_A_READ {
            consume_budget().await;
        }
        if let Some(node) = self.recall(memory, path, &options) {
            return Ok(node);
        }
        let (memory, path) = (memory.clone(), path.clone());
        let turns = Arc::clone(&self.readers);
        self.run(turns, ErrorKind::Other, move |database, deadline| {
            database.use_connection(deadline, |connection| connection.read(&memory, &path, &options))
        })
        .await
    }

    /// Returns a current node that an idle connection remembers. Does not wait.
    fn recall(&self, memory: &Memory, path: &StorePath, options: &ReadOptions) -> Option<Node> {
        let (connection, node) = self.pool.take_if(|connection| connection.remembered(memory, path, options))?;
        let is_current = connection.is_current();
        self.pool.put_back(connection);
        is_current.then(|| Arc::unwrap_or_clone(node))
    }

    /// Runs `work`, which only reads, in one snapshot, outside the async threads. Runs it again if another program
    /// interfered.
    pub(crate) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        mut work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turns = Arc::clone(&self.readers);
        self.run(turns, ErrorKind::Other, |database, deadline| match database.mode {
            OpenMode::ReadOnly => database.read_only(deadline, |connection| {
                caching::in_snapshot(connection, &mut CheckedSchema::default(), &mut work)
            }),
            _ => database.use_connection(deadline, |connection| connection.in_snapshot(work)),
        })
        .await
    }

    /// Runs `work`, which may write, outside the async threads. Once started it runs to completion, even if this future
    /// is dropped.
    pub(crate) async fn write<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&mut CachingConnection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turns = Arc::clone(&self.writer);
        self.run(turns, ErrorKind::OutcomeUnknown, |database, deadline| database.use_connection(deadline, work)).await
    }

    async fn run<T: Send + 'static>(
        self: Arc<Self>,
        turns: Arc<Semaphore>,
        kind_if_lost: ErrorKind,
        work: impl FnOnce(&Self, Deadline) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let deadline = Deadline::after(self.timeout);
        // The semaphore is never closed.
        let turn = turns.acquire_owned().await;
        let working = spawn_blocking(move || {
            let _turn = turn;
            work(&self, deadline)
        });
        working.await.unwrap_or_else(|error| Err(Failure::new(kind_if_lost, error)))
    }

    fn use_connection<T>(
        &self,
        deadline: Deadline,
        work: impl FnOnce(&mut CachingConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = self.current_connection(deadline)?;
        connection.connection().busy_timeout(deadline.remaining())?;
        let result = work(&mut connection);
        if !matches!(result, Err(Failure::Failed { .. })) {
            self.pool.put(connection);
        }
        result
    }

    /// A connection to the file that is at the path now. Closes those to a file that was removed or replaced: until no
    /// connection of this process has it open, SQLite would mix its shared memory with the new log.
    fn current_connection(&self, deadline: Deadline) -> Result<CachingConnection, ConnectError> {
        loop {
            let connection = self.pool.take().map_or_else(|| connect(&self.path, deadline), Ok)?;
            if connection.is_in_place() {
                return Ok(connection);
            }
            pool::close_displaced();
            drop(connection);
            if deadline.remaining().is_zero() {
                return Err(OpenFailure::displaced(ErrorKind::Busy).into());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Runs `work` on a read-only connection, and again if another program changed the database during the read, or
    /// while one does what only a writer can wait for. The connection is not reused, because the access method may
    /// change.
    fn read_only<T, E: From<ConnectError> + CanBeBusy>(
        &self,
        deadline: Deadline,
        mut work: impl FnMut(&mut Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let snapshot = FileSnapshot::of(&self.path)?;
            let result = connect_read_only(&snapshot, deadline)
                .map_err(E::from)
                .and_then(|mut connection| work(&mut connection));
            let is_busy = matches!(&result, Err(error) if error.is_busy());
            if snapshot.is_conclusive(&result) || (!is_busy && FileSnapshot::of(&self.path)? == snapshot) {
                return result;
            }
            if deadline.remaining().is_zero() {
                if is_busy {
                    return result;
                }
                let source = "other programs kept changing the database while it was read".into();
                return Err(ConnectError(OpenFailure::Failed { kind: ErrorKind::Busy, source }).into());
            }
            thread::sleep(PAUSE);
        }
    }
}

fn connect(path: &Path, deadline: Deadline) -> Result<CachingConnection, ConnectError> {
    if !path.try_exists()? {
        return Err(OpenFailure::NotFound.into());
    }
    let file = sidecar::refuse_hostile(path)?;
    shared_memory::create(&file);
    let files = OpenFiles::of(&file);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = configured(Connection::open_with_flags(path, flags)?, deadline)?;
    connection.query_one("PRAGMA schema_version", (), |_| Ok(()))?; // opens the log, which `files` then knows
    Ok(CachingConnection::new(connection, files))
}

fn connect_read_only(snapshot: &FileSnapshot, deadline: Deadline) -> Result<Connection, ConnectError> {
    Ok(configured(snapshot.connect()?, deadline)?)
}

/// Configures a connection to distrust the file, as <https://sqlite.org/security.html> advises.
fn configured(connection: Connection, deadline: Deadline) -> rusqlite::Result<Connection> {
    connection.busy_timeout(deadline.remaining())?; // the settings below may have to wait
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?; // the view is for people
    for (limit, most) in LIMITS {
        connection.set_limit(limit, most)?;
    }
    // Without this, SQLite prepares a cached statement again for each use, in case its parameters need another plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A commit is on the disk before it is acknowledged, also on macOS `[X2]`. There are no temporary files.
    // Free pages keep no removed contents.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA mmap_size = 0;
         PRAGMA temp_store = MEMORY;
         PRAGMA secure_delete = ON;",
    )?;
    Ok(connection)
}

/// The deadline of an operation; `None` if it is too far in the future.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// The remaining time, limited to what SQLite supports.
    fn remaining(self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);
        self.0.map_or(LONGEST, |end| end.saturating_duration_since(Instant::now()).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_connection_is_not_reused() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(
            &directory.path().join("memory.sqlite"),
            &Memory { name: MemoryName::default(), max_file_bytes: 9 },
            Duration::from_secs(5),
            OpenMode::Create,
        )
        .unwrap();
        let database = Arc::new(database);
        let failing = Arc::clone(&database).write(|connection| {
            connection.connection().execute_batch("BEGIN IMMEDIATE; no SQL")?;
            Ok(())
        });
        failing.await.unwrap_err();
        let panicking = Arc::clone(&database).write(|_| -> Result<(), Failure> { panic!("expected") });
        let lost = panicking.await.unwrap_err();
        assert!(matches!(lost, Failure::Failed { kind: ErrorKind::OutcomeUnknown, .. }), "{lost:?}");
        assert!(database.pool.take().is_none());
        let working =
            database.write(|connection| Ok(connection.connection().execute_batch("BEGIN IMMEDIATE; COMMIT")?));
        working.await.unwrap();
    }
}
