//! The conformance suite on an expiring store whose files do not expire while it runs: over the in-memory store, a local
//! directory, SQLite, and an encrypted store in a local directory. And on a scope of it over a local directory, where the suite
//! also sees the plain files, without the file of the access times among them.
//!
//! The test starts itself again as the program that serves a store and is killed.

#![allow(clippy::print_stdout, reason = "a test without a harness reports by printing")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, InMemoryStore, MAX_PATH_BYTES, Store};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_policies::{ExpiringStore, Scope, ScopedStore};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Says on which stack the suite runs. By default it runs itself once for each.
const STACK: &str = "MEMORY_TOOL_TEST_STACK";
/// Names the directory of the store that the program is to serve.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

/// What only the policy knows of.
const ACCESS_TIMES: &str = "access-times";

/// Short, so that the store takes paths of 1,015 bytes, which a case of the suite needs. `can_store` says what is longer.
const SCOPE: &str = "z";
const SCOPE_DIRECTORY: &str = "scope-z";

fn main() -> Result<ExitCode, BoxError> {
    let name = std::env::var(STACK).ok();
    let stack = Stack::ALL.into_iter().find(|stack| Some(stack.name()) == name.as_deref());
    match (stack, std::env::var_os(DIRECTORY)) {
        (Some(stack), Some(directory)) => serve_store(stack, directory.as_ref()).map(|()| ExitCode::SUCCESS),
        (Some(stack), None) => Ok(Suite::for_store(Fixture { stack }).test()),
        (None, _) => run_each(),
    }
}

/// Runs this test once for each stack, with the same arguments.
fn run_each() -> Result<ExitCode, BoxError> {
    let mut outcome = ExitCode::SUCCESS;
    for stack in Stack::ALL {
        println!("\n{}:", stack.name());
        let status = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(STACK, stack.name())
            .status()?;
        if !status.success() {
            outcome = ExitCode::FAILURE;
        }
    }
    Ok(outcome)
}

fn serve_store(stack: Stack, directory: &Path) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(async { stack.over(stack.open_beneath(directory).await?) })?;
    Ok(serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?)
}

#[derive(Clone, Copy)]
enum Stack {
    InMemory,
    Local,
    Sqlite,
    Encrypted,
    ScopeOverLocal,
}

impl Stack {
    const ALL: [Self; 5] = [Self::InMemory, Self::Local, Self::Sqlite, Self::Encrypted, Self::ScopeOverLocal];

    fn name(self) -> &'static str {
        match self {
            Self::InMemory => "over the in-memory store",
            Self::Local => "over a local directory",
            Self::Sqlite => "over SQLite",
            Self::Encrypted => "over an encrypted store",
            Self::ScopeOverLocal => "a scope, over a local directory",
        }
    }

    async fn open_beneath(self, directory: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(match self {
            Self::InMemory => Arc::new(InMemoryStore::new()),
            Self::Local | Self::ScopeOverLocal => Arc::new(local(directory).await?),
            Self::Sqlite => {
                let opening = SqliteStore::open(directory.join("memory.sqlite"));
                Arc::new(opening.await.map_err(FixtureError::failed)?)
            }
            Self::Encrypted => {
                let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
                let opening = EncryptedStore::open(local(directory).await?, keys);
                Arc::new(opening.await.map_err(FixtureError::failed)?)
            }
        })
    }

    fn over(self, inner: Arc<dyn Store>) -> Result<Arc<dyn Store>, FixtureError> {
        let store = ExpiringStore::builder(inner, Duration::from_secs(24 * 60 * 60)).build();
        let store = store.map_err(FixtureError::failed)?;
        let Self::ScopeOverLocal = self else { return Ok(Arc::new(store)) };
        let scope = Scope::from_trusted_name(SCOPE).map_err(FixtureError::failed)?;
        Ok(Arc::new(ScopedStore::new(store, scope)))
    }
}

async fn local(directory: &Path) -> Result<LocalStore, FixtureError> {
    LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)
}

fn base_in(directory: &Path) -> PathBuf {
    directory.join("base")
}

struct Fixture {
    stack: Stack,
}

/// The place of a memory.
struct Place {
    directory: TempDir,
    /// Where it is in this process alone.
    inner: Arc<dyn Store>,
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = Place;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Place), FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = if shared_memory.is_dir() { TempDir::new_in(shared_memory)? } else { TempDir::new()? };
        let inner = self.stack.open_beneath(directory.path()).await?;
        Ok((self.stack.over(Arc::clone(&inner))?, Place { directory, inner }))
    }

    async fn reopen(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.stack.over(match self.stack {
            Stack::InMemory => Arc::clone(&place.inner),
            other => other.open_beneath(place.directory.path()).await?,
        })
    }

    fn program(&self, place: &Place) -> Result<Command, FixtureError> {
        if let Stack::InMemory = self.stack {
            return Err(FixtureError::lacks("the store beneath is in this process alone"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.env(STACK, self.stack.name()).env(DIRECTORY, place.directory.path());
        Ok(command)
    }

    fn plain_files(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.stack {
            Stack::ScopeOverLocal => {
                let directory = base_in(place.directory.path()).join("memories").join(SCOPE_DIRECTORY);
                fs::create_dir_all(&directory)?; // an empty scope has none
                Ok(directory)
            }
            Stack::Local => Err(FixtureError::lacks("the access times are a file beside them")),
            _ => Err(FixtureError::lacks("the store beneath keeps no plain files")),
        }
    }

    fn directory(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.stack {
            Stack::InMemory => Err(FixtureError::lacks("the store beneath is in this process alone")),
            _ => Ok(place.directory.path().to_owned()),
        }
    }

    fn secrets(&self, place: &Place) -> Vec<String> {
        let name = place.directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned);
        name.into_iter().chain([ACCESS_TIMES.to_owned()]).collect()
    }

    fn can_store(&self, path: &str) -> bool {
        match self.stack {
            Stack::ScopeOverLocal => path.len() + "/".len() + SCOPE_DIRECTORY.len() <= MAX_PATH_BYTES,
            _ => true,
        }
    }
}
