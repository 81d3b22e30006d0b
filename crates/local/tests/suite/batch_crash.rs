//! `[X1]`, `[X2]`: `kill -9` at random instants of a process that applies batches of several changes. What the process
//! reported as done is there afterwards, and no batch is there in part.
//!
//! The test runs itself again as the process to be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use memory_tool_core::{Batch, MemoryPath, Node, RecordName, Store, StoreExt};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::by_tier;

/// More rounds only follow where none of these showed anything.
const MAX_ROUNDS: u64 = 10_000;
const WRITER: &str = "MEMORY_TOOL_TEST_WRITER";

/// In a process that the test has started: writes until it is killed.
pub(crate) fn write_if_asked() {
    if let Some(base) = std::env::var_os(WRITER) {
        block_on(write_until_killed(Path::new(&base)));
    }
}

pub(crate) fn trial() -> Trial {
    Trial::test("batch_crash::no_kill_leaves_a_batch_in_part", || {
        block_on(kill_writers());
        Ok(())
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

fn record(name: &str) -> RecordName {
    name.parse().unwrap()
}

/// Batch `n` writes `n` to two files and a record, moves a directory to `odd` or `even` by the parity of `n`, and
/// writes or removes a second record.
async fn write_until_killed(base: &Path) {
    let store = LocalStore::open(base).await.unwrap();
    let report = |number: u64| {
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{number}").unwrap();
        stdout.flush().unwrap();
    };
    let found = state(&store).await;
    report(found);
    for number in found + 1.. {
        let (from, to) = if !number.is_multiple_of(2) { ("even", "odd") } else { ("odd", "even") };
        let batch = Batch::new().write(path("/memories/a"), number.to_string().into_bytes());
        let batch = batch.write(path("/memories/new/b"), number.to_string().into_bytes());
        let batch = batch.rename(path(&format!("/memories/{from}")), path(&format!("/memories/{to}")));
        let batch = batch.write_record(record("test/number"), number.to_string());
        let batch = if number.is_multiple_of(2) {
            batch.remove_record(record("test/odd"))
        } else {
            batch.write_record(record("test/odd"), "odd")
        };
        store.apply(batch).await.unwrap();
        report(number);
    }
}

/// The number of the last batch. All of its changes must be present.
async fn state(store: &LocalStore) -> u64 {
    let read = async |text: &str| match store.read(&path(text)).await.unwrap() {
        Node::File(file) => Some(String::from_utf8(file.content).unwrap()),
        _ => None,
    };
    let number: u64 = read("/memories/a").await.unwrap().parse().unwrap();
    assert_eq!(read("/memories/new/b").await, Some(number.to_string()), "a batch is there in part");
    let directories = (read("/memories/even/file").await, read("/memories/odd/file").await);
    let moved = Some("moved".to_owned());
    let expected = if number.is_multiple_of(2) { (moved, None) } else { (None, moved) };
    assert_eq!(directories, expected, "a batch is there in part");
    let read = async |name: &str| store.read_record(&record(name)).await.unwrap().map(|record| record.content);
    assert_eq!(read("test/number").await, Some(number.to_string().into_bytes()), "a batch is there in part");
    assert_eq!(read("test/odd").await.is_some(), !number.is_multiple_of(2), "a batch is there in part");
    number
}

async fn kill_writers() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    let store = LocalStore::open(&base).await.unwrap();
    let start = Batch::new().write(path("/memories/a"), "0");
    let start = start.write(path("/memories/new/b"), "0");
    let start = start.write_record(record("test/number"), "0");
    store.apply(start.write(path("/memories/even/file"), "moved")).await.unwrap();
    let (mut interrupted, mut replayed) = (0, 0);
    let rounds = by_tier(20, 100, 300);
    let mut round = 0;
    while round < rounds || replayed == 0 {
        assert!(round < MAX_ROUNDS, "no kill hit a decided batch: the test shows nothing");
        let (_, acknowledged) = run_writer_for(&base, Duration::from_micros(round * 7_919 % 20_000));
        round += 1;
        interrupted += usize::from(std::fs::read_dir(base.join(".memory-tool/staging")).unwrap().next().is_some());
        replayed += usize::from(base.join(".memory-tool/journal").exists());
        let found = state(&LocalStore::open(&base).await.unwrap()).await;
        assert!(found >= acknowledged, "batch {acknowledged} was acknowledged, but the last that is there is {found}");
        let files: Vec<_> = store.list(&MemoryPath::root()).await.unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(files.len(), 3, "{files:?}");
    }
    println!("{round} kills, {interrupted} of them in the middle of a batch, {replayed} with a journal to complete");
}

/// Starts a writer, and kills it a while after it began. Returns the number of the batch that it found, and of the last
/// one that it reported as done.
fn run_writer_for(base: &Path, duration: Duration) -> (u64, u64) {
    let mut writer = Command::new(std::env::current_exe().unwrap());
    let mut writer = writer.env(WRITER, base).stdout(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(writer.stdout.take().unwrap()).lines().map(|line| line.unwrap().parse().unwrap());
    let found = reported.next().unwrap();
    std::thread::sleep(duration);
    writer.kill().unwrap();
    writer.wait().unwrap();
    (found, reported.last().unwrap_or(found))
}
