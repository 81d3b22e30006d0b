//! The cases of the policies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::future::join_all;
use memory_tool_core::{
    Actor, Batch, BoxError, Engine, InMemoryStore, MemoryPath, MemoryTool, Node, Precondition, Quota, ReadOnlyStore,
    Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{
    AuditError, AuditEvent, AuditLog, AuditOutcome, AuditRecord, AuditedChange, AuditedFile, AuditedStore,
    ExpiringStore, LimitedStore, MountedStore, Scope, ScopedStore, ScreenedStore, SensitiveData,
};
use serde_json::json;

use super::{LayerCase, Outcome, content, expect, expect_equal, expect_refused, files, path, write};

pub(super) const CASES: &[LayerCase] = cases![
    "scope.apart", "scopes of one store cannot see or change each other", scopes_are_apart;
    "scope.names", "errors do not reveal the directory of a scope", scopes_are_not_named;
    "read-only.refuses", "a read-only store can be read but not changed", read_only_is_read;
    "mount.read-only", "a mounted store can be read inside another one but not changed", a_mount_is_shown;
    "limits.files", "concurrent writers reach the limit on files exactly", files_are_limited;
    "limits.bytes", "concurrent writers reach the limit on bytes exactly", bytes_are_limited;
    "limits.cleaning", "a memory that is over its limits can be cleaned up", what_is_over_can_be_cleaned;
    "expiry.sweep", "an unused file is hidden and then removed", files_expire;
    "expiry.reading", "reading a file keeps it from expiring", reading_keeps_a_file;
    "screening.joined", "an edit that joins the halves of a secret is refused", halves_are_joined;
    "audit.digests", "each change is recorded with digests of the content before and after", changes_are_recorded;
];

const WRITERS: usize = 8;
/// The number of writes of each after which a refusal is overdue.
const MOST_WRITES: usize = 100;

fn scoped(store: &Arc<dyn Store>, name: &str) -> Result<ScopedStore<Arc<dyn Store>>, BoxError> {
    Ok(ScopedStore::new(Arc::clone(store), Scope::from_trusted_name(name)?))
}

async fn scopes_are_apart(store: Arc<dyn Store>) -> Outcome {
    let (alice, alice2) = (scoped(&store, "alice")?, scoped(&store, "alice2")?);
    write(&alice, "a", "hers").await?;
    write(&alice2, "a", "theirs").await?;
    expect_equal("the content for alice", content(&alice, "a").await?, Some("hers".to_owned()))?;
    expect_equal("the files of alice2", files(&alice2).await?.len(), 1)?;
    alice.remove(MemoryPath::root()).await?;
    expect_equal("the files of alice after she removed all", files(&alice).await?.len(), 0)?;
    expect_equal("the content for alice2", content(&alice2, "a").await?, Some("theirs".to_owned()))
}

async fn scopes_are_not_named(store: Arc<dyn Store>) -> Outcome {
    let scope = Scope::from_trusted_name("alice")?;
    let directory = scope.directory().to_string();
    let alice = ScopedStore::new(store, scope);
    write(&alice, "a", "text").await?;
    let absent = Batch::new().require(path("a")?, Precondition::Absent).write(path("a")?, "");
    for refused in [alice.apply(absent).await, alice.remove(path("b")?).await] {
        let error = refused.err().ok_or("an impossible change succeeded")?.to_string();
        expect(!error.contains(&directory), || format!("{error} reveals the directory of the scope"))?;
    }
    Ok(())
}

async fn read_only_is_read(store: Arc<dyn Store>) -> Outcome {
    write(&store, "a", "text").await?;
    let read_only = ReadOnlyStore::new(Arc::clone(&store));
    expect_refused(write(&read_only, "a", "other").await)?;
    expect_refused(read_only.remove(MemoryPath::root()).await)?;
    expect_equal("the content", content(&read_only, "a").await?, Some("text".to_owned()))?;
    expect_equal("the content in the store", content(&store, "a").await?, Some("text".to_owned()))
}

async fn a_mount_is_shown(store: Arc<dyn Store>) -> Outcome {
    write(&store, "a", "shared").await?;
    let mounted = MountedStore::builder(InMemoryStore::new());
    let mounted = mounted.mount_read_only(path("team")?, Arc::clone(&store)).build()?;
    write(&mounted, "b", "private").await?;
    expect_equal("the content", content(&mounted, "team/a").await?, Some("shared".to_owned()))?;
    expect_equal("the files of both", files(&mounted).await?.len(), 2)?;
    expect_refused(write(&mounted, "team/a", "other").await)?;
    expect_equal("the files of the mounted store", files(&store).await?.len(), 1)
}

/// Lets all writers create files of 10 bytes until the limits refuse one, and returns the number of files written.
async fn fill(store: &Arc<dyn Store>, quota: Quota) -> Result<usize, BoxError> {
    let writing = (0..WRITERS).map(|writer| async move {
        let limited = LimitedStore::new(Arc::clone(store), quota);
        for number in 0..MOST_WRITES {
            match write(&limited, &format!("{writer}/{number}"), "0123456789").await {
                Ok(()) => {}
                Err(StoreError::Refused { .. }) => return Ok(number),
                Err(error) => return Err(BoxError::from(error)),
            }
        }
        Err("the limit was never reached".into())
    });
    join_all(writing).await.into_iter().sum()
}

async fn files_are_limited(store: Arc<dyn Store>) -> Outcome {
    let written = fill(&store, Quota::new().with_files(20)).await?;
    expect_equal("the number of successful writes", written, 20)?;
    expect_equal("the number of files", files(&store).await?.len(), 20)
}

async fn bytes_are_limited(store: Arc<dyn Store>) -> Outcome {
    let written = fill(&store, Quota::new().with_bytes(205)).await?;
    expect_equal("the number of successful writes", written, 20)?;
    let bytes: u64 = files(&store).await?.iter().map(|file| file.size).sum();
    expect_equal("the number of bytes", bytes, 200)
}

async fn what_is_over_can_be_cleaned(store: Arc<dyn Store>) -> Outcome {
    for name in ["a", "b", "c"] {
        write(&store, name, "0123456789").await?;
    }
    let limited = LimitedStore::new(store, Quota::new().with_files(1).with_bytes(10).with_file_bytes(5));
    let reason = expect_refused(write(&limited, "d", "x").await)?;
    expect(reason.contains("4 files"), || format!("the reason does not give the resulting number of files: {reason}"))?;
    write(&limited, "a", "0123").await?;
    limited.rename(path("b")?, path("e")?).await?;
    limited.remove(path("c")?).await?;
    expect_equal("the number of files", files(&limited).await?.len(), 2)
}

/// The current day, which a case sets.
type Today = Arc<AtomicU64>;

/// The day, and a store in which files expire after ten days.
fn expiring(store: Arc<dyn Store>) -> Result<(Today, ExpiringStore<Arc<dyn Store>>), BoxError> {
    const DAY: u64 = 24 * 60 * 60;
    let today = Today::new(AtomicU64::new(21_000));
    let day = Arc::clone(&today);
    let clock = move || UNIX_EPOCH + Duration::from_secs(DAY * day.load(Ordering::Relaxed));
    Ok((today, ExpiringStore::builder(store, Duration::from_secs(10 * DAY)).clock(clock).build()?))
}

async fn files_expire(store: Arc<dyn Store>) -> Outcome {
    let (today, expiring) = expiring(Arc::clone(&store))?;
    write(&expiring, "old/a", "text").await?;
    today.fetch_add(8, Ordering::Relaxed);
    write(&expiring, "b", "text").await?;
    today.fetch_add(8, Ordering::Relaxed);
    expect_equal("the content of the expired file", content(&expiring, "old/a").await?, None)?;
    expect_equal("its directory", expiring.read(path("old")?).await?, Node::Absent)?;
    expect_equal("the number of visible files", files(&expiring).await?.len(), 1)?;
    expect_equal(
        "the files that a sweep removed",
        expiring.sweep().await?.removed,
        vec![StorePath::from(path("old/a")?)],
    )?;
    expect_equal("the stored content of the expired file", content(&store, "old/a").await?, None)
}

async fn reading_keeps_a_file(store: Arc<dyn Store>) -> Outcome {
    let (today, expiring) = expiring(store)?;
    write(&expiring, "a", "text").await?;
    for _ in 0..3 {
        today.fetch_add(8, Ordering::Relaxed);
        expect_equal("the content of the file", content(&expiring, "a").await?, Some("text".to_owned()))?;
    }
    expect_equal("the files that a sweep removed", expiring.sweep().await?.removed, Vec::new())
}

async fn halves_are_joined(store: Arc<dyn Store>) -> Outcome {
    let tool = Engine::new(ScreenedStore::new(Arc::clone(&store), SensitiveData::new()));
    let half = "postgres://app:\n";
    tool.call(json!({"command": "create", "path": "/memories/db", "file_text": half})).await?;
    let joined = json!({
        "command": "str_replace", "path": "/memories/db", "old_str": ":\n", "new_str": ":t7Kq-9vLz2@db.internal/app\n",
    });
    expect(tool.call(joined).await.is_err(), || "the edit was not refused".to_owned())?;
    expect_equal("the content of the file", content(&store, "db").await?, Some(half.to_owned()))
}

#[derive(Clone, Debug, Default)]
struct Records(Arc<Mutex<Vec<AuditRecord>>>);

#[async_trait]
impl AuditLog for Records {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
        Ok(())
    }
}

async fn changes_are_recorded(store: Arc<dyn Store>) -> Outcome {
    let log = Records::default();
    let audited = AuditedStore::new(Arc::clone(&store), log.clone(), Actor::from_trusted_name("alice")?);
    write(&audited, "a", "before").await?;
    let Node::File(file) = audited.read(path("a")?).await? else { return Err("the file is missing".into()) };
    let edit = Batch::new().require(path("a")?, Precondition::Version(file.version)).write(path("a")?, "after");
    audited.apply(edit).await?;
    let records = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    expect_equal("the number of records", records.len(), 4)?;
    let [.., intent, outcome] = &records[..] else { return Err("no change was recorded".into()) };
    let AuditEvent::Intent { changes } = &intent.event else { return Err(format!("no intent: {intent:?}").into()) };
    let [AuditedChange::Write { after, .. }] = &changes[..] else { return Err(format!("{changes:?}").into()) };
    expect_equal("the digest after", after, &AuditedFile::of(b"after"))?;
    let digest_before = AuditedFile::of(b"before").sha256.to_string();
    expect(json!(intent).to_string().contains(&digest_before), || format!("no digest before: {intent:?}"))?;
    let is_done = matches!(outcome.event, AuditEvent::Outcome { outcome: AuditOutcome::Done, .. });
    expect(is_done, || format!("not recorded as done: {outcome:?}"))
}
