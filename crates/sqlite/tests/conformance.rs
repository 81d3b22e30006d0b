//! The conformance suite on the store of this crate.
//!
//! The test starts itself again as the program that serves a store and is killed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, Store};
use memory_tool_sqlite::{SqliteStore, StoreName};
use tempfile::TempDir;

/// Names the database that the program is to serve.
const DATABASE: &str = "MEMORY_TOOL_TEST_DATABASE";

fn main() -> Result<ExitCode, BoxError> {
    match std::env::var_os(DATABASE) {
        Some(path) => serve_store(path.into()).map(|()| ExitCode::SUCCESS),
        None => Ok(Suite::for_store(Fixture).test()),
    }
}

fn serve_store(path: PathBuf) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = runtime.block_on(SqliteStore::open(path))?;
    Ok(serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?)
}

struct Fixture;

fn database_in(directory: &TempDir) -> PathBuf {
    directory.path().join("memory.sqlite")
}

async fn open(directory: &TempDir) -> Result<SqliteStore, FixtureError> {
    SqliteStore::open(database_in(directory)).await.map_err(FixtureError::failed)
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = TempDir;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, TempDir), FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = if shared_memory.is_dir() { TempDir::new_in(shared_memory)? } else { TempDir::new()? };
        Ok((Arc::new(open(&directory).await?), directory))
    }

    async fn reopen(&self, directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(open(directory).await?))
    }

    fn program(&self, directory: &TempDir) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(DATABASE, database_in(directory));
        Ok(command)
    }

    fn directory(&self, directory: &TempDir) -> Result<PathBuf, FixtureError> {
        Ok(directory.path().to_owned())
    }

    async fn scope(&self, directory: &TempDir, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        let name = StoreName::parse(name).map_err(FixtureError::failed)?;
        Ok(Arc::new(open(directory).await?.store(name)))
    }

    fn secrets(&self, directory: &TempDir) -> Vec<String> {
        directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned).into_iter().collect()
    }
}
