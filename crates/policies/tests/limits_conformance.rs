//! The conformance suite on a limited store that no case fills: over the in-memory store, a local directory, SQLite, and an encrypted
//! store over a local directory.
//!
//! The test starts itself again as the program that serves a store and is killed.

#![allow(clippy::print_stdout, reason = "a test without a harness reports by printing")]

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, InMemoryStore, Store};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_policies::{LimitedStore, Limits};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Says over which store the suite runs. By default it runs itself once for each.
const BENEATH: &str = "MEMORY_TOOL_TEST_BENEATH";
/// Names the directory of the store that the program is to serve.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

fn main() -> Result<ExitCode, BoxError> {
    let name = std::env::var(BENEATH).ok();
    let beneath = Beneath::ALL.into_iter().find(|beneath| Some(beneath.name()) == name.as_deref());
    match (beneath, std::env::var_os(DIRECTORY)) {
        (Some(beneath), Some(directory)) => serve_store(beneath, directory.as_ref()).map(|()| ExitCode::SUCCESS),
        (Some(beneath), None) => Ok(Suite::for_store(Fixture { beneath }).test()),
        (None, _) => run_each(),
    }
}

/// Runs this test once for each store beneath, with the same arguments.
fn run_each() -> Result<ExitCode, BoxError> {
    let mut outcome = ExitCode::SUCCESS;
    for beneath in Beneath::ALL {
        println!("\nlimited over {}:", beneath.name());
        let status = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(BENEATH, beneath.name())
            .status()?;
        if !status.success() {
            outcome = ExitCode::FAILURE;
        }
    }
    Ok(outcome)
}

fn serve_store(beneath: Beneath, directory: &Path) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(beneath.open(directory))?;
    Ok(serve(&Engine::new(limited(store)), io::stdin().lock(), io::stdout().lock())?)
}

/// More than any case needs, and all of it counted.
fn limited(store: Arc<dyn Store>) -> LimitedStore<Arc<dyn Store>> {
    let limits = Limits::none().with_files(1 << 20).with_bytes(1 << 40).with_file_bytes(1 << 30).with_depth(1 << 10);
    LimitedStore::new(store, limits)
}

#[derive(Clone, Copy)]
enum Beneath {
    InMemory,
    Local,
    Sqlite,
    Encrypted,
}

impl Beneath {
    const ALL: [Self; 4] = [Self::InMemory, Self::Local, Self::Sqlite, Self::Encrypted];

    fn name(self) -> &'static str {
        match self {
            Self::InMemory => "the in-memory store",
            Self::Local => "a local directory",
            Self::Sqlite => "SQLite",
            Self::Encrypted => "an encrypted local directory",
        }
    }

    async fn open(self, directory: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        match self {
            Self::InMemory => Ok(Arc::new(InMemoryStore::new())),
            Self::Local => Ok(Arc::new(LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?)),
            Self::Sqlite => {
                let opening = SqliteStore::open(directory.join("memory.sqlite"));
                Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
            }
            Self::Encrypted => {
                let store = LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?;
                let opening = EncryptedStore::open(store, KeyRing::new(RawKey::from_bytes([1; 32])));
                Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
            }
        }
    }
}

fn base_in(directory: &Path) -> PathBuf {
    directory.join("base")
}

struct Fixture {
    beneath: Beneath,
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
        let inner = self.beneath.open(directory.path()).await?;
        Ok((Arc::new(limited(Arc::clone(&inner))), Place { directory, inner }))
    }

    async fn reopen(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        let inner = match self.beneath {
            Beneath::InMemory => Arc::clone(&place.inner),
            other => other.open(place.directory.path()).await?,
        };
        Ok(Arc::new(limited(inner)))
    }

    fn program(&self, place: &Place) -> Result<Command, FixtureError> {
        if let Beneath::InMemory = self.beneath {
            return Err(FixtureError::lacks("the store beneath is in this process alone"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.env(BENEATH, self.beneath.name()).env(DIRECTORY, place.directory.path());
        Ok(command)
    }

    fn plain_files(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.beneath {
            Beneath::Local => Ok(base_in(place.directory.path()).join("memories")),
            _ => Err(FixtureError::lacks("the store beneath keeps no plain files")),
        }
    }

    fn directory(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.beneath {
            Beneath::InMemory => Err(FixtureError::lacks("the store beneath is in this process alone")),
            Beneath::Local | Beneath::Sqlite | Beneath::Encrypted => Ok(place.directory.path().to_owned()),
        }
    }

    fn secrets(&self, place: &Place) -> Vec<String> {
        place.directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned).into_iter().collect()
    }
}
