//! [`PostgresStore`]: one of the memories in a database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use memory_tool_core::{
    Batch, ErrorKind, MemoryName, Node, OpenError, OpenMode, ReadOptions, Store, StoreError, StorePath, VerifyProgress,
    VerifyReport,
};

use crate::config::PostgresStoreBuilder;
use crate::failure::{Failure, OpenFailure};
use crate::files::{Memory, Statements};
use crate::pool::{Connections, Deadline, Held};
use crate::schema::{self, SchemaName};
use crate::transaction::{Writer, lock_number};
use crate::verify;

/// A memory in a PostgreSQL database, which may contain any number of memories.
///
/// Any number of machines may open it. No edit is lost, and changes are visible at once. Clones are cheap and share one
/// store. The methods must be called within a tokio runtime with timers and input and output.
///
/// ```no_run
/// use memory_tool_core::{Engine, MemoryTool};
/// use memory_tool_postgres::PostgresStore;
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let store = PostgresStore::open("postgres://bob@db.example/app").await?;
/// let alice = Engine::new(store.memory("alice".parse()?));
/// alice.call(json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"})).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore {
    connections: Arc<Connections>,
    statements: Arc<Statements>,
    schema: SchemaName,
    memory: Memory,
    mode: OpenMode,
    timeout: Duration,
}

impl PostgresStore {
    /// Opens the memory of a URL with the default options. Creates the tables if they do not exist.
    ///
    /// # Errors
    /// The same as [`PostgresStoreBuilder::from_url`] and [`PostgresStoreBuilder::open`].
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let builder = PostgresStoreBuilder::from_url(url);
        builder.map_err(|error| OpenError::new("at the given URL", ErrorKind::Invalid, error))?.open().await
    }

    /// Returns a builder for a store that uses the connections of a program's own pool. It changes no setting of a
    /// session.
    pub fn builder(pool: Pool) -> PostgresStoreBuilder {
        PostgresStoreBuilder::new(pool)
    }

    pub(crate) async fn open_with(builder: PostgresStoreBuilder) -> Result<Self, OpenFailure> {
        let options = builder.options;
        let deadline = Deadline::after(options.timeout);
        let (connections, schema) = builder.connect().await?;
        let mut cause = None;
        while let Err(failure) = schema::prepare(&connections, &schema, options.mode, &deadline).await {
            let is_busy = matches!(failure, OpenFailure::Failed { kind: ErrorKind::Busy, .. });
            match deadline.pause(is_busy).await {
                Some(()) => cause = Some(failure),
                // An earlier failure explains a timeout.
                None => return Err(cause.filter(|_| is_busy).unwrap_or(failure)),
            }
        }
        let memory = memory(&schema, builder.memory, options.max_file_bytes);
        let statements = Arc::new(Statements::new(&schema));
        let store = Self { connections, statements, schema, memory, mode: options.mode, timeout: options.timeout };
        if options.mode != OpenMode::Create && *store.name() != MemoryName::default() {
            let client = store.connections.take(&deadline).await?;
            if !deadline.limit(store.statements.memory_exists(&client, store.name())).await?? {
                return Err(OpenFailure::NoSuchMemory { name: store.name().clone() });
            }
        }
        Ok(store)
    }

    /// Returns another memory in the same schema, which shares the connections.
    pub fn memory(&self, name: MemoryName) -> Self {
        Self { memory: memory(&self.schema, name, self.memory.max_file_bytes), ..self.clone() }
    }

    /// The name of this memory.
    pub fn name(&self) -> &MemoryName {
        &self.memory.name
    }

    /// The sorted names of the memories in the schema that contain a file or a record. Each takes one lookup in the
    /// index, regardless of the number of its files.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn memory_names(&self) -> Result<Vec<MemoryName>, StoreError> {
        let list = async |deadline: &Deadline| {
            let held = Held::new(self.connections.take(deadline).await?);
            let names = deadline.limit(self.statements.memory_names(held.client()?)).await??;
            held.release();
            Ok(names)
        };
        list(&Deadline::after(self.timeout)).await.map_err(|failure: Failure| failure.during("listing the memories"))
    }

    /// Reads every file of this memory, and checks the paths of all memories that the role may read. Others may use the
    /// database.
    ///
    /// The server checks its own files with checksums, `pg_amcheck` and backups. `progress` is called after each file
    /// of this memory.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check could not be completed. Damage is a problem in the report, not an error.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let deadline = Deadline::after(self.timeout);
        let client = self.connections.take(&deadline).await;
        let held = Held::new(client.map_err(|failure| failure.during(VERIFYING))?);
        let mut report = VerifyReport::default();
        let problems = async { verify::problems(held.client()?, &self.statements, self.name()).await };
        report.problems = problems.await.map_err(|failure: Failure| failure.during(VERIFYING))?;
        held.release();
        report.read_files(self, progress).await
    }

    async fn read(&self, path: &StorePath, options: &ReadOptions, deadline: &Deadline) -> Result<Node, Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let client = held.client()?;
        let node = self.statements.read(client, &self.memory, path);
        let node = if options.preconditions().is_empty() {
            deadline.limit(node).await?
        } else {
            // Sent together and run one after the other, so the preconditions are checked after the snapshot.
            let inputs = options.inputs();
            let snapshot = self.statements.snapshot(client, &self.memory, &inputs);
            let (node, snapshot) = deadline.limit(futures::future::join(node, snapshot)).await?;
            options.check(&snapshot?)?;
            node
        };
        if !matches!(node, Err(Failure::Failed { .. })) {
            held.release();
        }
        node
    }

    /// Checks a batch without changes.
    async fn check(&self, batch: &Batch, deadline: &Deadline) -> Result<(), Failure> {
        let held = Held::new(self.connections.take(deadline).await?);
        let inputs = batch.inputs();
        let snapshot = deadline.limit(self.statements.snapshot(held.client()?, &self.memory, &inputs)).await??;
        held.release();
        Ok(batch.check(&snapshot)?)
    }
}

fn memory(schema: &SchemaName, name: MemoryName, max_file_bytes: u64) -> Memory {
    let lock = lock_number(&["memory", &schema.to_string(), name.as_str()]);
    Memory { name, max_file_bytes, lock }
}

const APPLYING: &str = "applying a batch";
const VERIFYING: &str = "verifying the database";

#[async_trait]
impl Store for PostgresStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let mut deadline = Deadline::after(self.timeout);
        loop {
            match self.read(path, &options, &deadline).await {
                Ok(node) => return Ok(node),
                Err(failure) => {
                    deadline.repeat_after(failure).await.map_err(|failure| failure.during("reading"))?;
                }
            }
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check_file_sizes(self.memory.max_file_bytes)?;
        if batch.changes_nothing() {
            let checked = self.check(&batch, &Deadline::after(self.timeout)).await;
            return checked.map_err(|failure| failure.during(APPLYING));
        }
        if self.mode == OpenMode::ReadOnly {
            let failure = Failure::new(ErrorKind::AccessDenied, "the store was opened in read-only mode");
            return Err(failure.during(APPLYING));
        }
        let Self { connections, statements, memory, .. } = self;
        let applying = Writer { connections, statements, memory }.apply(&batch, self.timeout).await;
        applying.map_err(|failure| failure.during(APPLYING))
    }
}
