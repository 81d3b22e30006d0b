//! [`Place`]: where the stores of the cases are, and [`CaseStores`], which makes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture};
use memory_tool_core::Store;
use memory_tool_sqlite::StoreName;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::store_url::{self, StoreUrl};

/// What the directories are called, before what is random in their names.
const PREFIX: &str = "memory-tool-check-";

/// What the database of a case is called.
const DATABASE: &str = "memory.sqlite";

/// The place of a run, with nothing in it but the stores of the cases. Dropped, it is removed: all that was made, and
/// nothing that was there.
pub(crate) struct Place {
    url: StoreUrl,
    // The fields are dropped in this order, from the inside out.
    run: TempDir,
    _made: MadeDirectories,
}

impl Place {
    /// Makes the place that a URL names ready. What is there must not be touched, so nothing may be.
    pub(crate) fn make(url: &StoreUrl) -> Result<Self, Failure> {
        let failure = |source| Failure::Place { path: url.path().to_owned(), source };
        let directory = directory(url).map_err(failure)?;
        let made = MadeDirectories::make(&directory).map_err(failure)?;
        match url {
            StoreUrl::Local(path) => refuse_taken_directory(path)?,
            StoreUrl::Sqlite { path, .. } => refuse_taken_database(path)?,
        }
        Ok(Self { url: url.clone(), run: new_directory(&directory).map_err(failure)?, _made: made })
    }

    /// What makes the stores in this place.
    pub(crate) fn fixture(&self) -> CaseStores {
        CaseStores { kind: self.url.clone(), run: self.run.path().to_owned() }
    }
}

/// The directory in which the run may have one of its own.
fn directory(url: &StoreUrl) -> io::Result<PathBuf> {
    let path = std::path::absolute(url.path())?;
    match url {
        StoreUrl::Local(_) => Ok(path),
        StoreUrl::Sqlite { .. } => path.parent().map(Path::to_owned).ok_or_else(|| io::ErrorKind::IsADirectory.into()),
    }
}

fn refuse_taken_directory(path: &Path) -> Result<(), Failure> {
    let mut entries = fs::read_dir(path).map_err(|source| Failure::Place { path: path.to_owned(), source })?;
    if entries.next().is_some() { Err(Failure::PlaceTaken { path: path.to_owned() }) } else { Ok(()) }
}

fn refuse_taken_database(path: &Path) -> Result<(), Failure> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match fs::symlink_metadata(&file) {
            Ok(_) => return Err(Failure::DatabaseTaken { path: path.to_owned(), taken: file.into() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Failure::Place { path: path.to_owned(), source }),
        }
    }
    Ok(())
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

/// Makes the stores of the cases, each with nothing in common with the others. A backend adds to the methods what is its
/// own.
pub(crate) struct CaseStores {
    /// What was given for the run.
    kind: StoreUrl,
    /// The directory of the run.
    run: PathBuf,
}

/// The store of a case. Dropped, it is removed.
pub(crate) struct CaseStore {
    url: StoreUrl,
    directory: TempDir,
}

impl CaseStores {
    fn make(&self) -> io::Result<CaseStore> {
        let directory = new_directory(&self.run)?;
        let path = directory.path();
        let url = match &self.kind {
            StoreUrl::Local(_) => StoreUrl::Local(path.to_owned()),
            StoreUrl::Sqlite { store, .. } => StoreUrl::Sqlite { path: path.join(DATABASE), store: store.clone() },
        };
        Ok(CaseStore { url, directory })
    }
}

async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, FixtureError> {
    store_url::open(url).await.map(Arc::from).map_err(FixtureError::failed)
}

#[async_trait]
impl StoreFixture for CaseStores {
    type Guard = CaseStore;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, CaseStore), FixtureError> {
        let case = self.make()?;
        Ok((open(&case.url).await?, case))
    }

    async fn reopen(&self, case: &CaseStore) -> Result<Arc<dyn Store>, FixtureError> {
        open(&case.url).await
    }

    fn program(&self, case: &CaseStore) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--store"]).arg(case.url.to_argument());
        Ok(command)
    }

    fn plain_files(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        match &case.url {
            StoreUrl::Local(directory) => Ok(directory.join("memories")),
            StoreUrl::Sqlite { .. } => Err(FixtureError::lacks("the backend keeps its files in a database")),
        }
    }

    fn directory(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        Ok(case.directory.path().to_owned())
    }

    async fn scope(&self, case: &CaseStore, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        match &case.url {
            StoreUrl::Local(_) => Err(FixtureError::lacks("the backend keeps one memory in a place")),
            StoreUrl::Sqlite { path, .. } => {
                let store = StoreName::parse(name).map_err(FixtureError::failed)?;
                open(&StoreUrl::Sqlite { path: path.clone(), store }).await
            }
        }
    }

    fn secrets(&self, case: &CaseStore) -> Vec<String> {
        let names = [case.directory.path(), case.url.path()].into_iter().filter_map(Path::file_name);
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}
