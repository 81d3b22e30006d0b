//! Each kind of object is damaged in each way, before and after a collection, in plain and in encrypted stores. Tested
//! are the files of a reader, the problems of `verify`, the repair, and a collection after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use memory_tool_bucket::{BucketStore, RepairReport};
use memory_tool_core::{Batch, Node, Store, StoreExt, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_test_fixtures::{Tier, by_tier};
use serde_json::Value;

use crate::support::{PREFIX, TestBucket, log, path, record, write};

/// More than a checkpoint needs.
const EDITS: usize = 262;

type Contents = BTreeMap<StorePath, Vec<u8>>;

struct Example {
    objects: BTreeMap<String, Bytes>,
    files: Contents,
}

fn keys() -> KeyRing {
    KeyRing::new(RawKey::from_bytes([7; 32]))
}

async fn open(bucket: &Arc<TestBucket>, is_encrypted: bool) -> Result<Box<dyn Store>, memory_tool_core::OpenError> {
    let store = BucketStore::open(bucket.objects.clone(), PREFIX.into()).await?;
    Ok(if is_encrypted { Box::new(EncryptedStore::open(store, keys()).await?) } else { Box::new(store) })
}

/// Files in commits, in packs of a batch, in separate objects and, after many edits, in checkpoints.
async fn example(is_encrypted: bool, has_gc: bool) -> Example {
    let bucket = TestBucket::new();
    let store = open(&bucket, is_encrypted).await.unwrap();
    let batch = (0..110).fold(Batch::new(), |batch, number| {
        batch.write(path(&format!("/memories/packed/{number}")), format!("{number} {}", "p".repeat(11_000)))
    });
    store.apply(batch).await.unwrap();
    for number in 0..3 {
        store.write(format!("/memories/large/{number}"), format!("{number} {}", "l".repeat(20_000))).await.unwrap();
    }
    store.apply(Batch::new().write(record("test/large"), "r".repeat(20_000))).await.unwrap();
    let inner = bucket.other().await;
    for number in 0..EDITS {
        store.write(format!("/memories/edited/{}", number % 9), number.to_string()).await.unwrap();
        tokio::task::yield_now().await; // for the checkpoint in the background
    }
    while bucket.keys("checkpoints").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if has_gc {
        inner.gc(Duration::ZERO).await.unwrap();
    }
    for number in 0..6 {
        store.write(format!("/memories/late/{number}"), format!("late {number}")).await.unwrap();
    }
    Example { objects: bucket.snapshot().await, files: read_all(&*store).await.0 }
}

/// The readable files, and the listed files that cannot be read.
async fn read_all(store: &dyn Store) -> (Contents, BTreeSet<StorePath>) {
    let (mut readable, mut unreadable) = (Contents::new(), BTreeSet::new());
    let Ok(listed) = store.list(&StorePath::memories()).await else { return (readable, unreadable) };
    for entry in listed {
        match store.read(&entry.path).await {
            Ok(Node::File(file)) => drop(readable.insert(entry.path, file.content)),
            Ok(_) => {}
            Err(_) => drop(unreadable.insert(entry.path)),
        }
    }
    (readable, unreadable)
}

impl Example {
    fn kinds(&self) -> Vec<(&'static str, String)> {
        let under = |directory: &'static str| self.objects.keys().filter(move |key| key.starts_with(directory));
        let number_of = |key: &str| key.rsplit('/').next().unwrap().parse::<u64>().unwrap();
        let last = under("log/").map(|key| number_of(key)).max().unwrap();
        let is_marker = |key: &&String| self.objects[*key].starts_with(br#"{"format":"memory-tool trimmed"#);
        let mut pointers: Vec<_> = under("checkpoints/").cloned().collect();
        let mut kinds = vec![
            ("the first commit", log(1)),
            ("a commit after the checkpoint", log(last - 3)),
            ("an object of contents", under("contents/files/").next().unwrap().clone()),
        ];
        kinds.extend(under("log/").find(is_marker).map(|key| ("a marker", key.clone())));
        let untrimmed =
            under("log/").filter(|key| !is_marker(key)).map(|key| number_of(key)).find(|number| *number > 1);
        kinds.push(("the first untrimmed commit", log(untrimmed.unwrap())));
        kinds.extend(under("contents/records/").next().map(|key| ("an object of a record", key.clone())));
        kinds.extend(under("contents/packs/").next().map(|key| ("a pack", key.clone())));
        let latest = pointers.pop().unwrap();
        kinds.push(("a run of the latest checkpoint", self.first_run(&latest)));
        kinds.push(("the latest pointer", latest));
        if let Some(previous) = pointers.pop() {
            kinds.push(("a run of the previous checkpoint", self.first_run(&previous)));
            kinds.push(("the previous pointer", previous));
        }
        kinds
    }

    fn first_run(&self, pointer: &str) -> String {
        let manifest: Value = serde_json::from_slice(&self.objects[pointer]).unwrap();
        format!("contents/{}", manifest["runs"][0]["key"].as_str().unwrap())
    }

    /// The damaged bytes of an object, by the name of the damage. `None` is a deletion.
    fn damages(&self, key: &str) -> Vec<(&'static str, Option<Vec<u8>>)> {
        let bytes = &self.objects[key];
        let (directory, _) = key.rsplit_once('/').unwrap();
        let older = self
            .objects
            .iter()
            .rev()
            .find(|(other, content)| other.starts_with(directory) && other.as_str() < key && *content != bytes);
        let older = older.map_or(&self.objects[&log(2)], |(_, content)| content);
        let mut flipped = bytes.to_vec();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        vec![
            ("deleted", None),
            ("truncated", Some(bytes[..bytes.len() / 2].to_vec())),
            ("with a flipped bit", Some(flipped)),
            ("replaced by an older one", Some(older.to_vec())),
        ]
    }

    async fn bucket(&self) -> Arc<TestBucket> {
        let bucket = TestBucket::new();
        for (key, content) in &self.objects {
            bucket.put_object(key, content.clone()).await;
        }
        bucket
    }

    /// The files that are missing or cannot be read. Others must have their contents.
    async fn lost(&self, bucket: &Arc<TestBucket>, is_encrypted: bool, cell: &str) -> BTreeSet<StorePath> {
        let (readable, _) = match open(bucket, is_encrypted).await {
            Ok(store) => read_all(&*store).await,
            Err(_) => return self.files.keys().cloned().collect(),
        };
        for (path, content) in &readable {
            let is_right = self.files.get(path).is_some_and(|expected| expected == content);
            // An edit of a commit that is lost is undone.
            assert!(is_right || path.as_str().starts_with("/memories/edited/"), "{cell}: {path} has other contents");
        }
        self.files.keys().filter(|path| !readable.contains_key(*path)).cloned().collect()
    }
}

async fn problems(bucket: &Arc<TestBucket>, is_encrypted: bool) -> Result<usize, ()> {
    let store = BucketStore::open(bucket.objects.clone(), PREFIX.into()).await.map_err(drop)?;
    let mut problems = store.verify(|_| {}).await.map_err(drop)?.problems.len();
    if is_encrypted {
        let store = EncryptedStore::open(store, keys()).await.map_err(drop)?;
        problems += store.verify(|_| {}).await.map_err(drop)?.problems.len();
    }
    Ok(problems)
}

/// Damages one object of each kind in each way. The default tier takes another way for each kind.
async fn matrix(is_encrypted: bool, has_gc: bool) {
    let example = example(is_encrypted, has_gc).await;
    for (number, (kind, key)) in example.kinds().into_iter().enumerate() {
        for (way, (damage, bytes)) in example.damages(&key).into_iter().enumerate() {
            if Tier::current() == Tier::Default && way != number % 4 {
                continue;
            }
            let cell = format!("{kind} ({key}), {damage}, encrypted: {is_encrypted}, collected: {has_gc}");
            let bucket = example.bucket().await;
            match bytes {
                Some(bytes) => bucket.put_object(&key, bytes).await,
                None => bucket.remove_object(&key).await,
            }
            let before = bucket.snapshot().await;
            let lost = example.lost(&bucket, is_encrypted, &cell).await;
            let found = problems(&bucket, is_encrypted).await;
            assert!(lost.is_empty() || found != Ok(0), "{cell}: verify finds nothing, but there is no {lost:?}");

            let report = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap();
            let still_lost = example.lost(&bucket, is_encrypted, &cell).await;
            expect_cost(kind, &still_lost, &report, &cell);
            expect_nothing_more_lost(&example, &bucket, (&before, &still_lost, &report), is_encrypted, &cell).await;
        }
    }
}

/// The loss of one object costs no more than what only this object had, and is reported.
fn expect_cost(kind: &str, lost: &BTreeSet<StorePath>, report: &RepairReport, cell: &str) {
    let most = match kind {
        "a commit after the checkpoint" | "an object of contents" => 1,
        "a pack" => 110,
        _ => 0,
    };
    assert!(lost.len() <= most, "{cell}: {} files are lost: {report:?}", lost.len());
    let is_reported = lost.is_empty() || kind == "a pack" || kind == "an object of contents" || !report.lost.is_empty();
    assert!(is_reported, "{cell}: {lost:?} is lost without a report");
}

/// A collection after the repair removes neither files nor objects that could help.
async fn expect_nothing_more_lost(
    example: &Example,
    bucket: &Arc<TestBucket>,
    (before, lost, report): (&BTreeMap<String, Bytes>, &BTreeSet<StorePath>, &RepairReport),
    is_encrypted: bool,
    cell: &str,
) {
    let collected = bucket.other().await.gc(Duration::ZERO).await.unwrap();
    assert_eq!(&example.lost(bucket, is_encrypted, cell).await, lost, "{cell}: after gc");
    if report.lost.is_empty() {
        return;
    }
    let after: BTreeSet<Bytes> = bucket.snapshot().await.into_values().collect();
    let removed: Vec<_> = before.iter().filter(|(_, content)| !after.contains(*content)).map(|(key, _)| key).collect();
    assert!(removed.is_empty(), "{cell}: {removed:?} could have helped, {collected:?}");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_costs_no_more_than_itself() {
    matrix(false, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_costs_no_more_than_itself_after_a_collection() {
    matrix(false, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_of_an_encrypted_store() {
    for has_gc in by_tier(&[true][..], &[false, true]) {
        matrix(true, *has_gc).await;
    }
}

/// The operations page tells to repair a store whose log is missing, and to collect later.
#[tokio::test(start_paused = true)]
async fn a_lost_log_is_a_reported_loss_and_a_collection_keeps_what_is_left() {
    for has_gc in [false, true] {
        let example = example(false, has_gc).await;
        let bucket = example.bucket().await;
        for key in bucket.keys("log").await {
            bucket.remove_object(&key).await;
        }
        let before = bucket.snapshot().await;
        let report = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap();
        assert!(!report.lost.is_empty() && report.files > 100, "{report:?}");
        let lost = example.lost(&bucket, false, "no log").await;
        assert!(lost.iter().all(|path| path.as_str().starts_with("/memories/late/")), "{lost:?}");
        let store = bucket.other().await;
        let collected = store.gc(Duration::ZERO).await.unwrap();
        assert!(collected.kept_after_loss > 0, "{collected:?}");
        let after = bucket.snapshot().await;
        assert!(before.keys().all(|key| after.contains_key(key)), "a collection after a loss keeps everything");
        store.accept_loss().await.unwrap();
        let collected = store.gc(Duration::ZERO).await.unwrap();
        assert!(collected.kept_after_loss == 0 && collected.removed_objects > 0, "{collected:?}");
        assert_eq!(example.lost(&bucket, false, "no log").await, lost);
        assert_eq!(bucket.other().await.verify(|_| {}).await.unwrap().problems, []);
    }
}

/// Without the log and the pointers, the runs have all names.
#[tokio::test(start_paused = true)]
async fn a_store_is_rebuilt_from_runs_alone() {
    let example = example(false, true).await;
    let bucket = example.bucket().await;
    for key in [bucket.keys("log").await, bucket.keys("checkpoints").await].concat() {
        bucket.remove_object(&key).await;
    }
    let report = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap();
    assert!(!report.lost.is_empty(), "{report:?}");
    let lost = example.lost(&bucket, false, "runs alone").await;
    assert!(lost.iter().all(|path| path.as_str().starts_with("/memories/late/")), "{lost:?}");
}

/// Contents without a name for them are not an empty store.
#[tokio::test(start_paused = true)]
async fn nothing_to_rebuild_from_is_refused() {
    let example = example(false, true).await;
    let bucket = example.bucket().await;
    for directory in ["log", "checkpoints", "contents/runs"] {
        for key in bucket.keys(directory).await {
            bucket.remove_object(&key).await;
        }
    }
    let before = bucket.snapshot().await;
    let refused = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap_err();
    assert!(crate::support::messages(&refused).contains("neither a commit, a checkpoint nor a run"), "{refused:?}");
    assert_eq!(bucket.snapshot().await, before);
}

/// A session sees a marker under its last number only if the log after it was lost or rebuilt.
#[tokio::test(start_paused = true)]
async fn a_marker_at_the_last_known_number_is_not_the_end() {
    let bucket = TestBucket::new();
    let asleep = bucket.open().await;
    write(&asleep, "/memories/deleted", "text").await.unwrap();
    let other = bucket.other().await;
    crate::support::remove(&other, "/memories/deleted").await.unwrap();
    let keys = bucket.keys("log").await;
    other.gc(Duration::ZERO).await.unwrap();
    // The commits after the last one that the session knows are lost.
    for number in 3..=bucket.keys("log").await.len() as u64 {
        bucket.remove_object(&log(number)).await;
    }
    assert_eq!(keys.len(), 3);
    tokio::time::advance(Duration::from_secs(63)).await;
    let seen = asleep.read(&path("/memories/deleted")).await;
    assert!(!matches!(seen, Ok(Node::File(_))), "{seen:?}");
    write(&asleep, "/memories/new", "new").await.unwrap_err();
}

/// Objects of other programs are named and stay, and do not look like damage.
#[tokio::test(start_paused = true)]
async fn foreign_objects_stay() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", &"a".repeat(20_000)).await.unwrap();
    let foreign = [
        "log/README",
        "log/00000000000000000001.bak",
        "log/+0000000000000000007",
        "checkpoints/README",
        "contents/README",
        "contents/files/mine.txt",
        "contents/runs/backup/old",
    ];
    for key in foreign {
        bucket.put_object(key, "mine").await;
    }
    assert_eq!(bucket.other().await.verify(|_| {}).await.unwrap().problems, []);
    let report = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap();
    assert!(!report.is_changed, "{report:?}");
    let report = store.gc(Duration::ZERO).await.unwrap();
    assert!(report.trimmed_commits == 1 && report.foreign.iter().any(|key| key.ends_with("log/README")), "{report:?}");
    assert!(report.foreign.iter().any(|key| key.ends_with("contents/files/mine.txt")), "{report:?}");
    for key in foreign {
        assert!(bucket.snapshot().await.contains_key(key), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_below_another_store_is_refused() {
    let bucket = TestBucket::new();
    for prefix in ["memory/contents/files/x", "memory/log", "tenants/checkpoints"] {
        let refused = BucketStore::open(bucket.objects.clone(), prefix.into()).await.unwrap_err();
        assert!(refused.to_string().contains(prefix), "{refused}");
        assert!(crate::support::messages(&refused).contains("choose another"), "{refused:?}");
    }
    BucketStore::open(bucket.objects.clone(), "memory/logs".into()).await.unwrap();
}

/// A missing pack costs one more reading of the state, not one for each file.
#[tokio::test(start_paused = true)]
async fn verify_is_bounded_by_the_size_of_the_store() {
    let (bucket, store) = TestBucket::opened().await;
    let batch = (0..400).fold(Batch::new(), |batch, number| {
        batch.write(path(&format!("/memories/{number}")), format!("{number} {}", "p".repeat(4_000)))
    });
    store.apply(batch).await.unwrap();
    let packs = bucket.keys("contents/packs").await;
    bucket.take_requests();
    assert_eq!(store.verify(|_| {}).await.unwrap().files, 400);
    let intact = bucket.take_requests().len();
    bucket.remove_object(&packs[0]).await;
    let report = store.verify(|_| {}).await.unwrap();
    let damaged = bucket.take_requests().len();
    assert_eq!((report.files as usize + report.problems.len(), packs.len()), (400, 1), "{report:?}");
    assert!(intact < 12 && damaged < 2 * intact, "{intact}, {damaged}");
}

/// A commit that only a collection still reads.
#[tokio::test(start_paused = true)]
async fn a_damaged_commit_before_the_checkpoint_is_found_and_replaced() {
    for damage in [Some("garbage"), None] {
        let example = example(false, false).await;
        let bucket = example.bucket().await;
        match damage {
            Some(bytes) => bucket.put_object(&log(100), bytes).await,
            None => bucket.remove_object(&log(100)).await,
        }
        let store = bucket.other().await;
        let problems = store.verify(|_| {}).await.unwrap().problems;
        assert!(problems.len() == 1 && problems[0].message.contains(&log(100)), "{problems:?}");
        store.gc(Duration::ZERO).await.unwrap_err();
        let report = BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap();
        assert!(report.is_changed && report.lost.is_empty(), "{report:?}");
        let untouched = example.objects.keys().filter(|key| key.starts_with("log")).count();
        assert!(bucket.keys("log").await.len() < untouched + 10, "the log is not taken over");
        store.gc(Duration::ZERO).await.unwrap();
        assert_eq!(bucket.other().await.verify(|_| {}).await.unwrap().problems, []);
        assert!(example.lost(&bucket, false, "a trimmable commit").await.is_empty());
    }
}
