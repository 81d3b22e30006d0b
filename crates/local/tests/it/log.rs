//! The log of changes of one file with new records.

use std::fs;
use std::path::Path;

use memory_tool_core::{Batch, ErrorKind, OpenOptions, ReadOptions, Store, StoreError, StoreExt as _};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{path, record};
use tempfile::TempDir;

use crate::support::leave_unfinished;

const PREPARED: &[u8] = b"prepared";
const SETTLED: &[u8] = b"settled\0";

async fn content(store: &LocalStore, name: &str) -> Option<String> {
    let node = store.read_opts(&record(name), ReadOptions::new()).await.unwrap();
    node.into_file().map(|file| String::from_utf8(file.content).unwrap())
}

/// A store whose last change replaced the text "old" of `/memories/a`.
async fn edited() -> TempDir {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.write("/memories/a", "old").await.unwrap();
    for number in 1..=2 {
        let batch = Batch::new().write(path("/memories/a"), format!("new {number}"));
        store.apply(batch.write(record(&format!("log/{number}")), format!("entry {number}"))).await.unwrap();
    }
    directory
}

fn log(base: &Path) -> Vec<u8> {
    fs::read(base.join(".memory-tool/log")).unwrap()
}

/// Makes the last frame one of a program that ended before it settled the change.
fn unsettle(base: &Path) {
    let mut log = log(base);
    let last = log.windows(SETTLED.len()).rposition(|state| state == SETTLED).unwrap();
    log[last..last + PREPARED.len()].copy_from_slice(PREPARED);
    fs::write(base.join(".memory-tool/log"), log).unwrap();
    leave_unfinished(base);
}

#[tokio::test]
async fn records_that_a_loss_of_power_took_are_created_again() {
    let directory = edited().await;
    let records = directory.path().join(".memory-tool/records/log");
    fs::remove_file(records.join("1")).unwrap();
    fs::write(records.join("2"), "").unwrap();
    let options = OpenOptions::new().read_only();
    let reader = LocalStore::builder(directory.path()).options(options).open().await.unwrap();
    let pending = reader.read("/memories/a").await;
    assert!(matches!(pending, Err(StoreError::Failure { kind: ErrorKind::Busy, .. })), "{pending:?}");
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert_eq!(content(&store, "log/1").await.unwrap(), "entry 1");
    assert_eq!(content(&store, "log/2").await.unwrap(), "entry 2");
    assert_eq!(reader.read_to_string("/memories/a").await.unwrap(), "new 2");
}

/// The session cleared its log, and does not know the one of the copy.
#[tokio::test]
async fn a_log_that_is_restored_beside_a_session_is_cleared_too() {
    let directory = edited().await;
    let session = LocalStore::open(directory.path()).await.unwrap();
    let backup = ["log", "sequence"].map(|name| directory.path().join(".memory-tool").join(name));
    let backup = backup.map(|path| (fs::read(&path).unwrap(), path));
    session.apply(Batch::new().write(record("other"), "")).await.unwrap();
    backup.iter().for_each(|(content, path)| fs::write(path, content).unwrap());
    let other = LocalStore::open(directory.path()).await.unwrap();
    other.apply(Batch::new().write(path("/memories/a"), "3").write(record("log/3"), "entry 3")).await.unwrap();
    session.apply(Batch::new().remove(record("log/1"))).await.unwrap();
    assert!(!log(directory.path()).windows(7).any(|text| text == b"entry 1"));
    let reopened = LocalStore::open(directory.path()).await.unwrap();
    assert_eq!(content(&reopened, "log/1").await, None);
}

#[tokio::test]
async fn a_change_that_another_program_takes_back_stays_in_the_log() {
    let directory = edited().await;
    fs::write(directory.path().join("memories/a"), "new 1").unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.write("/memories/b", "").await.unwrap();
    assert_eq!(content(&store, "log/2").await.unwrap(), "entry 2");
}

#[tokio::test]
async fn a_change_that_was_not_made_is_struck_out() {
    let directory = edited().await;
    unsettle(directory.path());
    fs::write(directory.path().join("memories/a"), "new 1").unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert_eq!(content(&store, "log/2").await, None);
    assert_eq!(content(&store, "log/1").await.unwrap(), "entry 1");
    assert_eq!(store.read_to_string("/memories/a").await.unwrap(), "new 1");
    store.apply(Batch::new().write(path("/memories/a"), "3").write(record("log/2"), "another")).await.unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert_eq!(content(&store, "log/2").await.unwrap(), "another");
}

/// Recovery does not change a file that another program changed.
#[tokio::test]
async fn a_file_that_another_program_changed_after_a_crash_stays() {
    for theirs in [Some("theirs"), None] {
        let directory = edited().await;
        unsettle(directory.path());
        let file = directory.path().join("memories/a");
        match theirs {
            Some(text) => fs::write(&file, text).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let store = LocalStore::open(directory.path()).await.unwrap();
        assert_eq!(content(&store, "log/2").await.unwrap(), "entry 2");
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), theirs);
    }
}

#[tokio::test]
async fn the_texts_of_removed_records_leave_the_log() {
    let directory = edited().await;
    let has_text = || log(directory.path()).windows(7).any(|text| text == b"entry 1");
    assert!(has_text());
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.apply(Batch::new().remove(record("log/1"))).await.unwrap();
    assert!(!has_text());
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert_eq!(content(&store, "log/1").await, None);
    assert_eq!(content(&store, "log/2").await.unwrap(), "entry 2");
}

#[tokio::test]
async fn the_texts_of_a_change_that_was_not_made_leave_the_log() {
    let has_text = |base: &Path, text: &[u8]| log(base).windows(text.len()).any(|found| found == text);
    for is_whole in [true, false] {
        let directory = edited().await;
        let base = directory.path();
        let long = format!("{}secret", "x".repeat(2_000));
        let store = LocalStore::open(base).await.unwrap();
        store.apply(Batch::new().remove(record("log"))).await.unwrap();
        let batch = Batch::new().write(path("/memories/a"), "new 3").write(record("log/3"), long);
        store.apply(batch).await.unwrap();
        drop(store);
        assert!(has_text(base, b"secret"));
        unsettle(base);
        if is_whole {
            fs::write(base.join("memories/a"), "new 2").unwrap();
        } else {
            // A part of the frame that does not include its first sector.
            let mut part = log(base);
            part[..512].fill(0);
            fs::write(base.join(".memory-tool/log"), part).unwrap();
        }
        let store = LocalStore::open(base).await.unwrap();
        store.write("/memories/b", "").await.unwrap();
        assert!(!has_text(base, b"secret"), "{is_whole}");
        assert_eq!(store.read_to_string("/memories/a").await.unwrap(), if is_whole { "new 2" } else { "new 3" });
    }
}

#[tokio::test]
async fn a_full_log_is_cleared() {
    const BYTES: usize = 30_000;
    let directory = edited().await;
    let store = LocalStore::open(directory.path()).await.unwrap();
    for number in 3..40 {
        let batch = Batch::new().write(path("/memories/a"), format!("new {number}"));
        store.apply(batch.write(record(&format!("log/{number}")), "x".repeat(BYTES))).await.unwrap();
        assert!(log(directory.path()).len() <= 512 * 1024);
    }
    for number in 3..40 {
        assert_eq!(content(&store, &format!("log/{number}")).await.unwrap().len(), BYTES);
    }
}

/// Two sessions continue the same log.
#[tokio::test]
async fn sessions_in_turns_lose_no_frame() {
    let directory = edited().await;
    let sessions =
        [LocalStore::open(directory.path()).await.unwrap(), LocalStore::open(directory.path()).await.unwrap()];
    for number in 3..20 {
        let batch = Batch::new().write(path("/memories/a"), format!("new {number}"));
        let batch = batch.write(record(&format!("log/{number}")), format!("entry {number}"));
        sessions[number % 2].apply(batch).await.unwrap();
    }
    fs::remove_dir_all(directory.path().join(".memory-tool/records")).unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    for number in 1..20 {
        assert_eq!(content(&store, &format!("log/{number}")).await.unwrap(), format!("entry {number}"));
    }
}
