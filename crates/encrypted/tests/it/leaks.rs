//! No plaintext anywhere: everything that a store ever hands down, and everything that lies on a disk, is searched for contents and
//! names, also after `kill -9`.
//!
//! The test starts itself again as the process that is killed.

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
use memory_tool_core::{
    Batch, Change, InMemoryStore, MemoryPath, Node, ReadOptions, RecordChange, RecordName, Store, StoreError,
    StoredFile,
};
use memory_tool_encrypted::{EncryptedStore, Padding, RekeyProgress};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::by_tier;
use tempfile::TempDir;

/// What nobody may find who has not the key: texts, and names of files and directories.
const SECRETS: [&str; 4] =
    ["customer called about the divorce", "seconds thoughts of Zoë", "divorce-papers", "ex-spouses"];

/// Every form in which a text may be recognized.
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
    // In base64 a text looks otherwise after one or two other bytes; what its neighbours have a part in is left out.
    for shift in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([&b"xx"[..shift], bytes].concat()).into_bytes();
        forms.push(encoded[if shift == 0 { 0 } else { shift + 1 }..encoded.len() - 2].to_vec());
    }
    forms
}

/// The secrets that are in there in whatever form.
fn found_in(haystack: &[u8]) -> Vec<&'static str> {
    let is_in = |needle: &[u8]| haystack.windows(needle.len()).any(|window| window == needle);
    SECRETS.into_iter().filter(|secret| forms(secret).iter().any(|form| is_in(form))).collect()
}

/// Writes, edits, moves and removes what is secret.
async fn work(store: &dyn Store) {
    let file = "/memories/ex-spouses/divorce-papers.txt";
    crate::support::remove(store, &MemoryPath::root()).await;
    write(store, file, SECRETS[0]).await;
    write(store, "/memories/ex-spouses/second", SECRETS[1].repeat(10_000)).await;
    write(store, file, format!("{}\n{}", SECRETS[1], SECRETS[0])).await;
    let batch = Batch::new().rename(path("/memories/ex-spouses"), path("/memories/old ex-spouses"));
    let batch = batch.write(path("/memories/ex-spouses.txt"), SECRETS[0]);
    let batch = batch.write_record(crate::support::record("divorce-papers/of-the-ex-spouses"), SECRETS[0]);
    store.apply(batch).await.unwrap();
    crate::support::remove(store, &path("/memories/old ex-spouses")).await;
    write(store, file, SECRETS[0]).await;
}

#[test]
fn the_search_finds_what_is_there() {
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

/// Notes everything that is handed down to it.
#[derive(Debug, Default)]
struct Recording {
    inner: InMemoryStore,
    handed_down: Mutex<Vec<u8>>,
}

impl Recording {
    fn note(&self, bytes: &[u8]) {
        self.handed_down.lock().unwrap().extend_from_slice(bytes);
    }
}

#[async_trait]
impl Store for Recording {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.note(format!("{path} {options:?}").as_bytes());
        self.inner.read_opts(path, options).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.note(name.as_str().as_bytes());
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, precondition) in batch.preconditions() {
            self.note(format!("{path} {precondition:?}").as_bytes());
        }
        for change in batch.record_changes() {
            self.note(change.name().as_str().as_bytes());
            if let RecordChange::Write { content, .. } = change {
                self.note(content);
            }
        }
        for change in batch.changes() {
            match change {
                Change::Write { path, content } => {
                    self.note(path.as_str().as_bytes());
                    self.note(content);
                }
                Change::Remove { path } => self.note(path.as_str().as_bytes()),
                Change::Rename { from, to } => self.note(format!("{from} {to}").as_bytes()),
            }
        }
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn nothing_secret_is_ever_handed_down() {
    for padding in [Padding::None, Padding::Padme] {
        let recording = Arc::new(Recording::default());
        let store = EncryptedStore::builder(Arc::clone(&recording), ring(1)).padding(padding).open().await.unwrap();
        work(&store).await;
        let store = EncryptedStore::open(Arc::clone(&recording), ring(2).with(key(1))).await.unwrap();
        store.rekey(drop::<RekeyProgress>).await.unwrap();
        let handed_down = recording.handed_down.lock().unwrap();
        assert!(handed_down.len() > 250_000, "{}", handed_down.len());
        assert_eq!(found_in(&handed_down), [""; 0]);
    }
    // Without encryption it would be found.
    let recording = Recording::default();
    work(&recording).await;
    assert_eq!(found_in(&recording.handed_down.lock().unwrap()), SECRETS);
}

/// Where the process that is killed keeps its store, and of which kind it is.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";
const KIND: &str = "MEMORY_TOOL_TEST_KIND";
/// What it prints when it begins.
const AT_WORK: &str = "at work";

async fn beneath(kind: &str, directory: &Path) -> Arc<dyn Store> {
    match kind {
        "local" => Arc::new(LocalStore::open(directory.join("base")).await.unwrap()),
        _ => Arc::new(SqliteStore::open(directory.join("memory.sqlite")).await.unwrap()),
    }
}

#[tokio::test]
#[ignore = "the process that is killed"]
async fn works_until_it_is_killed() {
    let (Ok(directory), Ok(kind)) = (std::env::var(DIRECTORY), std::env::var(KIND)) else { return };
    let store = EncryptedStore::open(beneath(&kind, directory.as_ref()).await, ring(1)).await.unwrap();
    println!("\n{AT_WORK}");
    loop {
        work(&store).await;
    }
}

/// Starts the process, and kills it a while after it began.
fn work_and_be_killed(kind: &str, directory: &Path, after: Duration) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "leaks::works_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(KIND, kind);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == AT_WORK), "it ended by itself");
    sleep(after);
    assert!(process.try_wait().unwrap().is_none(), "it ended by itself");
    process.kill().unwrap();
    process.wait().unwrap();
}

/// The path and the content of every file, whatever it is for.
fn everything_on(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything_on(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}

fn expect_nothing_secret_on(directory: &Path) {
    for (file, content) in everything_on(directory) {
        assert_eq!(found_in(file.to_string_lossy().as_bytes()), [""; 0]);
        assert_eq!(found_in(&content), [""; 0], "in {}", file.display());
    }
}

async fn nothing_secret_is_left_behind(kind: &str) {
    let directory = TempDir::new().unwrap();
    let mut leftovers = 0;
    for round in 0..by_tier(4, 12, 12) {
        work_and_be_killed(kind, directory.path(), Duration::from_millis(17 * round));
        leftovers += everything_on(directory.path()).len();
        expect_nothing_secret_on(directory.path());
    }
    assert!(leftovers > by_tier(4, 12, 12), "{leftovers}");
    let store = EncryptedStore::open(beneath(kind, directory.path()).await, ring(1)).await.unwrap();
    work(&store).await;
    assert_eq!(contents(&store).await.len(), 2);
    drop(store);
    expect_nothing_secret_on(directory.path());
}

#[tokio::test]
async fn nothing_secret_is_left_behind_on_a_disk() {
    nothing_secret_is_left_behind("local").await;
}

#[tokio::test]
async fn nothing_secret_is_left_behind_in_sqlite() {
    nothing_secret_is_left_behind("sqlite").await;
}
