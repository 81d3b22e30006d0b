//! The conformance suite on a scoped store, and on a mounted store that keeps everything at its root: each over the in-memory
//! store, a local directory and SQLite.
//!
//! The test starts itself again as the program that serves a store and is killed.

#![allow(clippy::print_stdout, reason = "a test without a harness reports by printing")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, InMemoryStore, MAX_PATH_BYTES, Store};
use memory_tool_local::LocalStore;
use memory_tool_policies::{MountedStore, Scope, ScopedStore};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Says on which stack the suite runs. By default it runs itself once for each.
const STACK: &str = "MEMORY_TOOL_TEST_STACK";
/// Names the directory of the store that the program is to serve.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

/// Short, so that the store takes paths of 1,015 bytes, which a case of the suite needs. `can_store` says what is longer.
const SCOPE: &str = "z";
const SCOPE_DIRECTORY: &str = "scope-z";

fn main() -> Result<ExitCode, BoxError> {
    let name = std::env::var(STACK).ok();
    let stack = Stack::all().find(|stack| Some(stack.name()) == name);
    match (stack, std::env::var_os(DIRECTORY)) {
        (Some(stack), Some(directory)) => serve_store(stack, directory.as_ref()).map(|()| ExitCode::SUCCESS),
        (Some(stack), None) => Ok(Suite::for_store(Fixture { stack }).test()),
        (None, _) => run_each(),
    }
}

/// Runs this test once for each stack, with the same arguments.
fn run_each() -> Result<ExitCode, BoxError> {
    let mut outcome = ExitCode::SUCCESS;
    for stack in Stack::all() {
        println!("\n{}:", stack.name());
        let status = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .args(stack.left_out().iter().flat_map(|case| ["--skip", case]))
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
    let store = runtime.block_on(async { stack.over(stack.beneath.open(directory).await?) })?;
    Ok(serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?)
}

/// A policy and what it lies over.
#[derive(Clone, Copy)]
struct Stack {
    policy: Policy,
    beneath: Beneath,
}

#[derive(Clone, Copy)]
enum Policy {
    Scoped,
    Mounted,
}

#[derive(Clone, Copy)]
enum Beneath {
    InMemory,
    Local,
    Sqlite,
}

impl Stack {
    fn all() -> impl Iterator<Item = Self> {
        [Policy::Scoped, Policy::Mounted].into_iter().flat_map(|policy| {
            [Beneath::InMemory, Beneath::Local, Beneath::Sqlite].map(|beneath| Self { policy, beneath })
        })
    }

    fn name(self) -> String {
        let policy = match self.policy {
            Policy::Scoped => "scoped",
            Policy::Mounted => "mounted",
        };
        let beneath = match self.beneath {
            Beneath::InMemory => "the in-memory store",
            Beneath::Local => "a local directory",
            Beneath::Sqlite => "SQLite",
        };
        format!("{policy} over {beneath}")
    }

    /// The cases that do not hold: what several stores hold cannot be limited together.
    fn left_out(self) -> &'static [&'static str] {
        match self.policy {
            Policy::Scoped => &[],
            Policy::Mounted => &["store::capacity-of-the-root"],
        }
    }

    fn over(self, inner: Arc<dyn Store>) -> Result<Arc<dyn Store>, FixtureError> {
        match self.policy {
            Policy::Scoped => scoped(inner, SCOPE),
            Policy::Mounted => {
                let point = "/memories/mounted/beside".parse().map_err(FixtureError::failed)?;
                let store = MountedStore::builder(inner).mount(point, InMemoryStore::new()).build();
                Ok(Arc::new(store.map_err(FixtureError::failed)?))
            }
        }
    }
}

fn scoped(inner: Arc<dyn Store>, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
    let scope = Scope::from_trusted_name(name).map_err(FixtureError::failed)?;
    Ok(Arc::new(ScopedStore::new(inner, scope)))
}

impl Beneath {
    async fn open(self, directory: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        match self {
            Self::InMemory => Ok(Arc::new(InMemoryStore::new())),
            Self::Local => Ok(Arc::new(LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?)),
            Self::Sqlite => {
                let opening = SqliteStore::open(directory.join("memory.sqlite"));
                Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
            }
        }
    }
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

impl Fixture {
    /// The store beneath, opened once more where that can be done.
    async fn beneath_of(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        match self.stack.beneath {
            Beneath::InMemory => Ok(Arc::clone(&place.inner)),
            other => other.open(place.directory.path()).await,
        }
    }
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = Place;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Place), FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = if shared_memory.is_dir() { TempDir::new_in(shared_memory)? } else { TempDir::new()? };
        let inner = self.stack.beneath.open(directory.path()).await?;
        let store = self.stack.over(Arc::clone(&inner))?;
        Ok((store, Place { directory, inner }))
    }

    async fn reopen(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.stack.over(self.beneath_of(place).await?)
    }

    fn program(&self, place: &Place) -> Result<Command, FixtureError> {
        if matches!(self.stack.beneath, Beneath::InMemory) {
            return Err(FixtureError::lacks("the store beneath is in this process alone"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.env(STACK, self.stack.name()).env(DIRECTORY, place.directory.path());
        Ok(command)
    }

    fn plain_files(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        let Beneath::Local = self.stack.beneath else {
            return Err(FixtureError::lacks("the store beneath keeps no plain files"));
        };
        let memories = base_in(place.directory.path()).join("memories");
        let directory = match self.stack.policy {
            Policy::Scoped => memories.join(SCOPE_DIRECTORY),
            Policy::Mounted => memories,
        };
        fs::create_dir_all(&directory)?; // an empty scope has none
        Ok(directory)
    }

    fn directory(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.stack.beneath {
            Beneath::InMemory => Err(FixtureError::lacks("the store beneath is in this process alone")),
            Beneath::Local | Beneath::Sqlite => Ok(place.directory.path().to_owned()),
        }
    }

    async fn scope(&self, place: &Place, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        match self.stack.policy {
            Policy::Scoped => scoped(self.beneath_of(place).await?, name),
            Policy::Mounted => Err(FixtureError::lacks("it is one memory out of several stores")),
        }
    }

    fn secrets(&self, place: &Place) -> Vec<String> {
        let name = place.directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned);
        name.into_iter().chain([SCOPE_DIRECTORY.to_owned()]).collect()
    }

    fn can_store(&self, path: &str) -> bool {
        match self.stack.policy {
            Policy::Scoped => path.len() + "/".len() + SCOPE_DIRECTORY.len() <= MAX_PATH_BYTES,
            Policy::Mounted => true,
        }
    }
}
