//! [`SqliteStore`]: the store, one of several memories in a database.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, BatchHook, Expected, FailureKind, FileEntry, HookedStore, MemoryPath, NoHook, Node, OpenMode, Store,
    StoreError,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::task::spawn_blocking;

use crate::config::{OpenError, SqliteStoreBuilder};
use crate::database::Database;
use crate::failure::{Failure, NotOpened};
use crate::files::Files;
use crate::name::StoreName;
use crate::schema;
use crate::verify::{self, Problem};

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
/// let (alice, bob) = (store.store("alice".parse()?), store.store("bob".parse()?));
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
    name: StoreName,
}

impl SqliteStore {
    /// Opens the store `default` in the database `path` with the default options, and makes the file where it is missing.
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
        let SqliteStoreBuilder { path, store, busy_timeout, mode } = builder;
        let (file, name) = (path.clone(), store.clone());
        let opening = spawn_blocking(move || Database::open(&file, &name, busy_timeout, mode));
        let opened = opening.await.unwrap_or_else(|error| Err(std::io::Error::from(error).into()));
        let database = opened.map_err(|NotOpened(source)| OpenError { path, source })?;
        Ok(Self { database: Arc::new(database), name: store })
    }

    /// The memory of another name in the same file, on the same connections.
    pub fn store(&self, name: StoreName) -> Self {
        Self { database: Arc::clone(&self.database), name }
    }

    /// The name of this memory.
    pub fn name(&self) -> &StoreName {
        &self.name
    }

    /// The names of the memories in the file that hold a file, sorted.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn store_names(&self) -> Result<Vec<StoreName>, StoreError> {
        self.read_with("listing the stores", |connection, _| {
            let mut statement = connection.prepare_cached("SELECT DISTINCT store FROM file ORDER BY store")?;
            let names = statement.query_map((), |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
        })
        .await
    }

    /// Checks the whole file, all memories in it: SQLite's own check of the database, then that each file has its content,
    /// of the size that is noted, beneath a legal path that is no directory, and that each content has its file. It reads the
    /// whole database. Others may read and write meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Failure`] where the check cannot be made. What it finds is no error, but in the list, which is empty where
    /// all is well.
    pub async fn verify(&self) -> Result<Vec<Problem>, StoreError> {
        self.read_with("verifying the database", |connection, _| verify::problems(connection)).await
    }

    /// Runs `work`, which reads, on a connection and the name of this store, off the async threads.
    async fn read_with<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Connection, &StoreName) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let name = self.name.clone();
        let reading = Arc::clone(&self.database).read(move |connection| work(connection, &name));
        reading.await.map_err(|failure| failure.during(operation))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        let path = path.clone();
        self.read_with("reading", move |connection, store| Files { connection, store }.read(&path)).await
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        let directory = directory.clone();
        self.read_with("listing", move |connection, store| Files { connection, store }.list(&directory)).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        let (path, preconditions) = (path.clone(), preconditions.to_vec());
        let read = move |connection: &mut Connection, store: &StoreName| {
            let files = Files { connection, store };
            let node = files.read(&path)?;
            for (required, expected) in &preconditions {
                expected.check(required, &files.read_version(required)?)?;
            }
            Ok(node)
        };
        self.read_with("reading", read).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.apply_hooked(batch, Box::new(NoHook)).await
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        Some(self)
    }
}

#[async_trait]
impl HookedStore for SqliteStore {
    async fn apply_hooked(&self, batch: Batch, hook: Box<dyn BatchHook>) -> Result<(), StoreError> {
        if self.database.mode() != OpenMode::ReadOnly {
            let name = self.name.clone();
            let applying = Arc::clone(&self.database).write(move |connection| apply(connection, &name, batch, hook));
            return applying.await.map_err(|failure| failure.during(APPLYING));
        }
        if batch.changes().is_empty() {
            return self.read_with(APPLYING, move |connection, store| check(connection, store, &batch)).await;
        }
        Err(Failure::new(FailureKind::AccessDenied, "the store was opened in read-only mode").during(APPLYING))
    }
}

const APPLYING: &str = "applying a batch";

const CHECKING: &str = "checking what a batch requires";

/// Applies the batch in one transaction.
fn apply(
    connection: &mut Connection,
    store: &StoreName,
    batch: Batch,
    hook: Box<dyn BatchHook>,
) -> Result<(), Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::refuse_newer(&transaction)?;
    Ok(hook.around(|| commit(transaction, store, batch).map_err(|failure| failure.during(APPLYING)))?)
}

/// Checks what a batch without changes requires.
fn check(connection: &mut Connection, store: &StoreName, batch: &Batch) -> Result<(), Failure> {
    let transaction = connection.transaction()?; // all is seen at one moment
    check_preconditions(&Files { connection: &transaction, store }, batch)
}

/// Makes the changes and commits the transaction, which is undone where this returns before its end.
fn commit(transaction: Transaction<'_>, store: &StoreName, batch: Batch) -> Result<(), Failure> {
    let files = Files { connection: &transaction, store };
    check_preconditions(&files, &batch)?;
    for change in batch.into_changes() {
        files.change(change)?;
    }
    transaction.commit().map_err(Failure::of_commit)
}

fn check_preconditions(files: &Files<'_>, batch: &Batch) -> Result<(), Failure> {
    Ok(batch.check_preconditions(
        |path| files.read_version(path).map_err(|failure| failure.during(CHECKING)),
        |path| files.usage(path).map_err(|failure| failure.during(CHECKING)),
    )?)
}
