//! [`Target`]: the memory under test, for every kind of backend.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Engine, MemoryPath, MemoryTool, Node, Store, StoreExt};
use serde_json::json;

use crate::access::{Access, Factory, NO_STORE, Opened};
use crate::case::Capability;
use crate::disk::{entries_under, on_disk, read_file, write_file};
use crate::exclusive_store::ExclusiveStore;
use crate::failure::{CaseError, Failure, causes, expect_bytes, expect_text};
use crate::fixture::{FixtureError, ToolOptions};
use crate::program::Program;
use crate::read_back;
use crate::sandbox::{self, Sandbox};
use crate::session::{Client, FirstLeak, InProcess, Session, delete, sorted_lines};

/// Limits on the time and repetitions of a case.
#[derive(Clone, Copy)]
pub(crate) struct RunLimits {
    pub(crate) answer_timeout: Duration,
    /// The number of races between the same clients.
    pub(crate) races: usize,
    /// How long a program is stopped, if the caller chose it.
    pub(crate) stop: Option<Duration>,
    /// Whether the caller lets a case open the memory a second time without needing it.
    pub(crate) has_sessions: bool,
    /// Whether several sessions and programs can use the memory at once.
    pub(crate) has_concurrency: bool,
    /// Whether the caller lets a case trace programs without needing it.
    pub(crate) has_tracing: bool,
}

/// A memory under test, and the ways to access it. Methods fail if the backend does not support them.
pub(crate) struct Target {
    /// The first session on the memory.
    session: Arc<dyn Session>,
    tool: Option<Arc<dyn MemoryTool>>,
    store: Option<Arc<dyn Store>>,
    /// The same store, if only one process can open it.
    exclusive: Option<Arc<ExclusiveStore>>,
    pub(crate) limits: RunLimits,
    /// The first reply to a client that contained one of the secrets.
    pub(crate) first_leak: FirstLeak,
    // The last field, because it holds the resources of the others.
    access: Arc<dyn Access>,
}

impl Target {
    /// Creates an empty memory.
    pub(crate) async fn fresh(
        factory: &dyn Factory,
        options: &ToolOptions,
        limits: RunLimits,
    ) -> Result<Arc<Self>, CaseError> {
        let (mut opened, access) = needing(Capability::Options, factory.fresh(options).await)?;
        let access: Arc<dyn Access> = access.into();
        let mut exclusive = None;
        if let (Opened::Store(store), false) = (&opened, limits.has_concurrency) {
            let store = exclusive.insert(Arc::new(ExclusiveStore::new(Arc::clone(store), Arc::clone(&access))));
            opened = Opened::Store(Arc::<ExclusiveStore>::clone(store));
        }
        let (tool, store) = match &opened {
            Opened::Store(store) => (Some(tool_over(store, options)), Some(Arc::clone(store))),
            Opened::Tool(tool) => (Some(Arc::clone(tool)), None),
            Opened::Program(_) => (None, None),
        };
        let session: Arc<dyn Session> = match &tool {
            Some(tool) => Arc::new(InProcess { tool: Arc::clone(tool), store: store.clone() }),
            None => session_of(opened, limits)?,
        };
        Ok(Arc::new(Self { session, tool, store, exclusive, limits, first_leak: FirstLeak::default(), access }))
    }

    /// A client of the first session.
    pub(crate) fn client(&self) -> Client {
        self.client_of(Arc::clone(&self.session))
    }

    /// A client of another session on the same memory.
    pub(crate) async fn another_client(&self) -> Result<Client, CaseError> {
        Ok(self.client_of(session_of(self.reopened().await?, self.limits)?))
    }

    /// The same, or of the first session if the memory cannot be opened twice.
    pub(crate) async fn another_client_if_any(&self) -> Result<Client, CaseError> {
        let other = if self.limits.has_sessions { self.another_client().await } else { Ok(self.client()) };
        if let Err(CaseError::Unsupported { .. }) = other { Ok(self.client()) } else { other }
    }

    /// A client of a separate program on the same memory.
    pub(crate) async fn process_client(&self) -> Result<Client, CaseError> {
        self.client_of_program(self.program()?).await
    }

    /// A client of a separate program on the same memory, which runs in this sandbox.
    pub(crate) async fn process_client_under(&self, sandbox: &Sandbox) -> Result<Client, CaseError> {
        self.client_of_program(sandbox.around(&self.program()?)).await
    }

    async fn client_of_program(&self, command: Command) -> Result<Client, CaseError> {
        let start = || session_of(Opened::Program(command), self.limits);
        let session = match &self.exclusive {
            Some(store) => store.lend(start).await?,
            None => start()?,
        };
        Ok(self.client_of(session))
    }

    fn client_of(&self, session: Arc<dyn Session>) -> Client {
        Client { session, secrets: self.access.secrets().into(), first_leak: self.first_leak.clone() }
    }

    async fn reopened(&self) -> Result<Opened, CaseError> {
        let reopened = match &self.exclusive {
            Some(store) => store.reopen().await.map(|()| Opened::Store(Arc::<ExclusiveStore>::clone(store))),
            None => self.access.reopen().await,
        };
        needing(Capability::Sessions, reopened)
    }

    fn program(&self) -> Result<Command, CaseError> {
        if !self.limits.has_concurrency && self.exclusive.is_none() {
            let reason = "only a `Store` is closed before another program starts";
            return Err(CaseError::unsupported(Capability::Processes, reason));
        }
        needing(Capability::Processes, self.access.program())
    }

    /// The tool, if it runs in this process.
    pub(crate) fn tool(&self) -> Result<Arc<dyn MemoryTool>, CaseError> {
        let reason = "a program in another process accepts only commands";
        self.tool.clone().ok_or_else(|| CaseError::unsupported(Capability::Tool, reason))
    }

    pub(crate) fn store(&self) -> Result<Arc<dyn Store>, CaseError> {
        self.store.clone().ok_or_else(|| CaseError::unsupported(Capability::Store, NO_STORE))
    }

    /// The same store, opened again.
    pub(crate) async fn another_store(&self) -> Result<Arc<dyn Store>, CaseError> {
        match self.reopened().await? {
            Opened::Store(store) => Ok(store),
            Opened::Tool(_) | Opened::Program(_) => Err(CaseError::unsupported(Capability::Store, NO_STORE)),
        }
    }

    /// The directory that is `/memories`.
    pub(crate) fn plain_files(&self) -> Result<PathBuf, CaseError> {
        needing(Capability::PlainFiles, self.access.plain_files())
    }

    /// The directory under which everything is stored.
    pub(crate) fn directory(&self) -> Result<PathBuf, CaseError> {
        needing(Capability::Directory, self.access.directory())
    }

    /// Another memory that shares the storage, or `None` if its name is refused.
    pub(crate) async fn scope(&self, name: &str) -> Result<Option<Arc<dyn Store>>, CaseError> {
        unless_refused(Capability::Scopes, self.access.scope(name).await)
    }

    pub(crate) async fn ciphertexts(&self) -> Result<Arc<dyn Store>, CaseError> {
        needing(Capability::Sealed, self.access.underlying().await)
    }

    /// Another memory with the same key, and the store that holds its ciphertexts.
    pub(crate) async fn another_with_same_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), CaseError> {
        needing(Capability::Sealed, self.access.another_with_same_key().await)
    }

    /// The store opened with the wrong key, or `None` if it is refused.
    pub(crate) async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, CaseError> {
        unless_refused(Capability::Sealed, self.access.reopen_with_wrong_key().await)
    }

    /// Writes a file: through the store or `create` if possible, because that tests them as well. An existing file is
    /// replaced as another program would.
    pub(crate) async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), CaseError> {
        let plain_file = self.plain_file(path).ok();
        if let Some(file) = plain_file.clone()
            && on_disk(format!("look for {path}"), move || file.try_exists()).await?
        {
            return write_file(path, self.plain_file(path)?, content).await;
        }
        if let Some(store) = &self.store {
            let failed = |error| Failure::new(format!("the store failed to write {path}: {}", causes(&error))).into();
            return store.write(path, content).await.map_err(failed);
        }
        // `create` refuses U+0000 (`[C4]`).
        match (str::from_utf8(&content), plain_file) {
            (Ok(text), _) if !text.contains('\0') => {
                let input = json!({"command": "create", "path": path.as_str(), "file_text": text});
                self.client().send(input).await?.text(false).map(drop)
            }
            (_, Some(file)) => write_file(path, file, content).await,
            (_, None) => Err(CaseError::unsupported(
                Capability::ForeignFiles,
                "files can be created only by commands, which cannot create this one",
            )),
        }
    }

    /// The plain file at a path.
    fn plain_file(&self, path: &MemoryPath) -> Result<PathBuf, CaseError> {
        Ok(path.segments().fold(self.plain_files()?, |file, segment| file.join(segment)))
    }

    /// Checks that a file has exactly these bytes, in each way in which they can be read.
    pub(crate) async fn expect_content(&self, path: &MemoryPath, expected: &[u8]) -> Result<(), CaseError> {
        let plain_file = self.plain_file(path).ok();
        if let Some(file) = plain_file.clone() {
            let found = read_file(path, file).await?;
            expect_bytes(expected, &found).map_err(|failure| failure.in_step(format!("reading {path} on the disk")))?;
        }
        match &self.store {
            Some(store) => match store.read(path).await {
                Ok(Node::File(file)) => expect_bytes(expected, &file.content),
                other => Err(Failure::new(format!("expected a file at {path}, got {other:?}")).into()),
            },
            None if plain_file.is_some() && !read_back::is_shown_whole(expected) => Ok(()),
            None => expect_bytes(expected, &read_back::content(&self.client(), path).await?),
        }
    }

    /// Checks that exactly these files exist, in each way in which they can be listed.
    pub(crate) async fn expect_files(&self, expected: &[MemoryPath]) -> Result<(), CaseError> {
        let expected_lines = sorted_lines(expected.to_vec());
        if let Ok(directory) = self.plain_files() {
            let found = sorted_lines(plain_paths(directory).await?);
            expect_text(&expected_lines, &found).map_err(|failure| failure.in_step("listing the files on the disk"))?;
        }
        let Some(store) = &self.store else {
            return read_back::expect_files(&self.client(), expected).await;
        };
        let files = store.list(MemoryPath::root()).await;
        let files = files.map_err(|error| Failure::new(format!("the store cannot be listed: {}", causes(&error))))?;
        let files = files.into_iter().map(|file| MemoryPath::try_from(file.path)).collect::<Result<_, _>>()?;
        expect_text(&expected_lines, &sorted_lines(files))
    }

    /// Empties the memory of a program, because starting another one takes longer. Returns `false` if that is not
    /// certain, and for other backends.
    pub(crate) async fn is_emptied(&self, paths: &BTreeSet<MemoryPath>) -> bool {
        let names: BTreeSet<_> = paths.iter().filter_map(|path| path.segments().next()).collect();
        let deletes: Vec<_> = names.into_iter().map(|name| delete(format!("/memories/{name}")).to_string()).collect();
        self.tool.is_none()
            && (deletes.is_empty() || self.client().exchange_together(deletes).await.is_ok())
            && self.expect_files(&[]).await.is_ok()
    }

    /// The reason why the target lacks a capability, if it does.
    pub(crate) async fn lack(&self, need: Capability) -> Option<String> {
        let outcome = match need {
            Capability::Tool => self.tool().map(drop),
            Capability::Options | Capability::Concurrency => Ok(()),
            Capability::ForeignFiles | Capability::StoredBytes => {
                self.store().map(drop).or_else(|_| self.plain_files().map(drop))
            }
            Capability::Store => self.store().map(drop),
            Capability::Sessions => self.another_client().await.map(drop),
            Capability::Processes => self.program().map(drop),
            Capability::PlainFiles => self.plain_files().map(drop),
            Capability::Directory => self.directory().map(drop),
            Capability::Mounts => sandbox::expect_mounts().await,
            Capability::Tracing => sandbox::expect_tracing().await,
            Capability::Scopes => self.scope("probe").await.map(drop),
            Capability::Sealed => self.ciphertexts().await.map(drop),
        };
        match outcome {
            Err(CaseError::Unsupported { reason, .. }) => Some(reason),
            Ok(()) | Err(CaseError::Failed(_) | CaseError::NotTested { .. }) => None,
        }
    }
}

fn needing<T>(need: Capability, outcome: Result<T, FixtureError>) -> Result<T, CaseError> {
    outcome.map_err(|error| match error {
        FixtureError::Unsupported { reason } => CaseError::unsupported(need, reason),
        error => Failure::new(format!("the fixture failed: {}", causes(&error))).into(),
    })
}

/// The same, with `None` for a refusal.
fn unless_refused<T>(need: Capability, outcome: Result<T, FixtureError>) -> Result<Option<T>, CaseError> {
    match outcome {
        Err(FixtureError::Failed(_)) => Ok(None),
        outcome => needing(need, outcome).map(Some),
    }
}

fn session_of(opened: Opened, limits: RunLimits) -> Result<Arc<dyn Session>, CaseError> {
    Ok(match opened {
        Opened::Store(store) => {
            Arc::new(InProcess { tool: tool_over(&store, &ToolOptions::default()), store: Some(store) })
        }
        Opened::Tool(tool) => Arc::new(InProcess { tool, store: None }),
        Opened::Program(command) => {
            Arc::new(Program::start(command, limits.answer_timeout + limits.stop.unwrap_or_default())?)
        }
    })
}

fn tool_over(store: &Arc<dyn Store>, options: &ToolOptions) -> Arc<dyn MemoryTool> {
    let builder = Engine::builder(Arc::clone(store)).create_overwrites(options.create_overwrites);
    Arc::new(builder.max_view_characters(options.max_view_characters).build())
}

async fn plain_paths(directory: PathBuf) -> Result<Vec<MemoryPath>, CaseError> {
    let listed = on_disk("list the files", move || {
        let files = entries_under(&directory)?.into_iter().filter(|(_, file_type)| !file_type.is_dir());
        let names = files.map(|(file, _)| {
            let relative = file.strip_prefix(&directory).unwrap_or(&file);
            relative.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join("/")
        });
        Ok(names.collect::<Vec<_>>())
    });
    let parse = |name: String| {
        let path = format!("/memories/{name}");
        path.parse().map_err(|_| Failure::new(format!("{path:?} on the disk is no path")).into())
    };
    listed.await?.into_iter().map(parse).collect()
}
