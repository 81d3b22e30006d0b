//! `[X1]`, `[X2]`: `kill -9` at random instants of a process that applies batches of several changes. What the process
//! reported as done is there afterwards, no batch is there in part, and the database is sound.
//!
//! The test runs itself again as the process to be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{TestDirectory, path, read};
use libtest_mimic::Trial;
use memory_tool_core::{Batch, MemoryPath, Store, StoreExt};
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::by_tier;

/// More rounds only follow where none of these showed anything.
const MAX_ROUNDS: u64 = 10_000;
const WRITER: &str = "MEMORY_TOOL_TEST_WRITER";

/// In a process that the test has started: writes until it is killed.
pub(crate) fn write_if_asked() {
    if let Some(database) = std::env::var_os(WRITER) {
        block_on(write_until_killed(Path::new(&database)));
    }
}

pub(crate) fn trial() -> Trial {
    Trial::test("crash::no_kill_leaves_a_batch_in_part", || {
        block_on(kill_writers());
        Ok(())
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Batch `n` writes `n` to two files, one of them large, and moves a directory to `odd` or `even` by the parity of `n`.
async fn write_until_killed(database: &Path) {
    let store = SqliteStore::open(database).await.unwrap();
    let report = |number: u64| {
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{number}").unwrap();
        stdout.flush().unwrap();
    };
    let found = state(&store).await;
    report(found);
    for number in found + 1.. {
        let (from, to) = if !number.is_multiple_of(2) { ("even", "odd") } else { ("odd", "even") };
        let batch = write_two(number);
        let batch = batch.rename(path(&format!("/memories/{from}")), path(&format!("/memories/{to}")));
        store.apply(batch).await.unwrap();
        report(number);
    }
}

fn write_two(number: u64) -> Batch {
    let batch = Batch::new().write(path("/memories/a"), number.to_string().into_bytes());
    batch.write(path("/memories/new/b"), format!("{number} ").repeat(10_000).into_bytes())
}

/// The number of the last batch. All of its changes must be present.
async fn state(store: &SqliteStore) -> u64 {
    let number: u64 = read(store, "/memories/a").await.unwrap().parse().unwrap();
    assert_eq!(
        read(store, "/memories/new/b").await,
        Some(format!("{number} ").repeat(10_000)),
        "a batch is there in part"
    );
    let directories = (read(store, "/memories/even/file").await, read(store, "/memories/odd/file").await);
    let moved = Some("moved".to_owned());
    let expected = if number.is_multiple_of(2) { (moved, None) } else { (None, moved) };
    assert_eq!(directories, expected, "a batch is there in part");
    number
}

async fn kill_writers() {
    let directory = TestDirectory::new();
    let store = directory.open().await;
    store.apply(write_two(0).write(path("/memories/even/file"), "moved")).await.unwrap();
    drop(store);
    let (mut written, mut recovered) = (0, 0);
    let rounds = by_tier(20, 100, 300);
    let mut round = 0;
    while round < rounds || written < rounds / 4 {
        assert!(round < MAX_ROUNDS, "too few kills came after a batch: the test shows nothing");
        let (found, acknowledged) = run_writer_for(&directory, Duration::from_micros(round * 7_919 % 20_000));
        round += 1;
        written += u64::from(acknowledged > found);
        recovered += u64::from(directory.database().with_extension("sqlite-wal").exists());
        let store = directory.open().await;
        let found = state(&store).await;
        assert!(found >= acknowledged, "batch {acknowledged} was acknowledged, but the last that is there is {found}");
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
        assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), 3);
    }
    println!("{round} kills, {written} of them after a batch was acknowledged, {recovered} with a log to recover");
}

/// Starts a writer, and kills it a while after it began. Returns the number of the batch that it found, and of the last
/// one that it reported as done.
fn run_writer_for(directory: &TestDirectory, duration: Duration) -> (u64, u64) {
    let mut writer = Command::new(std::env::current_exe().unwrap());
    let mut writer = writer.env(WRITER, directory.database()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(writer.stdout.take().unwrap()).lines().map(|line| line.unwrap().parse().unwrap());
    let found = reported.next().unwrap();
    std::thread::sleep(duration);
    writer.kill().unwrap();
    writer.wait().unwrap();
    (found, reported.last().unwrap_or(found))
}
