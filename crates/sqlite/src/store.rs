//! [`SqliteStore`]: one of the memories in a database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, ErrorKind, MemoryName, Node, OpenError, OpenMode, Problem, ReadOptions, Store, StoreError, StorePath,
    VerifyProgress, VerifyReport,
};
use rusqlite::Connection;
use tokio::task::spawn_blocking;

use crate::config::SqliteStoreBuilder;
use crate::database::Database;
use crate::failure::{ConnectError, Failure};
use crate::files::{Files, Memory};
use crate::{files, verify};

/// A memory in a SQLite database, which may contain any number of memories.
///
/// Any number of processes on one machine may open one file. No edit is lost, and changes are visible at once. Clones
/// are cheap and share one store. The methods must be called within a tokio runtime.
///
/// ```
/// use memory_tool_core::{Engine, MemoryTool};
/// use memory_tool_sqlite::SqliteStore;
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("memory.sqlite");
/// let store = SqliteStore::open(&path).await?;
/// let (alice, bob) = (store.memory("alice".parse()?), store.memory("bob".parse()?));
/// let input = json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// Engine::new(alice).call(input).await?;
/// let reply = Engine::new(bob).call(json!({"command": "view", "path": "/memories"})).await?;
/// assert!(reply.to_string().ends_with("\n0B\t/memories"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    database: Arc<Database>,
    memory: Memory,
}

impl SqliteStore {
    /// Opens the memory `default` in the database `path` with the default options. Creates the file if it does not
    /// exist.
    ///
    /// # Errors
    /// The same as [`SqliteStoreBuilder::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::builder(path).open().await
    }

    /// Returns a builder for a store in the database `path`.
    pub fn builder(path: impl Into<PathBuf>) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(path.into())
    }

    pub(crate) async fn open_with(builder: SqliteStoreBuilder) -> Result<Self, OpenError> {
        let SqliteStoreBuilder { path, memory: name, options } = builder;
        let memory = Memory { name, max_file_bytes: options.max_file_bytes };
        let (file, requested) = (path.clone(), memory.clone());
        let opening = spawn_blocking(move || Database::open(&file, &requested, options.timeout, options.mode));
        let opened = opening.await.unwrap_or_else(|error| Err(std::io::Error::from(error).into()));
        let database = opened.map_err(|ConnectError(source)| {
            OpenError::new(format!("in the database {}", path.display()), source.kind(), source)
        })?;
        Ok(Self { database: Arc::new(database), memory })
    }

    /// Returns another memory in the same file, which shares the connections.
    pub fn memory(&self, name: MemoryName) -> Self {
        let memory = Memory { name, ..self.memory };
        Self { database: Arc::clone(&self.database), memory }
    }

    /// The name of this memory.
    pub fn name(&self) -> &MemoryName {
        &self.memory.name
    }

    /// The sorted names of the memories in the database that contain a file or a record. Each takes one lookup in the
    /// index, regardless of the number of its files.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn memory_names(&self) -> Result<Vec<MemoryName>, StoreError> {
        self.read_with("listing the memories", |connection, _| Ok(files::memory_names(connection)?)).await
    }

    /// Checks the whole database and reads every file of this memory. The database may be in use.
    ///
    /// The check covers all memories: SQLite's integrity check, paths, sizes, missing and unused contents. If SQLite's
    /// check finds damage, no file is read.
    ///
    /// `progress` is called after each file of this memory.
    ///
    /// ```
    /// use memory_tool_sqlite::SqliteStore;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("memory.sqlite");
    /// let store = SqliteStore::open(path).await?;
    /// for problem in store.verify(|_| {}).await?.problems {
    ///     eprintln!("{problem}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check could not be completed. Damage is a problem in the report, not an error.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let find = |connection: &Connection, memory: &Memory| {
            let damage = verify::damage(connection)?;
            let is_damaged = !damage.is_empty();
            Ok((is_damaged, if is_damaged { damage } else { verify::problems(connection, &memory.name)? }))
        };
        let mut report = VerifyReport::default();
        let (is_damaged, problems) = match self.read_with("verifying the database", find).await {
            Err(error @ StoreError::Failure { kind: ErrorKind::Damaged, .. }) => (true, vec![Problem::of(&error)]),
            found => found?,
        };
        report.problems = problems;
        if is_damaged {
            return Ok(report);
        }
        report.read_files(self, progress).await
    }

    /// Runs `work`, which only reads, in one snapshot, outside the async threads.
    async fn read_with<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection, &Memory) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let memory = self.memory.clone();
        let reading = Arc::clone(&self.database).read(move |connection| work(connection, &memory));
        reading.await.map_err(|failure| failure.during(operation))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if self.database.mode() != OpenMode::ReadOnly {
            let reading = Arc::clone(&self.database).read_node(&self.memory, path, options);
            return reading.await.map_err(|failure| failure.during(READING));
        }
        let path = path.clone();
        self.read_with(READING, move |connection, memory| read(connection, memory, &path, &options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if self.database.mode() != OpenMode::ReadOnly {
            batch.check_file_sizes(self.memory.max_file_bytes)?;
            let memory = self.memory.clone();
            let erases = matches!(batch.command(), Some("redact" | "forget"));
            let applying = Arc::clone(&self.database).write(move |connection| {
                connection.apply(&memory, batch, apply)?;
                if erases {
                    empty_log(connection.connection());
                }
                Ok(())
            });
            return applying.await.map_err(|failure| failure.during(APPLYING));
        }
        if batch.changes_nothing() {
            return self.read_with(APPLYING, move |connection, memory| check(connection, memory, &batch)).await;
        }
        Err(Failure::new(ErrorKind::AccessDenied, "the store was opened in read-only mode").during(APPLYING))
    }
}

const READING: &str = "reading";
const APPLYING: &str = "applying a batch";

fn read(connection: &Connection, memory: &Memory, path: &StorePath, options: &ReadOptions) -> Result<Node, Failure> {
    let files = Files { connection, memory };
    options.check(&files)?;
    files.read(path)
}

/// Checks a batch without changes.
fn check(connection: &Connection, memory: &Memory, batch: &Batch) -> Result<(), Failure> {
    Ok(batch.check(&Files { connection, memory })?)
}

/// Removes erased contents from the write-ahead log. If another session reads for longer than a moment, its next
/// checkpoint does so.
fn empty_log(connection: &Connection) {
    let waiting = connection.busy_timeout(Duration::from_secs(1));
    let emptied = waiting.and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    drop(emptied); // the batch was applied
}

/// Applies the batch in a transaction that has the write lock.
fn apply(connection: &Connection, memory: &Memory, batch: Batch) -> Result<(), Failure> {
    let files = Files { connection, memory };
    batch.check(&files)?;
    batch.into_changes().into_iter().try_for_each(|change| files.change(change))
}
