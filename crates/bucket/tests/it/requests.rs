//! The number and size of requests for each command.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, call, log, path, record, write};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{
    Batch, Engine, MemoryTool as _, OpenMode, OpenOptions, Precondition, ReadOptions, Search, Store,
};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_history::HistoryStore;
use memory_tool_test_fixtures::by_tier;
use serde_json::{Value, json};
use tokio::time::Instant;

const FILES: usize = 200;

/// A store of 200 files of 4 KB.
async fn filled() -> (Arc<TestBucket>, BucketStore) {
    filled_with(FILES).await
}

async fn filled_with(files: usize) -> (Arc<TestBucket>, BucketStore) {
    let (bucket, store) = TestBucket::opened().await;
    for first in (0..files).step_by(100) {
        let batch = (first..files.min(first + 100)).fold(Batch::new(), |batch, number| {
            batch.write(path(&format!("/memories/d/{number:03}.md")), content(number))
        });
        store.apply(batch).await.unwrap();
    }
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(1)).await; // for a checkpoint in the background
    }
    bucket.take_requests();
    (bucket, store)
}

/// 4 KB that begin with a line that no other file has.
fn content(number: usize) -> String {
    format!("file {number}\n{}\n", "x".repeat(4_080))
}

fn short(input: &Value) -> String {
    input.to_string().chars().take(80).collect()
}

async fn requests(bucket: &TestBucket, store: &BucketStore, input: Value) -> Vec<String> {
    bucket.take_requests();
    let reply = call(store, input).await;
    assert!(!reply.starts_with("Error"), "{reply}");
    bucket.take_requests()
}

/// The commands in an order in which each succeeds, and how many requests each makes if no other machine wrote before
/// it. A `create` with more than 16 KiB puts an object before the commit.
fn commands() -> Vec<(usize, Value)> {
    let large = "x".repeat(100_000);
    vec![
        (1, json!({"command": "view", "path": "/memories"})),
        (1, json!({"command": "view", "path": "/memories/d"})),
        (1, json!({"command": "view", "path": "/memories/d/000.md"})),
        (1, json!({"command": "view", "path": "/memories/d/199.md"})),
        (CREATE, json!({"command": "create", "path": "/memories/new", "file_text": content(0)})),
        (CREATE + 1, json!({"command": "create", "path": "/memories/large", "file_text": large})),
        (2, json!({"command": "view", "path": "/memories/large"})),
        (EDIT, json!({"command": "str_replace", "path": "/memories/d/001.md", "old_str": "file 1", "new_str": "one"})),
        (EDIT, json!({"command": "insert", "path": "/memories/d/002.md", "insert_line": 0, "insert_text": "two"})),
        (RENAME, json!({"command": "rename", "old_path": "/memories/new", "new_path": "/memories/old"})),
        (DELETE, json!({"command": "delete", "path": "/memories/old"})),
        (DELETE, json!({"command": "delete", "path": "/memories/large"})),
        (RENAME, json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"})),
        (DELETE, json!({"command": "delete", "path": "/memories/e"})),
    ]
}

const CREATE: usize = 1;
/// The file was read before, and is in a commit. The free number proves that it has not changed.
const EDIT: usize = 1;
const RENAME: usize = 1;
const DELETE: usize = 1;

/// Makes a request that also checks the log, if it is time, instead of the next one.
async fn check_log(store: &BucketStore) {
    store.read_opts(&path("/memories/a"), ReadOptions::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_makes_few_requests() {
    let (bucket, store) = filled().await;
    for (expected, input) in commands() {
        check_log(&store).await;
        let made = requests(&bucket, &store, input.clone()).await;
        assert_eq!(made.len(), expected, "{}: {made:?}", short(&input));
    }
}

/// A command reads the commits of others several at a time, in three groups. An edit does so after it lost a number to
/// others.
#[tokio::test(start_paused = true)]
async fn commits_of_another_machine_add_few_requests() {
    for (commits, added_to_reads, added_to_writes) in [(1, 2, 4), (10, 12, 14)] {
        let (bucket, store) = filled().await;
        let other = bucket.other().await;
        for (expected, input) in commands() {
            for number in 0..commits {
                write(&other, "/memories/other", &number.to_string()).await.unwrap();
            }
            let made = without_checks(requests(&bucket, &store, input.clone()).await);
            let added = match made[0].starts_with("GET") {
                _ if input["command"] == "view" => added_to_reads,
                true => added_to_reads + 1, // the other session has rested, so it was time for a check
                false => added_to_writes,
            };
            assert_eq!(made.len(), expected + added, "{} after {commits} commits: {made:?}", short(&input));
        }
    }
}

/// The requests without the checks of known commits.
fn without_checks(made: Vec<String>) -> Vec<String> {
    let first = made.iter().find(|request| request.starts_with("GET")).cloned().unwrap_or_default();
    let is_check = |index: usize, request: &String| {
        request.starts_with("GET memory/log/") && (made[..index].contains(request) || *request < first)
    };
    let kept = made.iter().enumerate().filter(|(index, request)| !is_check(*index, request));
    kept.map(|(_, request)| request.clone()).collect()
}

/// After a tenth of a second, a poll also requests the last known commit, and the last one of the check before. That
/// takes no additional time.
#[tokio::test(start_paused = true)]
async fn a_poll_after_a_pause_checks_the_log() {
    let (bucket, store) = filled_with(1).await;
    let view = json!({"command": "view", "path": "/memories/d/000.md"});
    check_log(&store).await;
    for (has_written, expected) in [(false, 2), (true, 3), (false, 2)] {
        if has_written {
            write(&store, "/memories/a", "text").await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        bucket.move_away(Duration::from_millis(10));
        let start = Instant::now();
        let made = requests(&bucket, &store, view.clone()).await;
        assert_eq!((made.len(), start.elapsed()), (expected, Duration::from_millis(20)), "{made:?}");
        bucket.move_away(Duration::ZERO);
        assert_eq!(requests(&bucket, &store, view.clone()).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_opening_makes_few_requests() {
    let bucket = TestBucket::new();
    let made = |bucket: &TestBucket| {
        let requests = bucket.take_requests();
        let puts = requests.iter().filter(|request| request.starts_with("PUT")).count();
        (requests.len(), puts)
    };
    let open = |mode| BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().mode(mode)).open();
    let store = open(OpenMode::Create).await.unwrap();
    assert_eq!(made(&bucket), NEW);
    let expected = [(OpenMode::Create, 1), (OpenMode::Existing, 1), (OpenMode::ReadOnly, 0)];
    for (mode, puts) in expected {
        open(mode).await.unwrap();
        assert_eq!(made(&bucket), (EXISTING + 2 * puts, puts), "{mode:?}");
    }
    write(&store, "/memories/a", "text").await.unwrap();
    bucket.take_requests();
    for (mode, puts) in expected {
        open(mode).await.unwrap();
        assert_eq!(made(&bucket), (EXISTING + 1 + 2 * puts, puts), "{mode:?}");
    }
}

/// Packs are read whole.
#[tokio::test(start_paused = true)]
async fn a_check_of_many_small_files_makes_few_requests() {
    let files = by_tier(2_000, 10_000);
    let (bucket, store) = filled_with(files).await;
    let report = store.verify(|_| {}).await.unwrap();
    let made = bucket.take_requests().len();
    println!("{made} requests to check {} files", report.files);
    assert!(report.problems.is_empty() && report.files == files as u64, "{report:?}");
    assert!(made <= files / 10, "{made}");
}

/// A search reads its files at the same time.
#[tokio::test(start_paused = true)]
async fn reads_that_wait_together_share_the_requests_of_a_pack() {
    let (bucket, store) = TestBucket::opened().await;
    let file = |number: usize| path(&format!("/memories/{number}"));
    let content = |number: usize| vec![number as u8; 10_000 + number];
    let batch = (0..FILES).fold(Batch::new(), |batch, number| batch.write(file(number), content(number)));
    store.apply(batch).await.unwrap();
    let other = bucket.open().await;
    bucket.take_requests();

    let paths: Vec<_> = (0..FILES).map(file).collect();
    let reads = paths.iter().map(|path| other.read_opts(path, ReadOptions::new()));
    for (number, read) in futures::future::join_all(reads).await.into_iter().enumerate() {
        assert_eq!(read.unwrap().into_file().unwrap().content, content(number), "{number}");
    }
    let requests = bucket.take_requests();
    assert_eq!(requests.iter().filter(|request| !request.contains("/log/")).count(), 1, "{requests:?}");
}

/// Requests and PUTs of the opening of a new store.
const NEW: (usize, usize) = (8, 2);
/// Requests of the opening of a store without commits but the first, without the test of conditions.
const EXISTING: usize = 3;

/// A record is in a commit or in a separate object, like a file.
#[tokio::test(start_paused = true)]
async fn a_record_makes_as_few_requests_as_a_file() {
    let (bucket, store) = filled().await;
    let name = record("test/small");
    store.apply(Batch::new().write(name.clone(), "small")).await.unwrap();
    bucket.take_requests();
    let version = store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().version;
    assert_eq!(bucket.take_requests(), [format!("GET memory/{}", log(5))]);
    let batch = Batch::new().require(name.clone(), Precondition::Version(version));
    store.apply(batch.write(name, "smaller").write(path("/memories/new"), "new")).await.unwrap();
    assert_eq!(bucket.take_requests(), [format!("PUT memory/{}", log(5))]);
}

/// The size of the store does not matter.
#[tokio::test(start_paused = true)]
async fn an_edit_of_4_kb_sends_less_than_8_kb() {
    for files in [FILES, by_tier(2_000, 10_000)] {
        let (bucket, store) = filled_with(files).await;
        let before = bucket.snapshot().await;
        for number in 0..5 {
            let insert = json!({"command": "insert", "path": format!("/memories/d/{number:03}.md"), "insert_line": 0,
                "insert_text": "a"});
            check_log(&store).await;
            let made = requests(&bucket, &store, insert).await;
            assert!(made.len() == 1 || made.len() == 2 && made[0].contains("packs/"), "{made:?}");
        }
        let mut after = bucket.snapshot().await;
        after.retain(|key, _| !before.contains_key(key));
        assert_eq!(after.len(), 5);
        for (key, bytes) in after {
            assert!(bytes.len() < 8 * 1024, "{key} has {} bytes", bytes.len());
        }
    }
}

/// Few writes of many write a checkpoint, which is not part of the command.
#[tokio::test(start_paused = true)]
async fn no_write_of_many_makes_more_requests() {
    let (bucket, store) = filled().await;
    let mut more = 0;
    for number in 0..2 * FILES {
        let path = format!("/memories/n/{number:03}.md");
        let create = json!({"command": "create", "path": path, "file_text": content(number)});
        let made = without_checks(requests(&bucket, &store, create).await);
        if made.len() > 2 {
            more += 1;
        }
    }
    println!("{more} of {} commands were followed by a checkpoint", 2 * FILES);
    assert!(more <= FILES / 20, "{more}");
}

/// Only the listing requests the latest state. Contents in a checkpoint or commit need no request.
#[tokio::test(start_paused = true)]
async fn a_search_makes_one_request_more_than_its_contents() {
    let (bucket, store) = filled().await;
    check_log(&store).await;
    bucket.take_requests();
    let report = Search::new("\"file 17\"").run(&store).await.unwrap();
    assert_eq!((report.matches, report.searched), (11, FILES as u64));
    let made = bucket.take_requests();
    assert_eq!(made.len(), 1, "{made:?}");
    let large = "x".repeat(100_000) + "file 17";
    let batch = (0..100)
        .fold(Batch::new(), |batch, number| batch.write(path(&format!("/memories/large/{number}")), large.clone()));
    store.apply(batch).await.unwrap();
    bucket.take_requests();
    assert_eq!(Search::new("\"file 17\"").run(&store).await.unwrap().matches, 111);
    let made = bucket.take_requests();
    assert_eq!(made.len(), 1 + 100, "{made:?}");
    let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
    let (bucket, store) = TestBucket::opened().await;
    let encrypted = EncryptedStore::open(store, keys).await.unwrap();
    let batch = (0..FILES).fold(Batch::new(), |batch, number| batch.write(path(&format!("/memories/{number}")), "tea"));
    encrypted.apply(batch).await.unwrap();
    bucket.take_requests();
    assert_eq!(Search::new("tea").run(&encrypted).await.unwrap().matches, FILES as u64);
    let made = bucket.take_requests();
    assert_eq!(made.len(), 2, "the index and a listing: {made:?}");
}

/// Layers know what they read before, like the bucket. Once per 64 edits, a history reads its head and its newest
/// entries again.
#[tokio::test(start_paused = true)]
async fn edits_with_layers_make_one_request() {
    const EDITS: usize = 200;
    for layer in ["none", "history", "encryption"] {
        let (bucket, store) = TestBucket::opened().await;
        let store: Arc<dyn Store> = match layer {
            "history" => Arc::new(HistoryStore::new(store)),
            "encryption" => {
                let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
                Arc::new(EncryptedStore::open(store, keys).await.unwrap())
            }
            _ => Arc::new(store),
        };
        let tool = Engine::new(store);
        tool.call(json!({"command": "create", "path": "/memories/a", "file_text": ""})).await.unwrap();
        let edit = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"});
        tool.call(edit.clone()).await.unwrap(); // a new history has no head
        bucket.take_requests();
        for _ in 0..EDITS {
            tool.call(edit.clone()).await.unwrap();
        }
        let mut made = bucket.take_requests();
        // Checkpoints, with a note, are not part of an edit.
        made.retain(|request| !request.contains("checkpoints") && !request.contains("runs"));
        let count = made.len() - EDITS / 64;
        println!("{layer}: {count} requests for {EDITS} edits");
        let of_history = if layer == "history" { 4 * (EDITS / 64) } else { 0 };
        // A writer rests before each 128th number, and then checks the log.
        assert!(count <= EDITS + of_history + 3 * (EDITS / 128), "{layer}: {count}");
    }
}
