//! The conformance suite on an audited store beneath an audited engine: over the in-memory store, a local directory, SQLite, and an
//! encrypted store in a local directory.
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
use memory_tool_policies::{Actor, AuditedStore, AuditedTool, JsonLinesLog, StoreLog};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Says over which store the suite runs. By default it runs itself once for each.
const BENEATH: &str = "MEMORY_TOOL_TEST_BENEATH";
/// Names the directory of the store that the program is to serve.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";
/// Names the directory of its log.
const LOG: &str = "MEMORY_TOOL_TEST_LOG";

const KEY: [u8; 32] = [1; 32];
const WRONG_KEY: [u8; 32] = [2; 32];

fn main() -> Result<ExitCode, BoxError> {
    let name = std::env::var(BENEATH).ok();
    let beneath = Beneath::ALL.into_iter().find(|beneath| Some(beneath.name()) == name.as_deref());
    match (beneath, std::env::var_os(DIRECTORY), std::env::var_os(LOG)) {
        (Some(beneath), Some(directory), Some(log)) => {
            serve_tool(beneath, directory.as_ref(), log.as_ref()).map(|()| ExitCode::SUCCESS)
        }
        (Some(beneath), ..) => Ok(Suite::for_store(Fixture { beneath }).test()),
        (None, ..) => run_each(),
    }
}

/// Runs this test once for each store beneath, with the same arguments.
fn run_each() -> Result<ExitCode, BoxError> {
    let mut outcome = ExitCode::SUCCESS;
    for beneath in Beneath::ALL {
        println!("\naudited, over {}:", beneath.name());
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

/// Serves the tool with both layers; the cases in the test's own process have the store alone.
fn serve_tool(beneath: Beneath, directory: &Path, log: &Path) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tool = runtime.block_on(async {
        let log = open_log(log).await?;
        let store = seal(beneath, beneath.open(directory).await?, KEY).await?;
        let audited = AuditedStore::new(store, log.clone(), actor()?);
        Ok::<_, FixtureError>(AuditedTool::new(Engine::new(audited), log, actor()?).with_views())
    })?;
    Ok(serve(&tool, io::stdin().lock(), io::stdout().lock())?)
}

fn actor() -> Result<Actor, FixtureError> {
    Actor::from_trusted_name("the suite").map_err(FixtureError::failed)
}

async fn open_log(directory: &Path) -> Result<JsonLinesLog, FixtureError> {
    JsonLinesLog::open(directory.join("audit.jsonl")).await.map_err(FixtureError::failed)
}

/// What lies beneath the audited store.
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
            Self::Encrypted => "an encrypted store in a local directory",
        }
    }

    async fn open(self, directory: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        match self {
            Self::InMemory => Ok(Arc::new(InMemoryStore::new())),
            Self::Local | Self::Encrypted => {
                Ok(Arc::new(LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?))
            }
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

async fn seal(beneath: Beneath, inner: Arc<dyn Store>, key: [u8; 32]) -> Result<Arc<dyn Store>, FixtureError> {
    let Beneath::Encrypted = beneath else { return Ok(inner) };
    // By the same name, so that the wrong key is told by what it does.
    let key = RawKey::from_bytes(key).with_id("key".parse().map_err(FixtureError::failed)?);
    let opening = EncryptedStore::open(inner, KeyRing::new(key));
    Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
}

struct Fixture {
    beneath: Beneath,
}

/// The place of a memory, and that of its log.
struct Place {
    directory: TempDir,
    log: TempDir,
    /// Where the memory is in this process alone.
    inner: Arc<dyn Store>,
}

impl Fixture {
    async fn place(&self) -> Result<Place, FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = || if shared_memory.is_dir() { TempDir::new_in(shared_memory) } else { TempDir::new() };
        let (directory, log) = (directory()?, directory()?);
        let inner = self.beneath.open(directory.path()).await?;
        Ok(Place { directory, log, inner })
    }

    /// The store beneath, opened once more where that can be done.
    async fn beneath_of(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        match self.beneath {
            Beneath::InMemory => Ok(Arc::clone(&place.inner)),
            other => other.open(place.directory.path()).await,
        }
    }

    async fn audited(
        &self,
        place: &Place,
        inner: Arc<dyn Store>,
        key: [u8; 32],
    ) -> Result<Arc<dyn Store>, FixtureError> {
        let (store, log) = (seal(self.beneath, inner, key).await?, open_log(place.log.path()).await?);
        Ok(Arc::new(AuditedStore::new(store, log, actor()?).with_digests_of_directories()))
    }

    fn require_encryption(&self) -> Result<(), FixtureError> {
        match self.beneath {
            Beneath::Encrypted => Ok(()),
            _ => Err(FixtureError::lacks("the store beneath is not encrypted")),
        }
    }
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = Place;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Place), FixtureError> {
        let place = self.place().await?;
        Ok((self.audited(&place, Arc::clone(&place.inner), KEY).await?, place))
    }

    async fn reopen(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.audited(place, self.beneath_of(place).await?, KEY).await
    }

    fn program(&self, place: &Place) -> Result<Command, FixtureError> {
        if matches!(self.beneath, Beneath::InMemory) {
            return Err(FixtureError::lacks("the store beneath is in this process alone"));
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.env(BENEATH, self.beneath.name());
        command.env(DIRECTORY, place.directory.path()).env(LOG, place.log.path());
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
            _ => Ok(place.directory.path().to_owned()),
        }
    }

    async fn beneath(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.require_encryption()?;
        self.beneath_of(place).await
    }

    async fn reopen_with_wrong_key(&self, place: &Place) -> Result<Arc<dyn Store>, FixtureError> {
        self.require_encryption()?;
        self.audited(place, self.beneath_of(place).await?, WRONG_KEY).await
    }

    async fn another_of_the_key(&self, _: &Place) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        self.require_encryption()?;
        let (inner, log) = (Arc::new(InMemoryStore::new()), Arc::new(InMemoryStore::new()));
        let store = seal(self.beneath, Arc::clone(&inner) as _, KEY).await?;
        Ok((Arc::new(AuditedStore::new(store, StoreLog::new(log), actor()?)), inner))
    }

    fn secrets(&self, place: &Place) -> Vec<String> {
        [&place.directory, &place.log]
            .into_iter()
            .filter_map(|directory| directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned))
            .collect()
    }
}
