//! [`Subject`]: the memory under test, for every kind of backend.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{MemoryPath, MemoryTool, Node, Store, StoreExt};
use serde_json::json;

use crate::case::Need;
use crate::circumstances::{self, Circumstances};
use crate::failure::{Failure, Stop, causes, ensure, expect_text};
use crate::fixture::ToolOptions;
use crate::program::Program;
use crate::read_back;
use crate::session::{Client, Session, sorted_lines};

/// The reason why cases that need a `Store` are ignored for tools and programs.
const NO_STORE: &str = "the backend is tested only through its commands, without a `Store`";

/// Limits on the time and repetitions of a case.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// The timeout for a response of a program.
    pub(crate) answer_timeout: Duration,
    /// The number of races between the same clients.
    pub(crate) races: usize,
}

/// Creates subjects.
#[async_trait]
pub(crate) trait Door: Send + Sync {
    /// Creates an empty subject.
    async fn fresh(&self, options: &ToolOptions, effort: Effort) -> Result<Arc<dyn Subject>, Stop>;

    /// Whether a file can be stored at this path.
    fn can_store(&self, path: &str) -> bool;
}

/// A memory under test, and the ways to access it. Methods fail if the backend does not support them.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// The first session on the memory.
    fn session(&self) -> Arc<dyn Session>;

    /// Another session on the same memory.
    async fn another_session(&self) -> Result<Arc<dyn Session>, Stop>;

    /// A command that starts a separate program on the same memory.
    fn program(&self) -> Result<Command, Stop>;

    /// The limits for its cases.
    fn effort(&self) -> Effort;

    /// The tool, if it runs in this process.
    fn tool(&self) -> Result<Arc<dyn MemoryTool>, Stop>;

    /// The store of the tool.
    fn store(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Store, NO_STORE))
    }

    /// The same store, opened again.
    async fn another_store(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Store, NO_STORE))
    }

    /// The directory that is `/memories`.
    fn plain_files(&self) -> Result<PathBuf, Stop>;

    /// The directory under which everything is stored.
    fn directory(&self) -> Result<PathBuf, Stop>;

    /// Another memory that shares the storage, or `None` if its name is refused.
    async fn scope(&self, _name: &str) -> Result<Option<Arc<dyn Store>>, Stop> {
        Err(Stop::lacks(Need::Scopes, NO_STORE))
    }

    /// The store that holds the ciphertexts.
    async fn ciphertexts(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// Another memory with the same key, and the store that holds its ciphertexts.
    async fn another_of_the_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// The store opened with the wrong key, or `None` if it is refused.
    async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// Texts that no reply may contain.
    fn secrets(&self) -> Vec<String>;
}

impl dyn Subject + '_ {
    /// A client of the first session.
    pub(crate) fn client(&self) -> Client {
        self.client_of(self.session())
    }

    /// A client of another session on the same memory.
    pub(crate) async fn another_client(&self) -> Result<Client, Stop> {
        Ok(self.client_of(self.another_session().await?))
    }

    /// A client of a separate program on the same memory.
    pub(crate) fn process_client(&self) -> Result<Client, Stop> {
        self.client_of_program(self.program()?)
    }

    /// A client of a separate program on the same memory, which runs under these circumstances.
    pub(crate) fn process_client_under(&self, circumstances: &Circumstances) -> Result<Client, Stop> {
        self.client_of_program(circumstances.around(&self.program()?))
    }

    fn client_of_program(&self, command: Command) -> Result<Client, Stop> {
        Ok(self.client_of(Arc::new(Program::start(command, self.effort().answer_timeout)?)))
    }

    fn client_of(&self, session: Arc<dyn Session>) -> Client {
        Client { session, secrets: self.secrets().into() }
    }

    /// Writes a file as another program would, replacing an existing one.
    pub(crate) async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), Stop> {
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
            Stop::lacks(Need::ForeignFiles, "files can be created only by commands, which cannot create this one")
        })?;
        let input = json!({"command": "create", "path": path.as_str(), "file_text": text});
        self.client().send(input).await?.reply(&format!("File created successfully at: {path}"))
    }

    /// The stored bytes of a file.
    pub(crate) async fn content(&self, path: &MemoryPath) -> Result<Vec<u8>, Stop> {
        match self.store() {
            Ok(store) => match store.read(path).await {
                Ok(Node::File(file)) => Ok(file.content),
                other => Err(Failure::new(format!("expected a file at {path}, got {other:?}")).into()),
            },
            Err(_) => read_back::content(&self.client(), path).await,
        }
    }

    /// Checks that exactly these files exist.
    pub(crate) async fn expect_files(&self, expected: &[MemoryPath]) -> Result<(), Stop> {
        let Ok(store) = self.store() else {
            return read_back::expect_files(&self.client(), expected).await;
        };
        let files = store.list(MemoryPath::root()).await;
        let files = files.map_err(|error| Failure::new(format!("the store cannot be listed: {}", causes(&error))))?;
        let files = files.into_iter().map(|file| file.path).collect();
        Ok(expect_text(&sorted_lines(expected.to_vec()), &sorted_lines(files))?)
    }

    /// The reason why the subject lacks a capability, if it does.
    pub(crate) async fn lack(&self, need: Need) -> Option<String> {
        let outcome = match need {
            Need::Tool => self.tool().map(drop),
            Need::Options => Ok(()),
            Need::ForeignFiles | Need::StoredBytes => match (self.store(), self.plain_files(), need) {
                (Ok(_), ..) | (_, Ok(_), Need::ForeignFiles) => Ok(()),
                _ => Err(Stop::lacks(need, "the files can be accessed only by commands")),
            },
            Need::Store => self.store().map(drop),
            Need::Sessions => self.another_session().await.map(drop),
            Need::Processes => self.program().map(drop),
            Need::PlainFiles => self.plain_files().map(drop),
            Need::Directory => self.directory().map(drop),
            Need::Mounts => circumstances::expect_mounts().await,
            Need::Tracing => circumstances::expect_tracing().await,
            Need::Scopes => self.scope("probe").await.map(drop),
            Need::Sealed => self.ciphertexts().await.map(drop),
        };
        match outcome {
            Err(Stop::Lacks { reason, .. }) => Some(reason),
            Ok(()) | Err(Stop::Failed(_)) => None,
        }
    }
}

async fn put_plain_file(directory: PathBuf, path: &MemoryPath, content: Vec<u8>) -> Result<(), Stop> {
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
pub(crate) fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), Stop> {
    Ok(ensure(holds, message)?)
}
