//! Reading the log: a reader that slept sees the present, and a damaged log is reported, with the object that is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    PREFIX, TestBucket, call, checkpoint, everything, failure, log, messages, open_failure, path, read, remove, rename,
    write,
};
use bytes::Bytes;
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{Batch, ErrorKind, Node, ReadOptions, Store, StoreExt, StorePath};
use serde_json::json;

/// The time after which a session checks that the log is still the one that it knows.
const CHECK_AFTER: Duration = Duration::from_millis(100);

async fn write_many(store: &BucketStore, count: usize) {
    for number in 0..count {
        write(store, &format!("/memories/{}", number % 7), &number.to_string()).await.unwrap();
    }
}

/// Reads and writes with a store that did neither while others wrote.
async fn expect_present(bucket: &Arc<TestBucket>, sleeper: &BucketStore, what: &str) {
    let fresh = bucket.other().await;
    let expected = everything(&fresh).await;
    assert_eq!(everything(sleeper).await, expected, "{what}");
    write(sleeper, "/memories/awake", what).await.unwrap();
    assert_eq!(read(&fresh, "/memories/awake").await.unwrap(), what);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_slept() {
    for (commits, collections) in [(1, 0), (10, 0), (40, 0), (10, 1), (40, 3), (600, 0), (600, 2)] {
        for write_first in [false, true] {
            let what = format!("{commits} commits, {collections} collections, write first: {write_first}");
            let (bucket, sleeper) = TestBucket::opened().await;
            write(&sleeper, "/memories/large", &"old".repeat(10_000)).await.unwrap();
            write(&sleeper, "/memories/d/file", "text").await.unwrap();
            let other = bucket.other().await;
            write(&other, "/memories/large", &"new".repeat(10_000)).await.unwrap();
            rename(&other, "/memories/d", "/memories/e").await.unwrap();
            write_many(&other, commits).await;
            for _ in 0..collections {
                other.gc(Duration::ZERO).await.unwrap();
                write_many(&other, 5).await;
            }
            if write_first {
                write(&sleeper, "/memories/first", "text").await.unwrap();
            }
            expect_present(&bucket, &sleeper, &what).await;
            assert_eq!(read(&sleeper, "/memories/large").await.unwrap(), "new".repeat(10_000));
            assert_eq!(read(&sleeper, "/memories/d/file").await, None);
        }
    }
}

/// A precondition that the old state fulfils, and the present one does not, and the reverse.
#[tokio::test(start_paused = true)]
async fn a_writer_that_slept_plans_on_the_present() {
    for collect in [false, true] {
        let (bucket, sleeper) = TestBucket::opened().await;
        write(&sleeper, "/memories/a", "old").await.unwrap();
        let version = sleeper.read("/memories/a").await.unwrap().into_file().unwrap().version;
        let other = bucket.other().await;
        write(&other, "/memories/a", "theirs").await.unwrap();
        write(&other, "/memories/new", "theirs").await.unwrap();
        if collect {
            other.gc(Duration::ZERO).await.unwrap();
        }
        tokio::time::advance(CHECK_AFTER).await;
        let edit = Batch::new().require(path("/memories/a"), memory_tool_core::Precondition::Version(version));
        assert!(sleeper.apply(edit.write(path("/memories/a"), "mine")).await.is_err());
        assert_eq!(read(&other, "/memories/a").await.unwrap(), "theirs");
        remove(&bucket.open().await, "/memories/new").await.unwrap();
        let create = Batch::new().require(path("/memories/new"), memory_tool_core::Precondition::Absent);
        sleeper.apply(create.write(path("/memories/new"), "mine")).await.unwrap();
        assert_eq!(read(&other, "/memories/new").await.unwrap(), "mine");
    }
}

/// Opens the store, and uses `session`, which knows the log up to commit 1. Each reports damage of this object, and
/// nothing changes.
async fn expect_damage(bucket: &Arc<TestBucket>, session: &BucketStore, key: &str, what: &str) {
    let before = bucket.snapshot().await;
    expect_damage_at_opening(bucket, key, what).await;
    let (kind, message) = failure(session.read(&path("/memories/1")).await);
    assert!(kind == ErrorKind::Damaged && message.contains(key), "{what}: {message}");
    let (_, message) = failure(session.gc(Duration::ZERO).await);
    assert!(message.contains(key), "{what}: {message}");
    // A session that has not read the log for a while does so before it writes.
    tokio::time::advance(CHECK_AFTER).await;
    let (kind, message) = failure(write(session, "/memories/new", "new").await);
    assert!(kind == ErrorKind::Damaged && message.contains(key), "{what}: {message}");
    assert_eq!(bucket.snapshot().await, before, "{what}");
}

async fn expect_damage_at_opening(bucket: &Arc<TestBucket>, key: &str, what: &str) {
    let before = bucket.snapshot().await;
    let error = BucketStore::open(bucket.clone(), PREFIX.into()).await.expect_err(what);
    let is_damage = matches!(open_failure(&error), OpenFailure::Failed { kind: ErrorKind::Damaged, .. });
    let message = messages(&error);
    assert!(is_damage && message.contains("the store is damaged") && message.contains(key), "{what}: {message}");
    assert_eq!(bucket.snapshot().await, before, "{what}");
}

/// A log of this many commits by another machine, and a session that knows none of them.
async fn with_session(commits: usize) -> (Arc<TestBucket>, BucketStore) {
    let (bucket, session) = TestBucket::opened().await;
    write_many(&bucket.other().await, commits - 1).await;
    (bucket, session)
}

fn edited(bytes: &Bytes, from: &str, to: &str) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    text.replacen(from, to, 1)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_altered() {
    for number in [2, 3, 5, 12, 20] {
        let (bucket, _) = with_session(20).await;
        let commit = bucket.snapshot().await.remove(&log(number)).unwrap();
        let other = TestBucket::new();
        write_many(&other.open().await, 30).await;
        let foreign = other.snapshot().await.remove(&log(number)).unwrap();
        let own = bucket.snapshot().await.remove(&log(number - 1)).unwrap();
        for (what, object) in [
            ("garbage", Bytes::from_static(b"garbage")),
            ("empty", Bytes::new()),
            ("half", commit.slice(..commit.len() / 2)),
            ("of another store", foreign),
            ("of another number", own),
            ("with an id that is too long", edited(&commit, "\"after\":\"", "\"after\":\"0").into()),
        ] {
            let (bucket, session) = with_session(20).await;
            bucket.put_object(&log(number), object).await;
            expect_damage(&bucket, &session, &log(number), what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_another_predecessor() {
    let (bucket, session) = with_session(20).await;
    let mut commit: serde_json::Value = serde_json::from_slice(&bucket.snapshot().await[&log(9)]).unwrap();
    commit["after"] = "0123456789abcdef0123456789abcdef".into();
    bucket.put_object(&log(9), serde_json::to_vec(&commit).unwrap()).await;
    expect_damage(&bucket, &session, &log(9), "another predecessor").await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_a_newer_version() {
    let (bucket, session) = with_session(20).await;
    bucket.put_object(&log(9), r#"{"format":"memory-tool commit","version":2,"other":true}"#).await;
    let before = bucket.snapshot().await;
    let error = BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err();
    assert!(matches!(open_failure(&error), OpenFailure::NewerVersion { found: 2, known: 1 }), "{error:?}");
    for outcome in [session.read(&path("/memories/1")).await.map(drop), session.gc(Duration::ZERO).await.map(drop)] {
        let (kind, message) = failure(outcome);
        assert!(kind == ErrorKind::Other && message.contains(&log(9)) && message.contains("version 2"), "{message}");
    }
    let error = write(&session, "/memories/new", "new").await.unwrap_err();
    assert!(messages(&error).contains("version 2"), "{error:?}");
    assert_eq!(bucket.snapshot().await, before);
}

/// Whichever commit is missing, an opening reports it.
#[tokio::test(start_paused = true)]
async fn a_hole_in_the_log() {
    for commits in [3, 4, 5, 6, 7, 8, 20] {
        for hole in 2..commits {
            let (bucket, _) = with_session(commits as usize).await;
            bucket.remove_object(&log(hole)).await;
            expect_damage_at_opening(&bucket, &log(hole), &format!("{hole} of {commits}")).await;
        }
    }
}

/// The same with a checkpoint before the hole. An opening compares the end of the log with its start, so that it sees a
/// hole of any length.
#[tokio::test(start_paused = true)]
async fn a_hole_after_a_checkpoint() {
    for (hole, length) in [(1, 1), (2, 1), (3, 1), (4, 1), (1, 4), (2, 4)] {
        let (bucket, session) = with_session(10).await;
        session.gc(Duration::ZERO).await.unwrap();
        let first = bucket.keys("log").await.len() as u64 + hole;
        write_many(&bucket.other().await, 8).await;
        for number in first..first + length {
            bucket.remove_object(&log(number)).await;
        }
        expect_damage_at_opening(&bucket, &log(first), &format!("{hole} {length}")).await;
    }
}

/// A session sees the hole when it reads several commits at once, and `gc` lists the log.
#[tokio::test(start_paused = true)]
async fn a_session_meets_a_hole() {
    for hole in [3, 5, 6, 7, 9, 13] {
        let (bucket, session) = with_session(20).await;
        bucket.remove_object(&log(hole)).await;
        let before = bucket.snapshot().await;
        let (kind, message) = failure(session.gc(Duration::ZERO).await);
        assert!(kind == ErrorKind::Damaged && message.contains(&log(hole)), "{hole}: {message}");
        assert_eq!(bucket.snapshot().await, before, "{hole}");
    }
}

async fn clear(bucket: &TestBucket) {
    for object in bucket.snapshot().await.into_keys() {
        bucket.remove_object(&object).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_disappears_during_a_session() {
    let (bucket, session) = TestBucket::opened().await;
    write_many(&session, 10).await;
    clear(&bucket).await;
    tokio::time::advance(CHECK_AFTER).await;
    let read = failure(session.read(&path("/memories/1")).await);
    let written = failure(write(&session, "/memories/new", "new").await);
    for (kind, message) in [read, written, failure(session.gc(Duration::ZERO).await)] {
        assert!(kind == ErrorKind::Damaged && message.contains(&log(11)), "{message}");
    }
    assert!(bucket.snapshot().await.is_empty());
}

/// A backup is an older log. A session that knows later commits continues from it.
#[tokio::test(start_paused = true)]
async fn an_older_log_is_put_back_during_a_session() {
    for (before, after) in [(5, 1), (5, 5), (5, 600), (300, 20)] {
        for first in ["read", "write", "edit", "verify", "gc"] {
            let what = format!("{after} commits after {before}, then {first}");
            let (bucket, session) = TestBucket::opened().await;
            write_many(&session, before).await;
            let (backup, files) = (bucket.snapshot().await, everything(&session).await);
            write_many(&session, after).await;
            write(&session, "/memories/later", "lost").await.unwrap();
            tokio::time::sleep(CHECK_AFTER).await; // for a checkpoint in the background
            put_back(&bucket, &backup).await;
            match first {
                "read" => assert_eq!(everything(&session).await, files, "{what}"),
                "write" => write(&session, "/memories/9", "new").await.unwrap(),
                "edit" => insert_into_first_of(&session, &files).await,
                "verify" => assert_eq!(session.verify(|_| {}).await.unwrap().problems, [], "{what}"),
                _ => drop(session.gc(Duration::ZERO).await.unwrap()),
            }
            expect_present(&bucket, &session, &what).await;
            let late = session.read(&path("/memories/later")).await.unwrap();
            assert!(matches!(late, Node::Absent), "{what}");
        }
    }
}

/// Edits a file, which must have its restored text. The session knows a later one.
async fn insert_into_first_of(session: &BucketStore, files: &[(StorePath, Vec<u8>)]) {
    let (path, before) = &files[0];
    let insert = json!({"command": "insert", "path": path.to_string(), "insert_line": 0, "insert_text": "new"});
    assert_eq!(call(session, insert).await, format!("The file {path} has been edited."));
    let text = read(session, path.as_str()).await.unwrap();
    assert_eq!(text, format!("new\n{}", String::from_utf8_lossy(before)));
}

/// Contents that the session knows are not in the restored bucket. It learns of the restoration without a check.
#[tokio::test(start_paused = true)]
async fn an_older_log_is_put_back_without_the_contents_of_a_file() {
    let large = "x".repeat(20_000);
    for (allows_stale, rests) in [(false, false), (true, false), (true, true)] {
        let (bucket, session) = TestBucket::opened().await;
        write(&session, "/memories/large", &format!("{large} old")).await.unwrap();
        let backup = bucket.snapshot().await;
        write(&session, "/memories/large", &format!("{large} new")).await.unwrap();
        put_back(&bucket, &backup).await;
        if rests {
            tokio::time::sleep(CHECK_AFTER).await;
        }
        let options = if allows_stale { ReadOptions::new().allow_stale() } else { ReadOptions::new() };
        let file = session.read_opts(&path("/memories/large"), options).await.unwrap().into_file().unwrap();
        assert!(file.content.ends_with(b"old"));
        expect_present(&bucket, &session, "after the read").await;
    }
}

/// The restored store has more commits than the session knows, and other ones.
#[tokio::test(start_paused = true)]
async fn an_older_log_is_put_back_and_continued_by_others() {
    for later in [3, 4, 5, 40] {
        let (bucket, session) = TestBucket::opened().await;
        let backup = bucket.snapshot().await;
        write_many(&session, 3).await;
        put_back(&bucket, &backup).await;
        write_many(&bucket.other().await, later).await;
        tokio::time::advance(CHECK_AFTER).await;
        expect_present(&bucket, &session, &format!("{later} commits of others")).await;
    }
}

/// A session that commits without a pause leaves a gap. It learns of it after a second, and the next opening does too.
#[tokio::test(start_paused = true)]
async fn an_older_log_is_put_back_under_a_busy_session() {
    let (bucket, session) = TestBucket::opened().await;
    let backup = bucket.snapshot().await;
    write_many(&session, 3).await;
    tokio::time::advance(CHECK_AFTER).await;
    session.read(&path("/memories/1")).await.unwrap();
    put_back(&bucket, &backup).await;
    write(&session, "/memories/gap", "text").await.unwrap();
    tokio::time::advance(CHECK_AFTER).await;
    for outcome in [session.read(&path("/memories/gap")).await.map(drop), write(&session, "/memories/a", "text").await]
    {
        let (kind, message) = failure(outcome);
        assert!(kind == ErrorKind::Damaged && message.contains(&log(2)), "{message}");
    }
    BucketStore::builder(bucket.clone(), PREFIX.into()).repair().await.unwrap();
    expect_present(&bucket, &session, "after a repair").await;
}

async fn put_back(bucket: &TestBucket, backup: &BTreeMap<String, Bytes>) {
    clear(bucket).await;
    for (key, bytes) in backup {
        bucket.put_object(key, bytes.clone()).await;
    }
}

/// The store was removed, and another one was created under the same prefix.
#[tokio::test(start_paused = true)]
async fn another_store_in_the_place_of_that_of_a_session() {
    for commits in [0, 5, 10, 30] {
        let (bucket, session) = TestBucket::opened().await;
        write_many(&session, 10).await;
        clear(&bucket).await;
        write_many(&bucket.other().await, commits).await;
        bucket.other().await;
        tokio::time::advance(CHECK_AFTER).await;
        let before = bucket.snapshot().await;
        assert_eq!(failure(session.read(&path("/memories/1")).await).0, ErrorKind::Damaged, "{commits}");
        assert_eq!(failure(write(&session, "/memories/new", "new").await).0, ErrorKind::Damaged, "{commits}");
        assert_eq!(bucket.snapshot().await, before, "{commits}");
    }
}

/// The first commit or the whole log was removed, and checkpoints and contents remain.
#[tokio::test(start_paused = true)]
async fn a_log_that_is_missing_beside_a_checkpoint() {
    let (bucket, session) = with_session(20).await;
    session.gc(Duration::ZERO).await.unwrap();
    for key in bucket.keys("log").await {
        bucket.remove_object(&key).await;
    }
    expect_damage_at_opening(&bucket, "log/", "the whole log").await;
}

/// The log was trimmed, and its only checkpoint was removed.
#[tokio::test(start_paused = true)]
async fn a_missing_checkpoint() {
    let (bucket, session) = with_session(20).await;
    bucket.other().await.gc(Duration::ZERO).await.unwrap();
    for key in bucket.keys("checkpoints").await {
        bucket.remove_object(&key).await;
    }
    expect_damage(&bucket, &session, "checkpoints", "no checkpoint").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_altered_run_or_checkpoint() {
    for (directory, is_missing) in [("contents/runs", true), ("contents/runs", false), ("checkpoints", false)] {
        let (bucket, session) = with_session(20).await;
        bucket.other().await.gc(Duration::ZERO).await.unwrap();
        let files = bucket.other().await.list(&path("/memories")).await.unwrap();
        let keys = bucket.keys(directory).await;
        for (key, is_last) in keys.iter().zip([false, true]) {
            if is_missing {
                bucket.remove_object(key).await;
            } else {
                let bytes = &bucket.snapshot().await[key];
                bucket.put_object(key, edited(bytes, "\"version\":1", "\"version\": 1").replacen('}', "", 1)).await;
            }
            if is_last {
                expect_damage(&bucket, &session, directory, &format!("{key} is missing: {is_missing}")).await;
            } else {
                // Another checkpoint and the commits after it have everything.
                assert_eq!(bucket.other().await.list(&path("/memories")).await.unwrap(), files);
            }
        }
    }
}

/// A checkpoint under the number of another.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_with_another_number() {
    let (bucket, session) = with_session(20).await;
    bucket.other().await.gc(Duration::ZERO).await.unwrap();
    let keys = bucket.keys("checkpoints").await;
    let manifest = bucket.snapshot().await.remove(&keys[0]).unwrap();
    bucket.put_object(&checkpoint(999), manifest).await;
    // It is reported, and not used.
    let files = bucket.other().await.list(&path("/memories")).await.unwrap();
    assert_eq!(files, session.list(&path("/memories")).await.unwrap());
    let report = session.verify(|_| {}).await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.message.contains(&checkpoint(999))), "{report:?}");
}
