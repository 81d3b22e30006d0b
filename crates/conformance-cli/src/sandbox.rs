//! [`Sandbox`]: the place for the stores of the cases, and [`CaseStores`], which creates them.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use async_trait::async_trait;
use memory_tool::encrypted::{KeyRing, RawKey};
use memory_tool::{BoxError, MemoryOptions, OpenOptions, Store, StoreUrl};
use memory_tool_cli::failure::Failure;
use memory_tool_cli::memory;
use memory_tool_cli::options::encryption::Encryption;
use memory_tool_conformance::{BackendFixture, FixtureError};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bucket::{BucketSandbox, PREFIX, url_under};

const DATABASE: &str = "memory.sqlite";

/// The name of a case's second memory.
const ANOTHER: &str = "another";

/// Removes the files or objects of the run on drop.
pub(crate) type Sandbox = Box<dyn Any>;

/// Creates a sandbox at the URL without touching existing data: a directory must be empty, a database must not exist,
/// and a bucket gets a random prefix.
pub(crate) fn make(
    url: &StoreUrl,
    encryption: &Encryption,
    runtime: &Runtime,
) -> Result<(CaseStores, Sandbox), Failure> {
    // Detects errors before the first case.
    runtime.block_on(options(encryption).key_ring()).map_err(memory::failed_options)?;
    let (run, sandbox): (_, Sandbox) = match url {
        StoreUrl::Local(path) | StoreUrl::TrustedDirectory { path, .. } => {
            let (run, sandbox) = on_disk(path, false)?;
            (StoreUrl::Local(run), sandbox)
        }
        StoreUrl::Sqlite { path, memory } => {
            let (run, sandbox) = on_disk(path, true)?;
            (StoreUrl::Sqlite { path: run, memory: memory.clone() }, sandbox)
        }
        StoreUrl::Bucket { url } => {
            let prefix = BucketSandbox::make(url, runtime)?;
            (StoreUrl::Bucket { url: prefix.0.clone() }, Box::new(prefix))
        }
        StoreUrl::InProcess => return Err(memory::temporary()),
        _ => {
            let known = "name a directory, a SQLite database or a bucket";
            return Err(Failure::new(format!("cannot test a store in {url}: {known}")));
        }
    };
    Ok((CaseStores { run, cases: AtomicU64::default(), encryption: encryption.clone() }, sandbox))
}

/// Creates a directory for the directories of the cases, in the path or next to a database at the path.
fn on_disk(path: &Path, is_database: bool) -> Result<(PathBuf, Sandbox), Failure> {
    let failure = |error| cannot_test(path, error);
    let absolute = std::path::absolute(path).map_err(failure)?;
    let parent = if is_database { absolute.parent() } else { Some(&*absolute) };
    let parent = parent.ok_or_else(|| failure(io::ErrorKind::IsADirectory.into()))?;
    let created = CreatedDirectories::make(parent).map_err(failure)?;
    if is_database { refuse_taken_database(path) } else { refuse_taken_directory(path) }?;
    let run = new_directory(parent).map_err(failure)?;
    // The sandbox is dropped from the inside out.
    Ok((run.path().to_owned(), Box::new((run, created))))
}

fn refuse_taken_directory(path: &Path) -> Result<(), Failure> {
    let mut entries = fs::read_dir(path).map_err(|error| cannot_test(path, error))?;
    match entries.next() {
        Some(_) => Err(cannot_test(path, "the directory is not empty; name a new or empty one")),
        None => Ok(()),
    }
}

fn refuse_taken_database(path: &Path) -> Result<(), Failure> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match fs::symlink_metadata(&file) {
            Ok(_) => return Err(cannot_test(path, format!("{} exists; name a new file", Path::new(&file).display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_test(path, error)),
        }
    }
    Ok(())
}

fn cannot_test(path: &Path, cause: impl Into<BoxError>) -> Failure {
    Failure::caused(format!("cannot test a store in {}", path.display()), cause)
}

/// The created directories, which are removed on drop unless they hold something.
struct CreatedDirectories(Vec<PathBuf>);

impl CreatedDirectories {
    fn make(directory: &Path) -> io::Result<Self> {
        let missing = directory.ancestors().take_while(|ancestor| !ancestor.exists());
        let created = Self(missing.map(Path::to_owned).collect());
        fs::create_dir_all(directory)?; // on failure, dropping the value removes what was created
        Ok(created)
    }
}

impl Drop for CreatedDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            let _ = fs::remove_dir(directory); // fails if it is not empty
        }
    }
}

fn new_directory(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)
}

/// Creates the stores of the cases, which share nothing.
pub(crate) struct CaseStores {
    /// The place of the run: the directory that holds the directories of the cases, or the prefix above theirs.
    run: StoreUrl,
    /// The number of stores in a bucket so far.
    cases: AtomicU64,
    encryption: Encryption,
}

/// The store of a case. Its directory is removed on drop; a prefix is removed with the run.
pub(crate) struct CaseStore {
    url: StoreUrl,
    directory: Option<TempDir>,
}

impl CaseStore {
    /// The URL of another memory, which is removed with this one.
    fn another(&self) -> Result<StoreUrl, FixtureError> {
        Ok(match &self.url {
            StoreUrl::Local(directory) => StoreUrl::Local(directory.join(ANOTHER)),
            StoreUrl::Sqlite { path, memory } => {
                StoreUrl::Sqlite { path: path.with_file_name(ANOTHER), memory: memory.clone() }
            }
            StoreUrl::Bucket { url } => StoreUrl::Bucket { url: url_under(url, ANOTHER) },
            _ => return Err(no_slot()),
        })
    }
}

impl CaseStores {
    fn make(&self) -> Result<CaseStore, FixtureError> {
        let (run, memory) = match &self.run {
            StoreUrl::Local(run) => (run, None),
            StoreUrl::Sqlite { path, memory } => (path, Some(memory.clone())),
            StoreUrl::Bucket { url } => {
                let number = self.cases.fetch_add(1, Ordering::Relaxed).to_string();
                return Ok(CaseStore { url: StoreUrl::Bucket { url: url_under(url, &number) }, directory: None });
            }
            _ => return Err(no_slot()),
        };
        let directory = new_directory(run)?;
        let path = directory.path();
        let url = match memory {
            None => StoreUrl::Local(path.to_owned()),
            Some(memory) => StoreUrl::Sqlite { path: path.join(DATABASE), memory },
        };
        Ok(CaseStore { url, directory: Some(directory) })
    }

    async fn open(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, FixtureError> {
        let memory = memory::open(url, &options(&self.encryption)).await;
        Ok(memory.map_err(FixtureError::failed)?.store())
    }

    async fn key_ring(&self) -> Result<KeyRing, FixtureError> {
        let keys = options(&self.encryption).key_ring().await.map_err(FixtureError::failed)?;
        keys.ok_or_else(|| FixtureError::unsupported("the backend does not encrypt"))
    }
}

async fn open_as_stored(url: &StoreUrl) -> Result<Arc<dyn Store>, FixtureError> {
    let backend = url.open(OpenOptions::new()).await.map_err(FixtureError::failed)?;
    Ok(backend.store())
}

fn options(encryption: &Encryption) -> MemoryOptions {
    let mut options = MemoryOptions::new();
    encryption.set(&mut options);
    options
}

/// The URL of a memory with this name, next to others.
fn scope_in_bucket(url: &str, name: &str) -> Result<StoreUrl, FixtureError> {
    if name.is_empty() {
        return Err(FixtureError::failed("a memory needs a name"));
    }
    // Escaped with `=`, because `%` would be decoded: `a/` must not become a directory, nor `..` a parent.
    let name = percent_encode(name.as_bytes(), NON_ALPHANUMERIC).to_string().replace('%', "=");
    Ok(StoreUrl::Bucket { url: url_under(url, &format!("scopes/{name}")) })
}

#[async_trait]
impl BackendFixture for CaseStores {
    type Guard = CaseStore;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, CaseStore), FixtureError> {
        let case = self.make()?;
        Ok((self.open(&case.url).await?, case))
    }

    async fn reopen(&self, case: &CaseStore) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(&case.url).await
    }

    fn program(&self, case: &CaseStore) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--store"]).arg(case.url.to_string());
        command.args(self.encryption.to_arguments());
        Ok(command)
    }

    fn plain_files(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        match &case.url {
            _ if self.encryption.is_on() => Err(FixtureError::unsupported("the backend encrypts its files")),
            StoreUrl::Local(directory) => Ok(directory.join("memories")),
            StoreUrl::Sqlite { .. } => Err(FixtureError::unsupported("the backend keeps its files in a database")),
            StoreUrl::Bucket { .. } => Err(no_files_on_disk()),
            _ => Err(no_slot()),
        }
    }

    fn directory(&self, case: &CaseStore) -> Result<PathBuf, FixtureError> {
        case.directory.as_ref().map(|directory| directory.path().to_owned()).ok_or_else(no_files_on_disk)
    }

    async fn scope(&self, case: &CaseStore, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        match &case.url {
            StoreUrl::Local(_) => Err(FixtureError::unsupported("the backend keeps one memory in a place")),
            StoreUrl::Sqlite { path, .. } => {
                self.open(&StoreUrl::Sqlite { path: path.clone(), memory: name.to_owned() }).await
            }
            StoreUrl::Bucket { url } => self.open(&scope_in_bucket(url, name)?).await,
            _ => Err(no_slot()),
        }
    }

    async fn underlying(&self, case: &CaseStore) -> Result<Arc<dyn Store>, FixtureError> {
        self.key_ring().await?;
        open_as_stored(&case.url).await
    }

    async fn reopen_with_wrong_key(&self, case: &CaseStore) -> Result<Arc<dyn Store>, FixtureError> {
        let keys = self.key_ring().await?;
        let mut wrong = RawKey::generate().map_err(FixtureError::failed)?;
        if let Some(id) = keys.key_ids().next() {
            wrong = wrong.with_id(id.clone()); // so that it is detected by its effect, not by its id
        }
        let memory = options(&self.encryption).configure(case.url.clone()).await.map_err(FixtureError::failed)?;
        Ok(memory.encrypt(KeyRing::new(wrong)).build().await.map_err(FixtureError::failed)?.store())
    }

    async fn another_with_same_key(&self, case: &CaseStore) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        self.key_ring().await?;
        let another = case.another()?;
        Ok((self.open(&another).await?, open_as_stored(&another).await?))
    }

    fn secrets(&self, case: &CaseStore) -> Vec<String> {
        if let StoreUrl::Bucket { url } = &self.run {
            return secrets_of_bucket(url);
        }
        let database = if let StoreUrl::Sqlite { path, .. } = &case.url { Some(path.as_path()) } else { None };
        let names = case.directory.as_ref().map(TempDir::path).into_iter().chain(database).filter_map(Path::file_name);
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

fn no_files_on_disk() -> FixtureError {
    FixtureError::unsupported("the backend keeps its files in a bucket")
}

fn no_slot() -> FixtureError {
    FixtureError::unsupported("the backend keeps its files in no place that a case could have")
}

/// The random prefix, and the bucket with its neighbouring characters: its name alone may be a word of a file, such as
/// `test`.
fn secrets_of_bucket(run: &str) -> Vec<String> {
    let (_, name) = run.rsplit_once('/').unwrap_or_default();
    let location = run.split_once(':').map_or(run, |(_, location)| location);
    let bucket = location.trim_start_matches('/').split('/').next().unwrap_or_default();
    vec![name.to_owned(), format!("//{bucket}"), format!("{bucket}/{PREFIX}")]
}
