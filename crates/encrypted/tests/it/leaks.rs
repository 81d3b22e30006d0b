//! Searches for plaintext: all calls to the inner store and all files on a disk, including those left after `kill -9`,
//! are searched for contents and names.
//!
//! The test binary starts itself again as the process to kill.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use crate::support::{contents, key, path, ring, write};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memory_tool_core::{Batch, Change, InMemoryStore, Node, ReadOptions, Store, StoreError, StorePath};
use memory_tool_encrypted::{EncryptedStore, Padding, RekeyProgress};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::by_tier;
use tempfile::TempDir;

/// Contents, and names of files and directories, which must not be visible without the key.
const SECRETS: [&str; 4] =
    ["customer called about the divorce", "seconds thoughts of Zoë", "divorce-papers", "ex-spouses"];

/// The encodings in which a secret could be recognized.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        bytes.to_vec(),
        secret.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        secret.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        hexadecimal.to_uppercase().into_bytes(),
        hexadecimal.into_bytes(),
    ];
    // The base64 encoding depends on the offset modulo 3. Characters that include neighboring bytes are omitted.
    for shift in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([&b"xx"[..shift], bytes].concat()).into_bytes();
        forms.push(encoded[if shift == 0 { 0 } else { shift + 1 }..encoded.len() - 2].to_vec());
    }
    forms
}

/// The secrets that occur in the bytes in any encoding.
fn found_in(haystack: &[u8]) -> Vec<&'static str> {
    let is_in = |needle: &[u8]| memchr::memmem::find(haystack, needle).is_some();
    SECRETS.into_iter().filter(|secret| forms(secret).iter().any(|form| is_in(form))).collect()
}

async fn work(store: &dyn Store) {
    let file = "/memories/ex-spouses/divorce-papers.txt";
    crate::support::remove(store, &StorePath::memories()).await;
    write(store, file, SECRETS[0]).await;
    write(store, "/memories/ex-spouses/second", SECRETS[1].repeat(10_000)).await;
    write(store, file, format!("{}\n{}", SECRETS[1], SECRETS[0])).await;
    let batch = Batch::new().rename(path("/memories/ex-spouses"), path("/memories/old ex-spouses"));
    let batch = batch.write(path("/memories/ex-spouses.txt"), SECRETS[0]);
    let batch = batch.write(crate::support::record("divorce-papers/of-the-ex-spouses"), SECRETS[0]);
    store.apply(batch).await.unwrap();
    crate::support::remove(store, &path("/memories/old ex-spouses")).await;
    write(store, file, SECRETS[0]).await;
}

#[test]
fn the_search_finds_secrets_in_each_encoding() {
    for secret in SECRETS {
        for form in forms(secret) {
            assert_eq!(found_in(&[b"before ", form.as_slice(), b" after"].concat()), [secret]);
        }
        for before in ["", "a", "ab"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret} and after"));
            assert_eq!(found_in(encoded.as_bytes()), [secret], "{encoded}");
        }
    }
    assert_eq!(found_in(b"nothing"), [""; 0]);
}

#[derive(Debug, Default)]
struct LoggingStore {
    inner: InMemoryStore,
    log: Mutex<Vec<u8>>,
}

impl LoggingStore {
    fn log(&self, bytes: &[u8]) {
        self.log.lock().unwrap().extend_from_slice(bytes);
    }
}

#[async_trait]
impl Store for LoggingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.log(format!("{path} {options:?}").as_bytes());
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, precondition) in batch.preconditions() {
            self.log(format!("{path} {precondition:?}").as_bytes());
        }
        for change in batch.changes() {
            match change {
                Change::Write { path, content, .. } => {
                    self.log(path.as_str().as_bytes());
                    self.log(content);
                }
                Change::Remove { path } => self.log(path.as_str().as_bytes()),
                Change::Rename { from, to } => self.log(format!("{from} {to}").as_bytes()),
            }
        }
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn no_secret_reaches_the_inner_store() {
    for padding in [Padding::None, Padding::Padme] {
        let inner = Arc::new(LoggingStore::default());
        let store = EncryptedStore::builder(Arc::clone(&inner), ring(1)).padding(padding).open().await.unwrap();
        work(&store).await;
        let store = EncryptedStore::open(Arc::clone(&inner), ring(2).with(key(1))).await.unwrap();
        store.rekey(drop::<RekeyProgress>).await.unwrap();
        let log = inner.log.lock().unwrap();
        assert!(log.len() > 250_000, "{}", log.len());
        assert_eq!(found_in(&log), [""; 0]);
    }
    // Without encryption, the search finds all secrets.
    let plain = LoggingStore::default();
    work(&plain).await;
    assert_eq!(found_in(&plain.log.lock().unwrap()), SECRETS);
}

/// The environment variable with the directory of the store of the killed process.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";
/// The environment variable with the kind of that store.
const KIND: &str = "MEMORY_TOOL_TEST_KIND";
/// The line that the process prints when it starts to write.
const STARTED: &str = "started";

async fn open_inner(kind: &str, directory: &Path) -> Arc<dyn Store> {
    match kind {
        "local" => Arc::new(LocalStore::open(directory.join("base")).await.unwrap()),
        _ => Arc::new(SqliteStore::open(directory.join("memory.sqlite")).await.unwrap()),
    }
}

#[tokio::test]
#[ignore = "runs as the process to kill"]
async fn works_until_it_is_killed() {
    let (Ok(directory), Ok(kind)) = (std::env::var(DIRECTORY), std::env::var(KIND)) else { return };
    let store = EncryptedStore::open(open_inner(&kind, directory.as_ref()).await, ring(1)).await.unwrap();
    println!("\n{STARTED}");
    loop {
        work(&store).await;
    }
}

fn start_and_kill(kind: &str, directory: &Path, after: Duration) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "leaks::works_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(KIND, kind);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == STARTED), "the process ended early");
    sleep(after);
    assert!(process.try_wait().unwrap().is_none(), "the process ended early");
    process.kill().unwrap();
    process.wait().unwrap();
}

fn files_under(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_under(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}

fn expect_no_secrets_under(directory: &Path) {
    for (file, content) in files_under(directory) {
        assert_eq!(found_in(file.to_string_lossy().as_bytes()), [""; 0]);
        assert_eq!(found_in(&content), [""; 0], "in {}", file.display());
    }
}

async fn killed_processes_leave_no_secrets(kind: &str) {
    let directory = TempDir::new().unwrap();
    let mut searched_files = 0;
    for round in 0..by_tier(4, 12) {
        start_and_kill(kind, directory.path(), Duration::from_millis(17 * round));
        searched_files += files_under(directory.path()).len();
        expect_no_secrets_under(directory.path());
    }
    assert!(searched_files > by_tier(4, 12), "{searched_files}");
    let store = EncryptedStore::open(open_inner(kind, directory.path()).await, ring(1)).await.unwrap();
    work(&store).await;
    assert_eq!(contents(&store).await.len(), 2);
    drop(store);
    expect_no_secrets_under(directory.path());
}

#[tokio::test]
async fn killed_processes_leave_no_secrets_on_a_disk() {
    killed_processes_leave_no_secrets("local").await;
}

#[tokio::test]
async fn killed_processes_leave_no_secrets_in_sqlite() {
    killed_processes_leave_no_secrets("sqlite").await;
}
