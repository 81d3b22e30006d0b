//! `[X1]`, `[X2]`: A process that ends at any request leaves the store in the state before or after its command, and
//! the next process has nothing to repair.
//!
//! Each request is a step, because the bucket does not change between requests. The bucket holds each request of each
//! command, opening, checkpoint and collection in turn, before it takes effect, and the process ends there. The last
//! process of each task has all its requests answered, so the test covers new steps automatically. The conformance
//! suite kills real processes.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{TestBucket, everything, path, remove, write};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Engine, InMemoryStore, MemoryTool, Store, StoreExt, StorePath};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

type Files = Vec<(StorePath, Vec<u8>)>;

/// How long a process lives. The time passes as soon as it waits for a request that the bucket holds, or for nothing.
const LIFE: Duration = Duration::from_secs(5);

/// The size of contents that get a separate object, that are stored in commits, and that a checkpoint moves into packs.
const LARGE: usize = 20_000;
const MEDIUM: usize = 14_000;
const PACKED: usize = 16_000;

/// A process writes a checkpoint after this many commits.
const COMMITS_PER_CHECKPOINT: usize = 256;

enum Start {
    Nothing,
    Empty,
    /// A store with files and unused objects.
    Files,
    /// The next command is the last before a checkpoint, which its process writes in the background.
    BeforeCheckpoint,
    /// The store lacks a checkpoint of an earlier process. The next command waits for one.
    BeforeOverdueCheckpoint,
    /// The next command is the last before a checkpoint that moves contents into packs.
    BeforePacks,
    /// A store with trimmed commits, an older checkpoint, deleted files and unused objects.
    BeforeCollection,
}

#[derive(Clone)]
enum Work {
    Open,
    Change(Vec<Value>),
    Collect,
}

/// Runs a process with its own runtime, which ends with it.
fn run<T>(process: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(process)
}

fn content(name: &str, size: usize) -> String {
    format!("mark\n{}\n{}", secret(name), "x".repeat(size))
}

/// A text that occurs in a single file.
fn secret(name: &str) -> String {
    format!("the secret of {name}")
}

/// The files whose contents may not be in any object after they were deleted and collected.
const SECRETS: [&str; 5] = ["small", "large", "directory/0", "deleted", "small-and-deleted"];

async fn write_files(store: &BucketStore) {
    let medium = (0..9).map(|number| (format!("directory/{number}"), MEDIUM));
    let files = medium.chain([("small".to_owned(), 10), ("large".to_owned(), LARGE)]);
    let write = |batch: Batch, (name, size): (String, usize)| {
        batch.write(path(&format!("/memories/{name}")), content(&name, size))
    };
    store.apply(files.fold(Batch::new(), write)).await.unwrap();
}

async fn put_unused_objects(bucket: &TestBucket) {
    let id = "0123456789abcdef0123456789abcdef";
    for name in [format!("files/one/{id}-1-0"), format!("packs/{id}-0"), format!("runs/{id}-0")] {
        bucket.put_object(&format!("contents/{name}"), "unused").await;
    }
}

/// Adds empty files until the log has this many commits.
async fn add_commits(bucket: &TestBucket, store: &BucketStore, commits: usize) {
    for number in bucket.keys("log").await.len()..commits {
        write(store, &format!("/memories/empty/{number}"), "").await.unwrap();
    }
}

/// Writes small contents until a checkpoint is written, and then almost as many as lead to the next one.
async fn fill_with_contents(bucket: &TestBucket, store: &BucketStore) {
    const BATCH: usize = 64;
    let write = async |numbers: std::ops::Range<usize>| {
        let write = |batch: Batch, number| batch.write(path(&format!("/memories/d/{number}")), vec![b'x'; PACKED]);
        store.apply(numbers.fold(Batch::new(), write)).await.unwrap();
    };
    for batch in 0..5 {
        write(BATCH * batch..BATCH * (batch + 1)).await;
    }
    while bucket.keys("checkpoints").await.is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    for batch in 5..9 {
        write(BATCH * batch..BATCH * (batch + 1)).await;
    }
    write(BATCH * 9..BATCH * 9 + 3).await;
}

/// The bucket that each process gets a copy of, and the files in it.
fn prepare(start: &Start) -> (Arc<TestBucket>, Files) {
    let bucket = TestBucket::new();
    run(async {
        if let Start::Nothing = start {
            return;
        }
        let store = bucket.open().await;
        if !matches!(start, Start::Empty | Start::BeforePacks) {
            write_files(&store).await;
        }
        match start {
            Start::Nothing | Start::Empty => {}
            Start::Files => put_unused_objects(&bucket).await,
            Start::BeforeCheckpoint => add_commits(&bucket, &store, COMMITS_PER_CHECKPOINT - 1).await,
            Start::BeforeOverdueCheckpoint => {
                bucket.stall_puts(Some("runs/"));
                add_commits(&bucket, &store, 2 * COMMITS_PER_CHECKPOINT - 1).await;
                assert!(bucket.keys("checkpoints").await.is_empty());
            }
            Start::BeforePacks => fill_with_contents(&bucket, &store).await,
            Start::BeforeCollection => {
                write(&store, "/memories/deleted", &content("deleted", LARGE)).await.unwrap();
                store.gc(Duration::ZERO).await.unwrap();
                remove(&store, "/memories/deleted").await.unwrap();
                write(&store, "/memories/small-and-deleted", &content("small-and-deleted", 10)).await.unwrap();
                remove(&store, "/memories/small-and-deleted").await.unwrap();
                write(&store, "/memories/new", &content("new", LARGE)).await.unwrap();
                put_unused_objects(&bucket).await;
            }
        }
    });
    let files = match start {
        Start::Nothing => Files::new(),
        _ => run(async { everything(&bucket.other().await).await }),
    };
    (bucket, files)
}

/// The files after the commands, according to the reference implementation.
fn expected(files: &Files, work: &Work) -> Files {
    let Work::Change(commands) = work else { return files.clone() };
    run(async {
        let tool = Engine::new(InMemoryStore::new());
        let write = |batch: Batch, (path, content): &(StorePath, Vec<u8>)| batch.write(path.clone(), content.clone());
        tool.store().apply(files.iter().fold(Batch::new(), write)).await.unwrap();
        for command in commands {
            tool.call(command.clone()).await.unwrap();
        }
        everything(tool.store()).await
    })
}

/// Runs the task in a process that ends when the bucket holds a request, after this number of others.
fn work(bucket: &Arc<TestBucket>, work: Work, requests: usize) {
    run(async {
        if let Work::Open = work {
            bucket.hang_after(Some(requests));
            let _ = timeout(LIFE, bucket.open()).await;
            return;
        }
        let store = bucket.open().await;
        store.list(&StorePath::memories()).await.unwrap();
        bucket.take_requests();
        bucket.hang_after(Some(requests));
        let task = async {
            match work {
                Work::Collect => drop(store.gc(Duration::ZERO).await.unwrap()),
                Work::Open => {}
                Work::Change(commands) => {
                    let tool = Engine::new(store);
                    for command in commands {
                        tool.call(command).await.unwrap();
                    }
                }
            }
        };
        let _ = timeout(LIFE, task).await;
        sleep(LIFE).await; // for a checkpoint in the background
    });
}

/// Ends a process at each request of the task. It must put an object under each of these keys.
fn end_at_every_request(start: &Start, task: &Work, puts: &[&str]) {
    let (template, files) = prepare(start);
    let end = expected(&files, task);
    let commits = run(template.keys("log")).len();
    // The next process may write a checkpoint in the background, during its first collection.
    let collections = if puts.contains(&"checkpoints/") { 3 } else { 1 };
    let (mut applied, mut not_applied) = (0, 0);
    for requests in 0.. {
        let bucket = template.copy();
        work(&bucket, task.clone(), requests);
        let is_last = !bucket.has_held();
        let is_applied = matches!(task, Work::Change(_)) && run(bucket.keys("log")).len() > commits;
        *(if is_applied { &mut applied } else { &mut not_applied }) += 1;
        let expected = if is_applied { &end } else { &files };
        let at = format!("after {requests} requests");
        run(check(&bucket, expected.clone(), collections, &at));
        if is_last {
            let made = bucket.take_requests();
            for key in puts {
                let is_put = |request: &String| request.starts_with("PUT") && request.contains(key);
                assert!(made.iter().any(is_put), "no {key} in {made:?}");
            }
            assert!(!matches!(task, Work::Change(_)) || applied > 0 && not_applied > 0, "{applied} {not_applied}");
            println!("{requests} requests");
            break;
        }
    }
}

/// Checks that the store has exactly these files, and that the next process can change it and collect garbage.
async fn check(bucket: &TestBucket, mut files: Files, collections: usize, at: &str) {
    let store = bucket.other().await;
    assert!(everything(&store).await == files, "{at}: the change was applied partially");
    write(&store, "/memories/next", "next").await.unwrap();
    files.push((path("/memories/next"), b"next".to_vec()));
    files.sort();
    for _ in 0..collections {
        store.gc(Duration::ZERO).await.unwrap();
    }
    assert!(everything(&store).await == files, "{at}: the next change had the wrong result");
    let next = bucket.other().await;
    assert!(everything(&next).await == files, "{at}: the next process finds other files");
    let problems = next.verify(|_| {}).await.unwrap().problems;
    assert!(problems.is_empty(), "{at}: {problems:?}");
    let left = store.gc(Duration::ZERO).await.unwrap();
    assert_eq!((left.removed_objects, left.trimmed_commits), (0, 0), "{at}");

    let objects = bucket.snapshot().await;
    let contains = |text: &str| objects.values().any(|bytes| String::from_utf8_lossy(bytes).contains(text));
    for key in objects.keys().filter_map(|key| key.strip_prefix("contents/")) {
        assert!(contains(key), "{at}: nothing refers to {key}");
    }
    let is_in_use = |text: &str| files.iter().any(|(_, content)| String::from_utf8_lossy(content).contains(text));
    for secret in SECRETS.map(secret) {
        assert!(is_in_use(&secret) || !contains(&secret), "{at}: {secret} is left after a collection");
    }
}

fn create(size: usize) -> Value {
    json!({"command": "create", "path": "/memories/new/file", "file_text": "n".repeat(size)})
}

fn delete(path: &str) -> Value {
    json!({"command": "delete", "path": path})
}

#[test]
fn commands() {
    let replace = |path| json!({"command": "str_replace", "path": path, "old_str": "mark", "new_str": "new"});
    let insert = |path| json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "new"});
    let rename = |path| json!({"command": "rename", "old_path": path, "new_path": "/memories/new/name"});
    let (small, large, directory) = ("/memories/small", "/memories/large", "/memories/directory");
    end_at_every_request(&Start::Empty, &Work::Change(vec![create(10)]), &["log/"]);
    for (command, puts) in [
        (create(10), &["log/"][..]),
        (create(LARGE), &["contents/files/", "log/"]),
        (replace(small), &["log/"]),
        (replace(large), &["contents/files/", "log/"]),
        (insert(small), &["log/"]),
        (insert(large), &["contents/files/", "log/"]),
        (delete(small), &["log/"]),
        (delete(large), &["log/"]),
        (delete(directory), &["log/"]),
        (rename(small), &["log/"]),
        (rename(large), &["log/"]),
        (rename(directory), &["log/"]),
    ] {
        end_at_every_request(&Start::Files, &Work::Change(vec![command]), puts);
    }
}

#[test]
fn openings() {
    end_at_every_request(&Start::Nothing, &Work::Open, &["log/"]);
    end_at_every_request(&Start::BeforeCollection, &Work::Open, &[]);
}

#[test]
fn checkpoints() {
    let delete = || Work::Change(vec![delete("/memories/small")]);
    let puts = ["log/", "contents/runs/", "checkpoints/"];
    end_at_every_request(&Start::BeforeCheckpoint, &delete(), &puts);
    end_at_every_request(&Start::BeforeOverdueCheckpoint, &delete(), &puts);
    let puts = ["log/", "contents/packs/", "contents/runs/", "checkpoints/"];
    end_at_every_request(&Start::BeforePacks, &Work::Change(vec![create(PACKED)]), &puts);
}

#[test]
fn collections() {
    end_at_every_request(&Start::BeforeCollection, &Work::Collect, &["log/", "contents/runs/", "checkpoints/"]);
}

#[test]
#[should_panic(expected = "the change was applied partially")]
fn a_partial_change_is_detected() {
    let commands = ["/memories/directory/1", "/memories/directory/2"].map(delete);
    end_at_every_request(&Start::Files, &Work::Change(commands.into()), &["log/"]);
}
