//! [`Target`]: the memory under test, for every kind of backend.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{MemoryPath, MemoryTool, Node, Store, StoreExt};
use serde_json::json;

use crate::case::Capability;
use crate::failure::{CaseError, Failure, causes, expect_bytes, expect_text};
use crate::fixture::ToolOptions;
use crate::program::Program;
use crate::read_back;
use crate::sandbox::{self, Sandbox};
use crate::session::{Client, FirstLeak, Session, sorted_lines};

/// The reason why cases that need a `Store` are ignored for tools and programs.
const NO_STORE: &str = "the backend is tested only through its commands, without a `Store`";

/// The capabilities that only stores have.
pub(crate) const OF_STORES: &[Capability] =
    &[Capability::Store, Capability::StoredBytes, Capability::Scopes, Capability::Sealed];

/// Limits on the time and repetitions of a case.
#[derive(Clone, Copy)]
pub(crate) struct RunLimits {
    pub(crate) answer_timeout: Duration,
    /// The number of races between the same clients.
    pub(crate) races: usize,
}

/// Creates targets.
#[async_trait]
pub(crate) trait TargetFactory: Send + Sync {
    /// Creates an empty target.
    async fn fresh(&self, options: &ToolOptions, limits: RunLimits) -> Result<Arc<dyn Target>, CaseError>;

    fn can_store(&self, path: &str) -> bool;

    /// The capabilities that no backend of this kind has. Their cases are not listed.
    fn missing_capabilities(&self) -> &'static [Capability];
}

/// A memory under test, and the ways to access it. Methods fail if the backend does not support them.
#[async_trait]
pub(crate) trait Target: Send + Sync {
    /// The first session on the memory.
    fn session(&self) -> Arc<dyn Session>;

    async fn another_session(&self) -> Result<Arc<dyn Session>, CaseError>;

    /// A command that starts a separate program on the same memory.
    fn program(&self) -> Result<Command, CaseError>;

    fn limits(&self) -> RunLimits;

    /// The tool, if it runs in this process.
    fn tool(&self) -> Result<Arc<dyn MemoryTool>, CaseError>;

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

    /// The first reply to a client that contained one.
    fn first_leak(&self) -> &FirstLeak;
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
        Client { session, secrets: self.secrets().into(), first_leak: self.first_leak().clone() }
    }

    /// Writes a file: through the store or `create` if possible, because that tests them as well. An existing file is
    /// replaced as another program would.
    pub(crate) async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), CaseError> {
        let plain_files = self.plain_files().ok();
        if let Some(directory) = &plain_files
            && is_plain_file(directory.clone(), path).await?
        {
            return put_plain_file(directory.clone(), path, content).await;
        }
        if let Ok(store) = self.store() {
            return store
                .write(path, content)
                .await
                .map_err(|error| Failure::new(format!("the store failed to write {path}: {}", causes(&error))).into());
        }
        // `create` refuses U+0000 (`[C4]`).
        let text = str::from_utf8(&content).ok().filter(|text| !text.contains('\0'));
        match (text, plain_files) {
            (Some(text), _) => {
                let input = json!({"command": "create", "path": path.as_str(), "file_text": text});
                self.client().send(input).await?.text(false).map(drop)
            }
            (None, Some(directory)) => put_plain_file(directory, path, content).await,
            (None, None) => Err(CaseError::unsupported(
                Capability::ForeignFiles,
                "files can be created only by commands, which cannot create this one",
            )),
        }
    }

    /// Checks that a file has exactly these bytes, in each way in which they can be read.
    pub(crate) async fn expect_content(&self, path: &MemoryPath, expected: &[u8]) -> Result<(), CaseError> {
        let plain_files = self.plain_files().ok();
        if let Some(directory) = &plain_files {
            let found = plain_file(directory.clone(), path).await?;
            expect_bytes(expected, &found).map_err(|failure| failure.in_step(format!("reading {path} on the disk")))?;
        }
        match self.store() {
            Ok(store) => match store.read(path).await {
                Ok(Node::File(file)) => Ok(expect_bytes(expected, &file.content)?),
                other => Err(Failure::new(format!("expected a file at {path}, got {other:?}")).into()),
            },
            Err(_) if plain_files.is_some() && !read_back::is_shown_whole(expected) => Ok(()),
            Err(_) => Ok(expect_bytes(expected, &read_back::content(&self.client(), path).await?)?),
        }
    }

    /// Checks that exactly these files exist, in each way in which they can be listed.
    pub(crate) async fn expect_files(&self, expected: &[MemoryPath]) -> Result<(), CaseError> {
        if let Ok(directory) = self.plain_files() {
            let found = sorted_lines(plain_paths(directory).await?);
            expect_text(&sorted_lines(expected.to_vec()), &found)
                .map_err(|failure| failure.in_step("listing the files on the disk"))?;
        }
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
            Capability::ForeignFiles | Capability::StoredBytes => match (self.store(), self.plain_files()) {
                (Ok(_), _) | (_, Ok(_)) => Ok(()),
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

fn on_disk(directory: PathBuf, path: &MemoryPath) -> PathBuf {
    path.segments().fold(directory, |file, segment| file.join(segment))
}

/// Runs blocking file operations off the async threads.
async fn blocking<T: Send + 'static>(
    what: String,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CaseError> {
    match tokio::task::spawn_blocking(act).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::new(format!("cannot {what}: {error}")).into()),
        Err(error) => Err(Failure::new(format!("cannot {what}: {error}")).into()),
    }
}

async fn put_plain_file(directory: PathBuf, path: &MemoryPath, content: Vec<u8>) -> Result<(), CaseError> {
    let file = on_disk(directory, path);
    blocking(format!("write {path} on the disk"), move || {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&file, content)
    })
    .await
}

async fn plain_file(directory: PathBuf, path: &MemoryPath) -> Result<Vec<u8>, CaseError> {
    let file = on_disk(directory, path);
    blocking(format!("read {path} on the disk"), move || fs::read(file)).await
}

async fn is_plain_file(directory: PathBuf, path: &MemoryPath) -> Result<bool, CaseError> {
    let file = on_disk(directory, path);
    blocking(format!("look for {path} on the disk"), move || file.try_exists()).await
}

async fn plain_paths(directory: PathBuf) -> Result<Vec<MemoryPath>, CaseError> {
    let listed = blocking("list the files on the disk".to_owned(), move || {
        let mut paths = Vec::new();
        let mut pending = vec![(directory, "/memories".to_owned())];
        while let Some((directory, path)) = pending.pop() {
            let entries = match fs::read_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // an empty memory
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let path = format!("{path}/{}", entry.file_name().to_string_lossy());
                if entry.file_type()?.is_dir() {
                    pending.push((entry.path(), path));
                } else {
                    paths.push(path);
                }
            }
        }
        Ok(paths)
    });
    let parse =
        |path: String| path.parse().map_err(|_| Failure::new(format!("{path:?} on the disk is no path")).into());
    listed.await?.into_iter().map(parse).collect()
}
