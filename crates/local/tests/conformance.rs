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
use memory_tool_local::LocalStore;
use tempfile::TempDir;

/// Names the base directory of the store that the program is to serve.
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

fn main() -> Result<ExitCode, BoxError> {
    match std::env::var_os(BASE) {
        Some(base) => serve_store(base.into()).map(|()| ExitCode::SUCCESS),
        None => Ok(Suite::for_store(Fixture).test()),
    }
}

fn serve_store(base: PathBuf) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = runtime.block_on(LocalStore::open(base))?;
    Ok(serve(&Engine::new(store), io::stdin().lock(), io::stdout().lock())?)
}

struct Fixture;

fn base_in(directory: &TempDir) -> PathBuf {
    directory.path().join("base")
}

async fn open(directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
    Ok(Arc::new(LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?))
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = TempDir;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, TempDir), FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = if shared_memory.is_dir() { TempDir::new_in(shared_memory)? } else { TempDir::new()? };
        Ok((open(&directory).await?, directory))
    }

    async fn reopen(&self, directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
        open(directory).await
    }

    fn program(&self, directory: &TempDir) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(BASE, base_in(directory));
        Ok(command)
    }

    fn plain_files(&self, directory: &TempDir) -> Result<PathBuf, FixtureError> {
        Ok(base_in(directory).join("memories"))
    }

    fn directory(&self, directory: &TempDir) -> Result<PathBuf, FixtureError> {
        Ok(directory.path().to_owned())
    }

    fn secrets(&self, directory: &TempDir) -> Vec<String> {
        directory.path().file_name().and_then(OsStr::to_str).map(str::to_owned).into_iter().collect()
    }
}
