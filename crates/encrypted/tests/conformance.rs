//! The conformance suite on encrypted stores: over the in-memory store, over a local directory and over SQLite, without padding and
//! with it.
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
use memory_tool_encrypted::{EncryptedStore, KeyRing, Padding, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Says over which store the suite runs. By default it runs itself once for each.
const BENEATH: &str = "MEMORY_TOOL_TEST_BENEATH";
/// Names the directory of the store that the program is to serve.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

fn main() -> Result<ExitCode, BoxError> {
    let beneath =
        std::env::var(BENEATH).ok().and_then(|name| Beneath::ALL.into_iter().find(|beneath| beneath.name() == name));
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
        println!("\nover {}:", beneath.name());
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
    let store = runtime.block_on(async { open(beneath, beneath.open(directory).await?, KEY).await })?;
    Ok(serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?)
}

const KEY: [u8; 32] = [1; 32];
const WRONG_KEY: [u8; 32] = [2; 32];

/// What lies beneath the encryption.
#[derive(Clone, Copy)]
enum Beneath {
    InMemory,
    Local,
    Padded,
    Sqlite,
}

impl Beneath {
    const ALL: [Self; 4] = [Self::InMemory, Self::Local, Self::Padded, Self::Sqlite];

    fn name(self) -> &'static str {
        match self {
            Self::InMemory => "the in-memory store",
            Self::Local => "a local directory",
            Self::Padded => "a local directory, padded",
            Self::Sqlite => "SQLite",
        }
    }

    async fn open(self, directory: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        match self {
            Self::InMemory => Ok(Arc::new(InMemoryStore::new())),
            Self::Local | Self::Padded => {
                Ok(Arc::new(LocalStore::open(directory.join("base")).await.map_err(FixtureError::failed)?))
            }
            Self::Sqlite => {
                let opening = SqliteStore::open(directory.join("memory.sqlite"));
                Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
            }
        }
    }
}

async fn open(beneath: Beneath, inner: Arc<dyn Store>, key: [u8; 32]) -> Result<EncryptedStore, FixtureError> {
    let padding = if matches!(beneath, Beneath::Padded) { Padding::Padme } else { Padding::None };
    // By the same name, so that the wrong key is told by what it does.
    let key = RawKey::from_bytes(key).with_id("key".parse().map_err(FixtureError::failed)?);
    let opening = EncryptedStore::builder(inner, KeyRing::new(key)).padding(padding).open();
    opening.await.map_err(FixtureError::failed)
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

impl Fixture {
    /// The store beneath, opened once more where that can be done.
    async fn beneath_of(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        match self.beneath {
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
        let inner = self.beneath.open(directory.path()).await?;
        let store = open(self.beneath, Arc::clone(&inner), KEY).await?;
        Ok((Arc::new(store), Place { directory, inner }))
    }

    async fn reopen(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(open(self.beneath, self.beneath_of(place).await?, KEY).await?))
    }

    fn program(&self, place: &Place) -> Result<Command, FixtureError> {
        if matches!(self.beneath, Beneath::InMemory) {
            return Err(FixtureError::lacks("the store beneath is in this process alone"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.env(BENEATH, self.beneath.name()).env(DIRECTORY, place.directory.path());
        Ok(command)
    }

    fn directory(&self, place: &Place) -> Result<PathBuf, FixtureError> {
        match self.beneath {
            Beneath::InMemory => Err(FixtureError::lacks("the store beneath is in this process alone")),
            _ => Ok(place.directory.path().to_owned()),
        }
    }

    async fn beneath(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.beneath_of(place).await
    }

    async fn reopen_with_wrong_key(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(open(self.beneath, self.beneath_of(place).await?, WRONG_KEY).await?))
    }

    async fn another_of_the_key(&self, _: &Place) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        let inner: Arc<dyn Store> = Arc::new(InMemoryStore::new());
        Ok((Arc::new(open(self.beneath, Arc::clone(&inner), KEY).await?), inner))
    }

    fn secrets(&self, place: &Place) -> Vec<String> {
        let name = place.directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned);
        name.into_iter().chain(["index-1".to_owned(), "index-2".to_owned()]).collect()
    }
}
