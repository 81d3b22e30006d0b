//! [`PolicyCase`]: tests of the policies over any store. The suite tests whether a store keeps the contract, also with a policy over it;
//! these cases test whether the policies do what they are for over it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures::future::{BoxFuture, join_all};
use memory_tool_core::{
    Batch, BoxError, Engine, FileEntry, InMemoryStore, MemoryPath, MemoryTool, Node, Precondition, Quota,
    ReadOnlyStore, Store, StoreError, StoreExt as _,
};
use memory_tool_policies::{
    Actor, AuditEvent, AuditFilter, AuditOutcome, AuditedChange, AuditedFile, AuditedStore, ExpiringStore,
    LimitedStore, MountedStore, Scope, ScopedStore, ScreenedStore, SensitiveData, StoreLog,
};
use serde_json::json;

/// One thing that a policy promises of any store beneath it.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_conformance::PolicyCase;
/// use memory_tool_core::InMemoryStore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// for case in PolicyCase::ALL {
///     let store = Arc::new(InMemoryStore::new()); // a new store of yours for each
///     case.run(store).await.map_err(|error| format!("{}: {error}", case.id()))?;
/// }
/// # Ok::<(), String>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct PolicyCase {
    id: &'static str,
    about: &'static str,
    run: fn(Arc<dyn Store>) -> BoxFuture<'static, Outcome>,
}

type Outcome = Result<(), BoxError>;

macro_rules! cases {
    ($($id:literal, $about:literal, $function:ident;)+) => {
        &[$(PolicyCase { id: $id, about: $about, run: |store| Box::pin($function(store)) },)+]
    };
}

impl PolicyCase {
    /// All of them.
    pub const ALL: &'static [Self] = cases![
        "scope.apart", "scopes of one store neither see nor change each other", scopes_are_apart;
        "scope.names", "no error tells where a scope lies", scopes_are_not_named;
        "read-only.refuses", "a read-only store is read, and nothing is changed", read_only_is_read;
        "mount.read-only", "a store is shown beneath another one, to be read alone", a_mount_is_shown;
        "limits.files", "those that write at once fill a memory with files up to its limit, and never pass it", files_are_limited;
        "limits.bytes", "those that write at once fill a memory with bytes up to its limit, and never pass it", bytes_are_limited;
        "limits.cleaning", "a memory that is over its limits can be cleaned up", what_is_over_can_be_cleaned;
        "expiry.sweep", "a file that nobody uses is hidden, and then removed", files_expire;
        "expiry.reading", "a file that is read does not expire", reading_keeps_a_file;
        "screening.joined", "a secret is seen where an edit joins its halves, and nothing is changed", halves_are_joined;
        "audit.digests", "each change is recorded with the digests of what was there before and after", changes_are_recorded;
    ];

    /// What it is called: the policy, a dot, what it is about.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// What it is about, in a sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Runs it on a store without files, which nobody else uses.
    ///
    /// # Errors
    /// What the policy promises and the store does not let it keep, or a failure of the store.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), BoxError> {
        (self.run)(store).await
    }
}

impl fmt::Debug for PolicyCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyCase").field("id", &self.id).field("about", &self.about).finish_non_exhaustive()
    }
}

/// How many write at once.
const WRITERS: usize = 8;
/// How often each of them writes before it is clear that nothing is refused.
const MOST_WRITES: usize = 100;

fn path(name: &str) -> Result<MemoryPath, BoxError> {
    Ok(format!("/memories/{name}").parse()?)
}

async fn write(store: &dyn Store, name: &str, content: &str) -> Result<(), StoreError> {
    store.write(format!("/memories/{name}"), content).await
}

async fn content(store: &dyn Store, name: &str) -> Result<Option<String>, BoxError> {
    Ok(match store.read(path(name)?).await? {
        Node::File(file) => Some(String::from_utf8(file.content)?),
        Node::Absent | Node::Directory(_) => None,
    })
}

async fn files(store: &dyn Store) -> Result<Vec<FileEntry>, StoreError> {
    store.list(MemoryPath::root()).await
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

fn expect_equal<T: fmt::Debug + PartialEq>(what: &str, found: T, expected: T) -> Outcome {
    expect(found == expected, || format!("{what}: found {found:?} instead of {expected:?}"))
}

fn expect_refused<T: fmt::Debug>(outcome: Result<T, StoreError>) -> Result<String, BoxError> {
    match outcome {
        Err(StoreError::Refused { reason, .. }) => Ok(reason),
        other => Err(format!("not refused, but {other:?}").into()),
    }
}

fn scoped(store: &Arc<dyn Store>, name: &str) -> Result<ScopedStore<Arc<dyn Store>>, BoxError> {
    Ok(ScopedStore::new(Arc::clone(store), Scope::from_trusted_name(name)?))
}

async fn scopes_are_apart(store: Arc<dyn Store>) -> Outcome {
    let (alice, alice2) = (scoped(&store, "alice")?, scoped(&store, "alice2")?);
    write(&alice, "a", "hers").await?;
    write(&alice2, "a", "theirs").await?;
    expect_equal("alice reads", content(&alice, "a").await?, Some("hers".to_owned()))?;
    expect_equal("the files of alice2", files(&alice2).await?.len(), 1)?;
    alice.remove(MemoryPath::root()).await?;
    expect_equal("the files of alice, who emptied her memory", files(&alice).await?.len(), 0)?;
    expect_equal("alice2 reads", content(&alice2, "a").await?, Some("theirs".to_owned()))
}

async fn scopes_are_not_named(store: Arc<dyn Store>) -> Outcome {
    let scope = Scope::from_trusted_name("alice")?;
    let directory = scope.directory().to_string();
    let alice = ScopedStore::new(store, scope);
    write(&alice, "a", "text").await?;
    let absent = Batch::new().require(path("a")?, Precondition::Absent).write(path("a")?, "");
    for refused in [alice.apply(absent).await, alice.remove(path("b")?).await] {
        let error = refused.err().ok_or("what cannot be done was done")?.to_string();
        expect(!error.contains(&directory), || format!("{error} tells where the scope lies"))?;
    }
    Ok(())
}

async fn read_only_is_read(store: Arc<dyn Store>) -> Outcome {
    write(&store, "a", "text").await?;
    let read_only = ReadOnlyStore::new(Arc::clone(&store));
    expect_refused(write(&read_only, "a", "other").await)?;
    expect_refused(read_only.remove(MemoryPath::root()).await)?;
    expect_equal("it reads", content(&read_only, "a").await?, Some("text".to_owned()))?;
    expect_equal("the store holds", content(&store, "a").await?, Some("text".to_owned()))
}

async fn a_mount_is_shown(store: Arc<dyn Store>) -> Outcome {
    write(&store, "a", "shared").await?;
    let mounted = MountedStore::builder(InMemoryStore::new());
    let mounted = mounted.mount_read_only(path("team")?, Arc::clone(&store)).build()?;
    write(&mounted, "b", "private").await?;
    expect_equal("it reads", content(&mounted, "team/a").await?, Some("shared".to_owned()))?;
    expect_equal("the files of both", files(&mounted).await?.len(), 2)?;
    expect_refused(write(&mounted, "team/a", "other").await)?;
    expect_equal("the files of the mounted store", files(&store).await?.len(), 1)
}

/// Lets all write files of 10 bytes until the limits refuse one, and says how many were written.
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
        Err("the limit is never reached".into())
    });
    join_all(writing).await.into_iter().sum()
}

async fn files_are_limited(store: Arc<dyn Store>) -> Outcome {
    let written = fill(&store, Quota::new().with_files(20)).await?;
    expect_equal("the files that were written", written, 20)?;
    expect_equal("the files that are there", files(&store).await?.len(), 20)
}

async fn bytes_are_limited(store: Arc<dyn Store>) -> Outcome {
    let written = fill(&store, Quota::new().with_bytes(205)).await?;
    expect_equal("the files that were written", written, 20)?;
    let bytes: u64 = files(&store).await?.iter().map(|file| file.size).sum();
    expect_equal("the bytes that are there", bytes, 200)
}

async fn what_is_over_can_be_cleaned(store: Arc<dyn Store>) -> Outcome {
    for name in ["a", "b", "c"] {
        write(&store, name, "0123456789").await?;
    }
    let limited = LimitedStore::new(store, Quota::new().with_files(1).with_bytes(10).with_file_bytes(5));
    let reason = expect_refused(write(&limited, "d", "x").await)?;
    expect(reason.contains("4 files"), || format!("the reason does not say what was asked for: {reason}"))?;
    write(&limited, "a", "0123").await?;
    limited.rename(path("b")?, path("e")?).await?;
    limited.remove(path("c")?).await?;
    expect_equal("the files that are left", files(&limited).await?.len(), 2)
}

/// A day that a case sets.
type Today = Arc<AtomicU64>;

/// The day, and the store over which files expire after ten.
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
    expect_equal("the expired file reads", content(&expiring, "old/a").await?, None)?;
    expect_equal("its directory is", expiring.read(path("old")?).await?, Node::Absent)?;
    expect_equal("the files that are shown", files(&expiring).await?.len(), 1)?;
    expect_equal("a sweep removes", expiring.sweep().await?.removed, vec![path("old/a")?])?;
    expect_equal("the expired file is stored as", content(&store, "old/a").await?, None)
}

async fn reading_keeps_a_file(store: Arc<dyn Store>) -> Outcome {
    let (today, expiring) = expiring(store)?;
    write(&expiring, "a", "text").await?;
    for _ in 0..3 {
        today.fetch_add(8, Ordering::Relaxed);
        expect_equal("the file reads", content(&expiring, "a").await?, Some("text".to_owned()))?;
    }
    expect_equal("a sweep removes", expiring.sweep().await?.removed, Vec::new())
}

async fn halves_are_joined(store: Arc<dyn Store>) -> Outcome {
    let tool = Engine::new(ScreenedStore::new(Arc::clone(&store), SensitiveData::new()));
    let half = "postgres://app:\n";
    tool.call(json!({"command": "create", "path": "/memories/db", "file_text": half})).await?;
    let joined = json!({
        "command": "str_replace", "path": "/memories/db", "old_str": ":\n", "new_str": ":t7Kq-9vLz2@db.internal/app\n",
    });
    expect(tool.call(joined).await.is_err(), || "the edit was made".to_owned())?;
    expect_equal("the file holds", content(&store, "db").await?, Some(half.to_owned()))
}

async fn changes_are_recorded(store: Arc<dyn Store>) -> Outcome {
    let logged: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    let log = StoreLog::new(Arc::clone(&logged));
    let audited = AuditedStore::new(Arc::clone(&store), log.clone(), Actor::from_trusted_name("alice")?);
    write(&audited, "a", "before").await?;
    let Node::File(file) = audited.read(path("a")?).await? else { return Err("the file is not there".into()) };
    let edit = Batch::new().require(path("a")?, Precondition::Version(file.version)).write(path("a")?, "after");
    audited.apply(edit).await?;
    let trail = log.read(&AuditFilter::new()).await?;
    expect_equal("the unfinished changes", trail.unfinished().count(), 0)?;
    let [.., intent, outcome] = &trail.records[..] else { return Err("nothing was recorded".into()) };
    let AuditEvent::Intent { changes } = &intent.event else { return Err(format!("no intent: {intent:?}").into()) };
    let [AuditedChange::Write { after, .. }] = &changes[..] else { return Err(format!("{changes:?}").into()) };
    expect_equal("the digest after", after, &AuditedFile::of(b"after"))?;
    let digest_before = AuditedFile::of(b"before").sha256.to_string();
    expect(json!(intent).to_string().contains(&digest_before), || format!("no digest before: {intent:?}"))?;
    let is_done = matches!(outcome.event, AuditEvent::Outcome { outcome: AuditOutcome::Done, .. });
    expect(is_done, || format!("not recorded as done: {outcome:?}"))
}
