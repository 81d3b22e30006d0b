//! The conformance suite on a screened store over a local directory.
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
use memory_tool_policies::{ScreenedStore, SensitiveData};
use tempfile::TempDir;

/// Names the base directory of the store that the program is to serve.
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

fn main() -> Result<ExitCode, BoxError> {
    match std::env::var_os(BASE) {
        Some(base) => serve_store(base.into()).map(|()| ExitCode::SUCCESS),
        None => Ok(Suite::for_store(Fixture { screen: SensitiveData::new() }).test()),
    }
}

fn serve_store(base: PathBuf) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = runtime.block_on(LocalStore::open(base))?;
    Ok(serve(&Engine::new(ScreenedStore::new(store, SensitiveData::new())), io::stdin().lock(), io::stdout().lock())?)
}

struct Fixture {
    screen: SensitiveData,
}

impl Fixture {
    async fn open(&self, directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
        let store = LocalStore::open(base_in(directory)).await.map_err(FixtureError::failed)?;
        Ok(Arc::new(ScreenedStore::new(store, self.screen.clone())))
    }
}

fn base_in(directory: &TempDir) -> PathBuf {
    directory.path().join("base")
}

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = TempDir;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, TempDir), FixtureError> {
        let shared_memory = Path::new("/dev/shm"); // spares the disk thousands of flushes
        let directory = if shared_memory.is_dir() { TempDir::new_in(shared_memory)? } else { TempDir::new()? };
        Ok((self.open(&directory).await?, directory))
    }

    async fn reopen(&self, directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(directory).await
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
