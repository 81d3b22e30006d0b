//! [`Place`]: where the stores of the cases are, and [`CaseStores`], which makes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture};
use memory_tool_core::Store;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::store_url::{self, StoreUrl};

/// What the directories are called, before what is random in their names.
const PREFIX: &str = "memory-tool-check-";

/// The place of a run, with nothing in it but the stores of the cases. Dropped, it is removed: all that was made, and
/// nothing that was there.
pub(crate) struct Place {
    // The fields are dropped in this order, from the inside out.
    run: TempDir,
    _made: MadeDirectories,
}

impl Place {
    /// Makes the place that a URL names ready. What is there must not be touched, so nothing may be.
    pub(crate) fn make(url: &StoreUrl) -> Result<Self, Failure> {
        let StoreUrl::Local(path) = url;
        let failure = |source| Failure::Place { path: path.clone(), source };
        let directory = std::path::absolute(path).map_err(failure)?;
        let made = MadeDirectories::make(&directory).map_err(failure)?;
        if fs::read_dir(&directory).map_err(failure)?.next().is_some() {
            return Err(Failure::PlaceTaken { path: path.clone() });
        }
        Ok(Self { run: new_directory(&directory).map_err(failure)?, _made: made })
    }

    /// What makes the stores in this place.
    pub(crate) fn fixture(&self) -> CaseStores {
        CaseStores::Local { directory: self.run.path().to_owned() }
    }
}

/// A directory with those above it that did not exist. Dropped, they are removed unless something is in them.
struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    fn make(directory: &Path) -> io::Result<Self> {
        let missing = directory.ancestors().take_while(|ancestor| !ancestor.exists());
        let made = Self(missing.map(Path::to_owned).collect());
        fs::create_dir_all(directory)?; // those made before it failed are removed with the value
        Ok(made)
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            let _ = fs::remove_dir(directory); // fails where somebody else has put something into it
        }
    }
}

fn new_directory(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)
}

/// Makes the stores of the cases, each with nothing in common with the others. A backend adds how that is done.
pub(crate) enum CaseStores {
    /// Each in a directory of its own beneath this one.
    Local { directory: PathBuf },
}

/// The store of a case. Dropped, it is removed.
pub(crate) struct CaseStore {
    url: StoreUrl,
    directory: TempDir,
}

impl CaseStores {
    fn make(&self) -> io::Result<CaseStore> {
        match self {
            Self::Local { directory } => {
                let directory = new_directory(directory)?;
                Ok(CaseStore { url: StoreUrl::Local(directory.path().to_owned()), directory })
            }
        }
    }
}

impl CaseStore {
    async fn open(&self) -> Result<Arc<dyn Store>, FixtureError> {
        store_url::open(&self.url).await.map(Arc::from).map_err(FixtureError::failed)
    }
}

#[async_trait]
impl StoreFixture for CaseStores {
    type Guard = CaseStore;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, CaseStore), FixtureError> {
        let case = self.make()?;
        Ok((case.open().await?, case))
    }

    async fn reopen(&self, case: &CaseStore) -> Result<Arc<dyn Store>, FixtureError> {
        case.open().await
    }

    fn program(&self, case: &CaseStore) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--store"]).arg(case.url.to_argument());
        Ok(command)
    }

    fn plain_files(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        let StoreUrl::Local(directory) = &case.url;
        Ok(directory.join("memories"))
    }

    fn directory(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        Ok(case.directory.path().to_owned())
    }

    fn secrets(&self, case: &CaseStore) -> Vec<String> {
        let name = case.directory.path().file_name();
        name.map(|name| name.to_string_lossy().into_owned()).into_iter().collect()
    }
}
