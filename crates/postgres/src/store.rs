//! [`PostgresStore`]: one of the memories in a database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Client, Pool};
use memory_tool_core::{
    Batch, ErrorKind, MemoryName, Node, OpenError, OpenMode, ReadOptions, Store, StoreError, StorePath, VerifyProgress,
    VerifyReport,
};

use crate::config::PostgresStoreBuilder;
use crate::failure::{Failure, OpenFailure};
use crate::files::{Memory, Statements};
use crate::pool::{Connections, Deadline, Held};
use crate::recent::RecentFiles;
use crate::schema::{self, SchemaName, lock_number};
use crate::transaction::Writer;
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
    recent: Arc<RecentFiles>,
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
        let mut deadline = Deadline::after(options.timeout);
        let (connections, schema) = builder.connect().await?;
        schema::prepare(&connections, &schema, builder.owner.as_deref(), options.mode, &mut deadline).await?;
        let memory = memory(&schema, builder.memory, options.max_file_bytes);
        let statements = Arc::new(Statements::new(&schema, options.mode == OpenMode::ReadOnly));
        let (recent, mode, timeout) = (Arc::default(), options.mode, options.timeout);
        let store = Self { connections, statements, schema, memory, recent, mode, timeout };
        let exists = |held: Held| async {
            let exists = store.statements.memory_exists(held.client()?, store.name()).await;
            held.give_back(exists)
        };
        if options.mode != OpenMode::Create
            && *store.name() != MemoryName::default()
            && !store.reading(&mut deadline, exists).await?
        {
            return Err(OpenFailure::NoSuchMemory { name: store.name().clone() });
        }
        Ok(store)
    }

    /// Returns another memory in the same schema, which shares the connections.
    pub fn memory(&self, name: MemoryName) -> Self {
        let memory = memory(&self.schema, name, self.memory.max_file_bytes);
        Self { memory, recent: Arc::default(), ..self.clone() }
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
        let list = |held: Held| async {
            let names = self.statements.memory_names(held.client()?).await;
            held.give_back(names)
        };
        let listed = self.reading(&mut Deadline::after(self.timeout), list).await;
        listed.map_err(|failure| failure.during("listing the memories"))
    }

    /// Reads every file of this memory, and checks the paths of all memories that the role may read. Others may use the
    /// database. If a dump of it was not restored completely, reports only that.
    ///
    /// The server checks its own files with checksums, `pg_amcheck` and backups. `progress` is called after each file
    /// of this memory.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check could not be completed. Damage is a problem in the report, not an error.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let client = self.connections.take(&Deadline::after(self.timeout)).await;
        let held = Held::new(client.map_err(|failure| failure.during(VERIFYING))?);
        let mut report = VerifyReport::default();
        let check = async {
            report.problems = verify::half_restored(held.client()?, &self.schema).await?;
            let can_be_read = report.problems.is_empty();
            if can_be_read {
                report.problems = verify::problems(held.client()?, &self.statements, self.name()).await?;
            }
            Ok(can_be_read)
        };
        let can_be_read = check.await.map_err(|failure: Failure| failure.during(VERIFYING))?;
        held.release();
        if can_be_read { report.read_files(self, progress).await } else { Ok(report) }
    }

    /// Repeats a read after temporary failures.
    async fn reading<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        deadline: &mut Deadline,
        read: impl Fn(Held) -> F,
    ) -> Result<T, Failure> {
        loop {
            let held = self.connections.take(deadline).await.map(Held::new);
            let read = async { read(held?).await };
            match deadline.limit(read).await.flatten() {
                Err(failure @ Failure::Failed { .. }) => deadline.repeat_after(failure).await?,
                read => return read,
            }
        }
    }

    async fn read(&self, client: &Client, path: &StorePath, options: &ReadOptions) -> Result<Node, Failure> {
        let node = self.statements.read(client, &self.memory, path);
        if options.preconditions().is_empty() {
            return node.await;
        }
        // Sent together and run one after the other, so the preconditions are checked after the snapshot.
        let inputs = options.inputs();
        let snapshot = self.statements.snapshot(client, &self.memory, &inputs);
        let (node, snapshot) = futures::future::join(node, snapshot).await;
        options.check(&snapshot?)?;
        node
    }

    /// Checks a batch without changes.
    async fn check(&self, client: &Client, batch: &Batch) -> Result<(), Failure> {
        Ok(batch.check(&self.statements.snapshot(client, &self.memory, &batch.inputs()).await?)?)
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
        if options.allows_stale()
            && options.preconditions().is_empty()
            && let Some(file) = self.recent.get(path)
        {
            return Ok(Node::File(file));
        }
        let results = self.recent.results();
        let read = |held: Held| async {
            let node = self.read(held.client()?, path, &options).await;
            held.give_back(node)
        };
        let read = self.reading(&mut Deadline::after(self.timeout), read).await;
        let node = read.inspect_err(|_| self.recent.clear()).map_err(|failure| failure.during("reading"))?;
        self.recent.add_read(results, path, &node);
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check_file_sizes(self.memory.max_file_bytes)?;
        if batch.changes_nothing() {
            let check = |held: Held| async {
                let checked = self.check(held.client()?, &batch).await;
                held.give_back(checked)
            };
            let checked = self.reading(&mut Deadline::after(self.timeout), check).await;
            self.recent.clear();
            return checked.map_err(|failure| failure.during(APPLYING));
        }
        if self.mode == OpenMode::ReadOnly {
            let failure = Failure::new(ErrorKind::AccessDenied, "the store was opened in read-only mode");
            return Err(failure.during(APPLYING));
        }
        let Self { connections, statements, memory, recent, .. } = self;
        let applying = Writer { connections, statements, memory, recent }.apply(batch, self.timeout).await;
        applying.map_err(|failure| failure.during(APPLYING))
    }
}
