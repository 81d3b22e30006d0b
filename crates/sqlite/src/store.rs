//! [`SqliteStore`]: the store, one of several memories in a database.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, FailureKind, MemoryPath, Node, OpenError, OpenMode, Problem, ReadOptions, RecordName, Store, StoreError,
    StoredFile, VerifyProgress, VerifyReport,
};
use rusqlite::{Connection, Row, TransactionBehavior};
use tokio::task::spawn_blocking;

use crate::config::SqliteStoreBuilder;
use crate::database::Database;
use crate::failure::{Failure, NotOpened};
use crate::files::{Files, Memory};
use crate::name::MemoryName;
use crate::{schema, verify};

/// Claude's memory in a SQLite database, one of any number of memories in the same file.
///
/// Any number of processes on one machine may open one file: they lose nothing and see each other's changes at once.
/// Cloning is cheap, and the clones are one store. The methods must be called within a tokio runtime.
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
    /// Opens the memory `default` in the database `path` with the default options, and makes the file where it is missing.
    ///
    /// # Errors
    /// Those of [`SqliteStoreBuilder::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::builder(path).open().await
    }

    /// A store in the database `path` with options of your own.
    pub fn builder(path: impl Into<PathBuf>) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(path.into())
    }

    pub(crate) async fn open_with(builder: SqliteStoreBuilder) -> Result<Self, OpenError> {
        let SqliteStoreBuilder { path, memory: name, options } = builder;
        let memory = Memory { name, max_file_bytes: options.max_file_bytes };
        let (file, asked) = (path.clone(), memory.clone());
        let opening = spawn_blocking(move || Database::open(&file, &asked, options.timeout, options.mode));
        let opened = opening.await.unwrap_or_else(|error| Err(std::io::Error::from(error).into()));
        let database = opened.map_err(|NotOpened(source)| {
            OpenError::new(format!("in the database {}", path.display()), source.kind(), source)
        })?;
        Ok(Self { database: Arc::new(database), memory })
    }

    /// The memory of another name in the same file, on the same connections.
    pub fn memory(&self, name: MemoryName) -> Self {
        let memory = Memory { name, ..self.memory };
        Self { database: Arc::clone(&self.database), memory }
    }

    /// The name of this memory.
    pub fn name(&self) -> &MemoryName {
        &self.memory.name
    }

    /// The names of the memories in the file that hold a file, sorted.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn memory_names(&self) -> Result<Vec<MemoryName>, StoreError> {
        self.read_with("listing the memories", |connection, _| {
            let mut statement = connection.prepare_cached("SELECT DISTINCT store FROM file ORDER BY store")?;
            let name = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().ok().and_then(|name| name.parse().ok()));
            let names = statement.query_map((), name)?.collect::<Result<Vec<Option<MemoryName>>, _>>()?;
            Ok(names.into_iter().flatten().collect())
        })
        .await
    }

    /// Checks the whole file, all memories in it: SQLite's own check of the database, then that each file has its content,
    /// of the size that is noted, under a legal path that is no directory, that each content has its file, and that the names of
    /// records are legal. Then it reads every file of this memory. It reads the whole database. Others may use it at the same time.
    ///
    /// `progress` is called after each file of this memory.
    ///
    /// # Errors
    /// A [`StoreError::Failure`] that leaves open whether the database is whole; damage is a problem of the report instead.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let find = |connection: &mut Connection, memory: &Memory| verify::problems(connection, &memory.name);
        let mut report = VerifyReport::default();
        match self.read_with("verifying the database", find).await {
            Ok(problems) => report.problems = problems,
            Err(error @ StoreError::Failure { kind: FailureKind::Damaged, .. }) => {
                report.problems.push(Problem::of(&error));
            }
            Err(error) => return Err(error),
        }
        report.read_files(self, progress).await
    }

    /// Runs `work`, which reads, on a connection and the name of this memory, off the async threads.
    async fn read_with<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Connection, &Memory) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let memory = self.memory.clone();
        let reading = Arc::clone(&self.database).read(move |connection| work(connection, &memory));
        reading.await.map_err(|failure| failure.during(operation))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let path = path.clone();
        self.read_with("reading", move |connection, memory| read(connection, memory, &path, &options)).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        let name = name.clone();
        let read = move |connection: &mut Connection, memory: &Memory| Files { connection, memory }.read_record(&name);
        self.read_with("reading a record", read).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if self.database.mode() != OpenMode::ReadOnly {
            let memory = self.memory.clone();
            let applying = Arc::clone(&self.database).write(move |connection| apply(connection, &memory, batch));
            return applying.await.map_err(|failure| failure.during(APPLYING));
        }
        if batch.changes_nothing() {
            return self.read_with(APPLYING, move |connection, memory| check(connection, memory, &batch)).await;
        }
        Err(Failure::new(FailureKind::AccessDenied, "the store was opened in read-only mode").during(APPLYING))
    }
}

const APPLYING: &str = "applying a batch";

/// Reads the path under the preconditions. A file or the root without any is one statement, which needs no transaction.
fn read(
    connection: &mut Connection,
    memory: &Memory,
    path: &MemoryPath,
    options: &ReadOptions,
) -> Result<Node, Failure> {
    if options.preconditions().is_empty()
        && let Some(node) = (Files { connection, memory }).read_at_once(path)?
    {
        return Ok(node);
    }
    let transaction = connection.transaction()?; // all is seen at one moment
    let files = Files { connection: &transaction, memory };
    options.check(&files)?;
    files.read(path)
}

/// Checks what a batch without changes requires.
fn check(connection: &mut Connection, memory: &Memory, batch: &Batch) -> Result<(), Failure> {
    let transaction = connection.transaction()?; // all is seen at one moment
    Ok(batch.check(&Files { connection: &transaction, memory })?)
}

/// Applies the batch in one transaction, which is undone where this returns before its end.
fn apply(connection: &mut Connection, memory: &Memory, batch: Batch) -> Result<(), Failure> {
    batch.check_file_sizes(memory.max_file_bytes)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::refuse_newer(&transaction)?;
    let files = Files { connection: &transaction, memory };
    batch.check(&files)?;
    let (changes, record_changes) = batch.into_changes();
    changes.into_iter().try_for_each(|change| files.change(change))?;
    record_changes.into_iter().try_for_each(|change| files.change_record(change))?;
    transaction.commit().map_err(Failure::of_commit)
}
