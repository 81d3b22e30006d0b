//! [`Target`]: the memory under test, for every kind of backend.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{MemoryPath, MemoryTool, Node, Store, StoreExt};
use serde_json::json;

use crate::case::Capability;
use crate::failure::{CaseError, Failure, causes, ensure, expect_text};
use crate::fixture::ToolOptions;
use crate::program::Program;
use crate::read_back;
use crate::sandbox::{self, Sandbox};
use crate::session::{Client, Session, sorted_lines};

/// The reason why cases that need a `Store` are ignored for tools and programs.
const NO_STORE: &str = "the backend is tested only through its commands, without a `Store`";

/// The capabilities that only stores have.
pub(crate) const OF_STORES: &[Capability] =
    &[Capability::Store, Capability::StoredBytes, Capability::Scopes, Capability::Sealed];

/// Limits on the time and repetitions of a case.
#[derive(Clone, Copy)]
pub(crate) struct RunLimits {
    /// The timeout for a response of a program.
    pub(crate) answer_timeout: Duration,
    /// The number of races between the same clients.
    pub(crate) races: usize,
}

/// Creates targets.
#[async_trait]
pub(crate) trait TargetFactory: Send + Sync {
    /// Creates an empty target.
    async fn fresh(&self, options: &ToolOptions, limits: RunLimits) -> Result<Arc<dyn Target>, CaseError>;

    /// Whether a file can be stored at this path.
    fn can_store(&self, path: &str) -> bool;

    /// The capabilities that no backend of this kind has. Their cases are not listed.
    fn missing_capabilities(&self) -> &'static [Capability];
}

/// A memory under test, and the ways to access it. Methods fail if the backend does not support them.
#[async_trait]
pub(crate) trait Target: Send + Sync {
    /// The first session on the memory.
    fn session(&self) -> Arc<dyn Session>;

    /// Another session on the same memory.
    async fn another_session(&self) -> Result<Arc<dyn Session>, CaseError>;

    /// A command that starts a separate program on the same memory.
    fn program(&self) -> Result<Command, CaseError>;

    /// The limits for its cases.
    fn limits(&self) -> RunLimits;

    /// The tool, if it runs in this process.
    fn tool(&self) -> Result<Arc<dyn MemoryTool>, CaseError>;

    /// The store of the tool.
    fn store(&self) -> Result<Arc<dyn Store>, CaseError> {
        Err(CaseError::unsupported(Capability::Store, NO_STORE))
    }

    /// The same store, opened again.
    async fn another_store(&self) -> Result<Arc<dyn Store>, CaseError> {
        Err(CaseError::unsupported(Capability::Store, NO_STORE))
    }

    /// The directory that is `/memories`.
    fn plain_files(&self) -> Result<PathBuf, CaseError>;

    /// The directory under which everything is stored.
    fn directory(&self) -> Result<PathBuf, CaseError>;

    /// Another memory that shares the storage, or `None` if its name is refused.
    async fn scope(&self, _name: &str) -> Result<Option<Arc<dyn Store>>, CaseError> {
        Err(CaseError::unsupported(Capability::Scopes, NO_STORE))
    }

    /// The store that holds the ciphertexts.
    async fn ciphertexts(&self) -> Result<Arc<dyn Store>, CaseError> {
        Err(CaseError::unsupported(Capability::Sealed, NO_STORE))
    }

    /// Another memory with the same key, and the store that holds its ciphertexts.
    async fn another_with_same_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), CaseError> {
        Err(CaseError::unsupported(Capability::Sealed, NO_STORE))
    }

    /// The store opened with the wrong key, or `None` if it is refused.
    async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, CaseError> {
        Err(CaseError::unsupported(Capability::Sealed, NO_STORE))
    }

    /// Texts that no reply may contain.
    fn secrets(&self) -> Vec<String>;
}

impl dyn Target + '_ {
    /// A client of the first session.
    pub(crate) fn client(&self) -> Client {
        self.client_of(self.session())
    }

    /// A client of another session on the same memory.
    pub(crate) async fn another_client(&self) -> Result<Client, CaseError> {
        Ok(self.client_of(self.another_session().await?))
    }

    /// A client of a separate program on the same memory.
    pub(crate) fn process_client(&self) -> Result<Client, CaseError> {
        self.client_of_program(self.program()?)
    }

    /// A client of a separate program on the same memory, which runs under these sandbox.
    pub(crate) fn process_client_under(&self, sandbox: &Sandbox) -> Result<Client, CaseError> {
        self.client_of_program(sandbox.around(&self.program()?))
    }

    fn client_of_program(&self, command: Command) -> Result<Client, CaseError> {
        Ok(self.client_of(Arc::new(Program::start(command, self.limits().answer_timeout)?)))
    }

    fn client_of(&self, session: Arc<dyn Session>) -> Client {
        Client { session, secrets: self.secrets().into() }
    }

    /// Writes a file as another program would, replacing an existing one.
    pub(crate) async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), CaseError> {
        if let Ok(directory) = self.plain_files() {
            return put_plain_file(directory, path, content).await;
        }
        if let Ok(store) = self.store() {
            return store
                .write(path, content)
                .await
                .map_err(|error| Failure::new(format!("the store failed to write {path}: {}", causes(&error))).into());
        }
        let text = String::from_utf8(content).map_err(|_| {
            CaseError::unsupported(
                Capability::ForeignFiles,
                "files can be created only by commands, which cannot create this one",
            )
        })?;
        let input = json!({"command": "create", "path": path.as_str(), "file_text": text});
        self.client().send(input).await?.text(false).map(drop)
    }

    /// The stored bytes of a file.
    pub(crate) async fn content(&self, path: &MemoryPath) -> Result<Vec<u8>, CaseError> {
        match self.store() {
            Ok(store) => match store.read(path).await {
                Ok(Node::File(file)) => Ok(file.content),
                other => Err(Failure::new(format!("expected a file at {path}, got {other:?}")).into()),
            },
            Err(_) => read_back::content(&self.client(), path).await,
        }
    }

    /// Checks that exactly these files exist.
    pub(crate) async fn expect_files(&self, expected: &[MemoryPath]) -> Result<(), CaseError> {
        let Ok(store) = self.store() else {
            return read_back::expect_files(&self.client(), expected).await;
        };
        let files = store.list(MemoryPath::root()).await;
        let files = files.map_err(|error| Failure::new(format!("the store cannot be listed: {}", causes(&error))))?;
        let files = files.into_iter().map(|file| file.path).collect();
        Ok(expect_text(&sorted_lines(expected.to_vec()), &sorted_lines(files))?)
    }

    /// The reason why the target lacks a capability, if it does.
    pub(crate) async fn lack(&self, need: Capability) -> Option<String> {
        let outcome = match need {
            Capability::Tool => self.tool().map(drop),
            Capability::Options => Ok(()),
            Capability::ForeignFiles | Capability::StoredBytes => match (self.store(), self.plain_files(), need) {
                (Ok(_), ..) | (_, Ok(_), Capability::ForeignFiles) => Ok(()),
                _ => Err(CaseError::unsupported(need, "the files can be accessed only by commands")),
            },
            Capability::Store => self.store().map(drop),
            Capability::Sessions => self.another_session().await.map(drop),
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
            Ok(()) | Err(CaseError::Failed(_)) => None,
        }
    }
}

async fn put_plain_file(directory: PathBuf, path: &MemoryPath, content: Vec<u8>) -> Result<(), CaseError> {
    let file = path.segments().fold(directory, |file, segment| file.join(segment));
    let written = tokio::task::spawn_blocking(move || {
        file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, content))
    });
    match written.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::new(format!("cannot write {path}: {error}")).into()),
        Err(error) => Err(Failure::new(format!("cannot write {path}: {error}")).into()),
    }
}

/// Fails with the message if the condition is false.
pub(crate) fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), CaseError> {
    Ok(ensure(holds, message)?)
}
