//! Audit records of commands and batches, their order, and failures of the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::support::{Log, block_on, contents, memory_path, path, read_record, remove, rename, run, steps, write};
use async_trait::async_trait;
use futures::future::{FutureExt as _, join, poll_fn};
use memory_tool_core::{
    Actor, Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, Precondition, Quota, ReadOnlyStore, ReadOptions,
    Store, StoreError, StoreExt as _, StorePath, Version,
};
use memory_tool_policies::{
    AuditError, AuditEvent, AuditLog, AuditOutcome, AuditRecord, AuditedChange, AuditedFile, AuditedState,
    AuditedStore, AuditedTool, Detector, ExpiringStore, JsonLinesLog, LimitedStore, MAX_LISTED_FILES, MountedStore,
    Scope, ScopedStore, ScreenedStore, SensitiveData,
};
use memory_tool_test_fixtures::property;
use proptest::prelude::*;
use serde_json::{Value, json};

const TEA: &str = "Prefers tea.\n";
const COFFEE: &str = "Prefers coffee.\n";

/// Digests and sizes computed with Python's `hashlib`.
fn tea() -> Value {
    json!({"sha256": "fa3ae007fc19c9379c7209c7be73b37a4f7306e98690d5ac86491955aaa47da5", "size": 13})
}

fn coffee() -> Value {
    json!({"sha256": "20aa974619515e9096f25aea575eb4a53cb8941f3f9fd8352c2a70ffdec32761", "size": 16})
}

fn noted_coffee() -> Value {
    json!({"sha256": "0ad4b9b722359700c7b010444ddc348914e96d3cabd0bb5301c4abdcd49964a8", "size": 21})
}

/// An in-process log that can fail at a given record.
#[derive(Clone, Debug, Default)]
struct TestLog {
    records: Arc<Mutex<Vec<AuditRecord>>>,
    fails_at: Option<usize>,
    appended: Arc<AtomicUsize>,
}

impl TestLog {
    /// Creates a log that fails at this record and keeps the others.
    fn failing_at(index: usize) -> Self {
        Self { fails_at: Some(index), ..Self::default() }
    }

    fn records(&self) -> Vec<AuditRecord> {
        self.records.lock().unwrap().clone()
    }

    /// Returns the records as JSON, without the fields that differ between runs.
    fn plain(&self) -> Vec<Value> {
        let records = self.records();
        let records = records.into_iter().map(|record| {
            let mut record = serde_json::to_value(record).unwrap();
            for field in ["id", "time"] {
                record.as_object_mut().unwrap().remove(field);
            }
            record
        });
        records.collect()
    }

    fn keep(&self, record: &AuditRecord) {
        self.records.lock().unwrap().push(record.clone());
    }
}

#[async_trait]
impl AuditLog for TestLog {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        if self.fails_at == Some(self.appended.fetch_add(1, Ordering::Relaxed)) {
            return Err(AuditError::new("appending a record", "no such disk: /dev/sdb7"));
        }
        self.keep(record);
        Ok(())
    }

    fn append_without_waiting(&self, record: &AuditRecord) {
        self.keep(record);
    }
}

/// An in-memory store with faults and other events that a test can trigger.
#[derive(Debug, Default)]
struct Scripted {
    files: InMemoryStore,
    reads: AtomicUsize,
    cannot_read: AtomicBool,
    /// A file that another writer writes right before the next batch.
    overtaken_by: Mutex<Option<(&'static str, &'static str)>>,
    /// Whether `apply` never returns after it applied the batch.
    hangs: AtomicBool,
    fails: Mutex<Option<ErrorKind>>,
    /// A log whose length is noted in `log_lengths` before each batch.
    log: Option<TestLog>,
    log_lengths: Mutex<Vec<usize>>,
}

#[async_trait]
impl Store for Scripted {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.cannot_read.load(Ordering::Relaxed) {
            return Err(StoreError::failure(ErrorKind::Damaged, "reading a file", "damaged"));
        }
        self.files.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if let Some(log) = &self.log {
            self.log_lengths.lock().unwrap().push(log.records().len());
        }
        let other = self.overtaken_by.lock().unwrap().take();
        if let Some((at, text)) = other {
            write(&self.files, at, text).await?;
        }
        if let Some(kind) = *self.fails.lock().unwrap() {
            return Err(StoreError::failure(kind, "applying a batch", "no such disk: /dev/sdb7"));
        }
        self.files.apply(batch).await?;
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

type Tool = AuditedTool<Engine<Arc<AuditedStore<Arc<Scripted>>>>>;

fn actor(name: &str) -> Actor {
    Actor::from_trusted_name(name).unwrap()
}

/// An engine whose changes are by `name`.
fn engine<S: Store>(store: S, name: &str) -> Engine<S> {
    Engine::builder(store).actor(actor(name)).build()
}

fn audited(store: Scripted, log: &TestLog) -> (Tool, Arc<Scripted>) {
    let store = Arc::new(store);
    let audited = Arc::new(AuditedStore::new(Arc::clone(&store), log.clone(), actor("the service")));
    (AuditedTool::new(engine(audited, "alice"), log.clone(), actor("alice")), store)
}

fn create(at: &str, text: &str) -> Value {
    json!({"command": "create", "path": at, "file_text": text})
}

fn str_replace(at: &str, old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": at, "old_str": old, "new_str": new})
}

fn intent(command: &str, change: Value) -> Value {
    json!({"format": 1, "actor": "alice", "command": command, "event": "intent", "changes": [change]})
}

fn done(command: &str) -> Value {
    json!({"format": 1, "actor": "alice", "command": command, "event": "outcome", "outcome": "done"})
}

#[test]
fn each_command_records_its_changes_and_outcomes() {
    block_on(async {
        let log = TestLog::default();
        let (tool, _) = audited(Scripted::default(), &log);
        let begun = SystemTime::now();
        let (drink, note) = ("/memories/drink.txt", "/memories/notes/drink.txt");
        for input in [
            create(drink, TEA),
            str_replace(drink, "tea", "coffee"),
            json!({"command": "insert", "path": drink, "insert_line": 0, "insert_text": "Note"}),
            json!({"command": "view", "path": drink}),
            json!({"command": "rename", "old_path": drink, "new_path": note}),
            json!({"command": "rename", "old_path": "/memories/notes", "new_path": "/memories/old"}),
            json!({"command": "delete", "path": "/memories/old"}),
            create(drink, COFFEE),
            json!({"command": "delete", "path": drink}),
        ] {
            tool.call(input).await.unwrap();
        }
        tool.clear_all_memory().await.unwrap();
        let directory = |path| json!({"directory": {"files": 1, "bytes": 21, "listed": [{"path": path, "size": 21}]}});
        let nothing = json!({"directory": {"files": 0, "bytes": 0, "listed": []}});
        let expected = [
            ("create", json!({"change": "write", "path": drink, "before": "absent", "after": tea()})),
            ("str_replace", json!({"change": "write", "path": drink, "before": {"file": tea()}, "after": coffee()})),
            (
                "insert",
                json!({"change": "write", "path": drink, "before": {"file": coffee()}, "after": noted_coffee()}),
            ),
            ("rename", json!({"change": "rename", "from": drink, "to": note, "moved": {"file": noted_coffee()}})),
            (
                "rename",
                json!({"change": "rename", "from": "/memories/notes", "to": "/memories/old", "moved": directory(note)}),
            ),
            (
                "delete",
                json!({"change": "remove", "path": "/memories/old", "before": directory("/memories/old/drink.txt")}),
            ),
            ("create", json!({"change": "write", "path": drink, "before": "absent", "after": coffee()})),
            ("delete", json!({"change": "remove", "path": drink, "before": {"file": coffee()}})),
            ("clear_all_memory", json!({"change": "remove", "path": "/memories", "before": nothing})),
        ];
        let expected = expected.into_iter().flat_map(|(command, change)| [intent(command, change), done(command)]);
        assert_eq!(log.plain(), expected.collect::<Vec<_>>());

        let records = log.records();
        for pair in records.chunks(2) {
            assert_eq!(pair[0].id, pair[1].id);
            assert!(pair[0].time <= pair[1].time);
        }
        let mut ids: Vec<_> = records.iter().map(|record| &record.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 9);
        assert!(begun <= records[0].time + Duration::from_micros(1) && records[17].time <= SystemTime::now());
    });
}

#[test]
fn a_refused_or_failed_command_is_recorded() {
    block_on(async {
        let log = TestLog::default();
        let (tool, store) = audited(Scripted::default(), &log);
        let at = "/memories/a";
        tool.call(create(at, TEA)).await.unwrap();
        let mut seen = log.plain().len();
        let mut new = || {
            let records = log.plain().split_off(seen);
            seen += records.len();
            records
        };
        let command = |command, path: &Value, outcome, error| {
            let mut record =
                json!({"format": 1, "actor": "alice", "command": command, "event": "command", "outcome": outcome});
            record["error"] = json!(error);
            record.as_object_mut().unwrap().extend(path.as_object().unwrap().clone());
            record
        };

        tool.call(str_replace(at, "milk", "x")).await.unwrap_err();
        assert_eq!(new(), [command("str_replace", &json!({"path": at}), "refused", "no_match")]);
        tool.call(json!({"command": "rename", "old_path": at, "new_path": "/memories/a/b"})).await.unwrap_err();
        let paths = json!({"path": at, "new_path": "/memories/a/b"});
        assert_eq!(new(), [command("rename", &paths, "refused", "rename_into_itself")]);
        tool.call(json!({"command": "view", "path": "/memories/b"})).await.unwrap_err();
        tool.call(json!({"command": "shred", "path": "/memories/b"})).await.unwrap_err();
        assert_eq!(new(), [command("none", &json!({}), "refused", "invalid_input")]);

        tool.call(create(at, COFFEE)).await.unwrap_err();
        let records = new();
        assert_eq!(records[0]["event"], "intent");
        assert_eq!((&records[1]["outcome"], &records[1]["error"]), (&json!("refused"), &json!("already_exists")));
        assert_eq!(records[2], command("create", &json!({"path": at}), "refused", "already_exists"));

        for (kind, outcome, error) in
            [(ErrorKind::Full, "failed", "full"), (ErrorKind::OutcomeUnknown, "unknown", "outcome_unknown")]
        {
            *store.fails.lock().unwrap() = Some(kind);
            tool.call(create("/memories/b", COFFEE)).await.unwrap_err();
            let records = new();
            assert_eq!((&records[1]["outcome"], &records[1]["error"]), (&json!(outcome), &json!(error)));
            assert_eq!(records[2], command("create", &json!({"path": "/memories/b"}), outcome, error));
        }
    });
}

#[test]
fn with_views_records_views_and_fails_them_if_the_log_fails() {
    block_on(async {
        for (log, is_shown) in [(TestLog::default(), true), (TestLog::failing_at(0), false)] {
            let (tool, store) = audited(Scripted::default(), &log);
            write(&*store, "/memories/a", TEA).await.unwrap();
            let tool = tool.with_views();
            let shown = tool.call(json!({"command": "view", "path": "/memories/a"})).await;
            assert_eq!(shown.is_ok(), is_shown);
            if is_shown {
                let expected = json!({
                    "format": 1, "actor": "alice", "command": "view", "event": "command", "path": "/memories/a",
                    "outcome": "done",
                });
                assert_eq!(log.plain(), [expected]);
            }
        }
    });
}

#[test]
fn a_batch_outside_of_a_command_has_the_actor_of_the_store() {
    block_on(async {
        let log = TestLog::default();
        let (tool, store) = audited(Scripted::default(), &log);
        write(&*audited_store(&log, &store), "/memories/a", TEA).await.unwrap();
        let check = Batch::new().require(path("/memories/b"), Precondition::Absent);
        audited_store(&log, &store).apply(check).await.unwrap();
        tool.call(create("/memories/b", TEA)).await.unwrap();
        let records = log.records();
        let actors_and_commands: Vec<_> = records.iter().map(|record| (&*record.actor, &*record.command)).collect();
        assert_eq!(
            actors_and_commands,
            [("the service", "apply"), ("the service", "apply"), ("alice", "create"), ("alice", "create")]
        );
    });
}

fn audited_store(log: &TestLog, store: &Arc<Scripted>) -> Arc<AuditedStore<Arc<Scripted>>> {
    Arc::new(AuditedStore::new(Arc::clone(store), log.clone(), actor("the service")))
}

/// A store that yields to other tasks before each operation, like a store on a network.
#[derive(Debug)]
struct Yielding<S>(S);

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[async_trait]
impl<S: Store> Store for Yielding<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        yield_once().await;
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        yield_once().await;
        self.0.apply(batch).await
    }
}

#[test]
fn concurrent_commands_on_one_thread_have_the_right_actors() {
    block_on(async {
        let log = TestLog::default();
        let store = Yielding(InMemoryStore::new());
        let store = Arc::new(AuditedStore::new(store, log.clone(), actor("the service")));
        // Also over the audited store, so that other tasks run between the start of a command and its batch.
        let tool = |name: &str| AuditedTool::new(engine(Yielding(Arc::clone(&store)), name), log.clone(), actor(name));
        let (alice, bob) = (tool("alice"), tool("bob"));
        for round in 0..20 {
            let inputs = ["alice", "bob"].map(|name| create(&format!("/memories/{name}/{round}"), TEA));
            let [first, second] = inputs;
            let direct = async {
                yield_once().await;
                write(&*store, &format!("/memories/the service/{round}"), TEA).await.unwrap();
            };
            let commands = join(alice.call(first), bob.call(second));
            let ((first, second), ()) = join(commands, direct).await;
            assert!(first.is_ok() && second.is_ok());
        }
        let mut intents = 0;
        for record in log.records() {
            if let AuditEvent::Intent { changes } = &record.event {
                intents += 1;
                let owner = changes[0].paths().next().unwrap().segments().next().unwrap();
                assert_eq!(record.actor, owner);
                assert_eq!(record.command == "apply", owner == "the service");
            }
        }
        assert_eq!(intents, 60);
    });
}

#[test]
fn the_intent_is_recorded_before_the_change_and_the_outcome_after_it() {
    block_on(async {
        let log = TestLog::default();
        let (tool, store) = audited(Scripted { log: Some(log.clone()), ..Scripted::default() }, &log);
        tool.call(create("/memories/a", TEA)).await.unwrap();
        tool.call(str_replace("/memories/a", "tea", "coffee")).await.unwrap();
        assert_eq!(*store.log_lengths.lock().unwrap(), [1, 3]);
    });
}

#[test]
fn a_change_is_not_made_if_its_intent_cannot_be_recorded() {
    block_on(async {
        let log = TestLog::failing_at(2);
        let (tool, store) = audited(Scripted::default(), &log);
        tool.call(create("/memories/a", TEA)).await.unwrap();
        let error = tool.call(str_replace("/memories/a", "tea", "coffee")).await.unwrap_err();
        assert_eq!(error.to_string(), "Error: The memory storage failed. Nothing was changed.");
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let chain: Vec<_> = chain.skip(1).map(ToString::to_string).collect();
        assert_eq!(chain, ["writing to the audit log failed", "appending a record failed", "no such disk: /dev/sdb7"]);
        assert_eq!(contents(&store.files).await, [(path("/memories/a"), 13, TEA.into())]);
    });
}

#[test]
fn a_missing_outcome_record_is_reported_and_the_change_succeeds() {
    block_on(async {
        let events = Log::of_this_thread_as_json();
        let log = TestLog::failing_at(1);
        let (tool, store) = audited(Scripted::default(), &log);
        tool.call(create("/memories/a", TEA)).await.unwrap();
        assert_eq!(contents(&store.files).await.len(), 1);
        let event: Value = serde_json::from_str(&events.text()).unwrap();
        assert_eq!((&event["level"], &event["fields"]["command"]), (&json!("ERROR"), &json!("create")));
        assert_eq!(event["fields"]["id"], log.records()[0].id);
        assert!(!event.to_string().contains("/memories") && !event.to_string().contains("tea"), "{event}");
    });
}

#[test]
fn a_dropped_change_is_recorded_as_dropped() {
    block_on(async {
        let log = TestLog::default();
        let (tool, store) = audited(Scripted::default(), &log);
        store.hangs.store(true, Ordering::Relaxed);
        let command = tool.call(create("/memories/a", TEA));
        tokio::time::timeout(Duration::ZERO, command).await.unwrap_err(); // it is polled once
        let records = log.records();
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].event, outcome(AuditOutcome::Dropped));
        assert_eq!(records[0].id, records[1].id);
        assert_eq!(contents(&store.files).await.len(), 1, "it was applied");
    });
}

fn outcome(outcome: AuditOutcome) -> AuditEvent {
    serde_json::from_value(json!({"event": "outcome", "outcome": outcome})).unwrap()
}

#[test]
fn the_policy_that_refused_is_recorded() {
    block_on(async {
        let log = TestLog::default();
        let team = ReadOnlyStore::new(InMemoryStore::new());
        let limited = LimitedStore::new(InMemoryStore::new(), Quota::new().with_depth(2));
        let mounted = MountedStore::builder(limited).mount(memory_path("/memories/team"), team).build().unwrap();
        let audited = AuditedStore::new(mounted, log.clone(), actor("the service"));
        let screened = ScreenedStore::new(audited, SensitiveData::new());
        let tool = AuditedTool::new(engine(screened, "alice"), log.clone(), actor("alice"));
        let secret = concat!("ghp_", "q7RbX2mTnV8cLz4KwP0sYd3JfH6gA1eU9iOv");
        tool.call(create("/memories/a", TEA)).await.unwrap();
        for (input, policy) in [
            (create("/memories/b", secret), "screening"),
            (create(&format!("/memories/{secret}/b"), TEA), "screening"),
            (
                json!({"command": "rename", "old_path": "/memories/a", "new_path": format!("/memories/{secret}")}),
                "screening",
            ),
            (create("/memories/b/c/d/e", TEA), "limits"),
            (create("/memories/team/a", TEA), "read-only"),
        ] {
            tool.call(input).await.unwrap_err();
            let records = log.plain();
            let last = records.last().unwrap();
            assert_eq!((&last["event"], &last["policy"]), (&json!("command"), &json!(policy)), "{last}");
            assert!(!format!("{records:?}").contains(secret), "a refused name is recorded");
        }
        tool.call(create("/memories/a", TEA)).await.unwrap_err();
        assert_eq!(log.plain().last().unwrap().get("policy"), None);
    });
}

/// The stack of docs/production.md.
#[test]
fn in_a_stack_of_all_policies_only_changes_to_files_are_recorded() {
    block_on(async {
        let log = TestLog::default();
        let shared = Arc::new(InMemoryStore::new());
        let scoped = ScopedStore::new(Arc::clone(&shared), Scope::from_trusted_name("alice").unwrap());
        let expiring = ExpiringStore::builder(scoped, Duration::from_secs(3_600)).build().unwrap();
        let limited = LimitedStore::new(expiring, Quota::new().with_files(1));
        let mounted =
            MountedStore::builder(limited).mount(memory_path("/memories/team"), InMemoryStore::new()).build().unwrap();
        let audited = AuditedStore::new(mounted, log.clone(), actor("the service"));
        let screen = SensitiveData::builder().redact([Detector::EmailAddress]).build();
        let tool = engine(ScreenedStore::new(audited, screen), "alice");
        let tool = AuditedTool::new(tool, log.clone(), actor("alice"));

        tool.call(create("/memories/a", "anna@correio.pt")).await.unwrap();
        tool.call(create("/memories/team/a", TEA)).await.unwrap();
        tool.call(create("/memories/b", TEA)).await.unwrap_err();
        write(&*shared, "/memories/scope-alice/new", TEA).await.unwrap(); // without a recorded time
        let times = async || read_record(&shared, "scopes/scope-alice/expiry/access-times").await;
        let before = times().await;
        tool.call(json!({"command": "view", "path": "/memories/new"})).await.unwrap();
        assert_ne!(times().await, before);
        tool.call(json!({"command": "delete", "path": "/memories/a"})).await.unwrap();

        let redacted = serde_json::to_value(AuditedFile::of(b"[redacted: e-mail address]")).unwrap();
        let write = |at: &str, file: Value| json!({"change": "write", "path": at, "before": "absent", "after": file});
        let remove = json!({"change": "remove", "path": "/memories/a", "before": {"file": redacted}});
        let refused = |event: &str| {
            json!({
                "format": 1, "actor": "alice", "command": "create", "event": event,
                "outcome": "refused", "error": "refused", "policy": "limits",
            })
        };
        let mut command = refused("command");
        command["path"] = json!("/memories/b");
        let expected = [
            intent("create", write("/memories/a", redacted.clone())),
            done("create"),
            intent("create", write("/memories/team/a", tea())),
            done("create"),
            intent("create", write("/memories/b", tea())),
            refused("outcome"),
            command,
            intent("delete", remove),
            done("delete"),
        ];
        assert_eq!(log.plain(), expected);
    });
}

/// An `ExpiringStore` changes records in separate batches and in batches with files.
#[test]
fn under_expiry_removed_files_are_recorded_and_access_times_are_not() {
    block_on(async {
        let log = TestLog::default();
        let today = Arc::new(AtomicUsize::new(21_000));
        let day = Arc::clone(&today);
        let days = |number| Duration::from_secs(24 * 60 * 60 * number as u64);
        let clock = move || SystemTime::UNIX_EPOCH + days(day.load(Ordering::Relaxed));
        let audited = AuditedStore::new(InMemoryStore::new(), log.clone(), actor("expiry"));
        let store = ExpiringStore::builder(audited, days(10)).clock(clock).build().unwrap();
        write(&store, "/memories/a", TEA).await.unwrap();
        today.fetch_add(5, Ordering::Relaxed);
        store.read("/memories/a").await.unwrap();
        assert_eq!(log.records().len(), 2);
        today.fetch_add(20, Ordering::Relaxed);
        store.sweep().await.unwrap();
        let remove = json!({"change": "remove", "path": "/memories/a", "before": {"file": tea()}});
        let records = log.plain();
        assert_eq!(records.len(), 4);
        assert_eq!((&records[2]["actor"], &records[2]["changes"]), (&json!("expiry"), &json!([remove])));
    });
}

#[test]
fn a_batch_that_is_dropped_before_its_intent_is_recorded_is_not_applied() {
    block_on(async {
        let log = TestLog::default();
        let store = Arc::new(InMemoryStore::new());
        let audited = AuditedStore::new(Yielding(Arc::clone(&store)), log.clone(), actor("the service"));
        let write = write(&audited, "/memories/a", TEA); // which reads the file first
        assert!(write.now_or_never().is_none());
        assert_eq!(log.records(), []);
        assert_eq!(contents(&*store).await, []);
    });
}

#[test]
fn the_digest_before_belongs_to_the_replaced_version() {
    block_on(async {
        let log = TestLog::default();
        let store = Arc::<Scripted>::default();
        let audited = audited_store(&log, &store);
        let tool = AuditedTool::new(engine(Arc::clone(&audited), "alice"), log.clone(), actor("alice"));
        write(&*store, "/memories/a", TEA).await.unwrap();
        *store.overtaken_by.lock().unwrap() = Some(("/memories/a", "Note\nPrefers tea.\n"));
        tool.call(str_replace("/memories/a", "tea", "coffee")).await.unwrap();
        let records = log.plain();
        assert_eq!(records[0]["changes"][0]["before"], json!({"file": tea()}));
        assert_eq!(records[1]["error"], "version_mismatch");
        let noted_tea = AuditedFile::of(b"Note\nPrefers tea.\n");
        assert_eq!(records[2]["changes"][0]["before"], json!({"file": noted_tea}));
        assert_eq!(records[2]["changes"][0]["after"], noted_coffee());
        assert_eq!(records[3]["outcome"], "done");

        let stale = Batch::new().require(path("/memories/a"), Precondition::Version(Version::new(*b"stale")));
        audited.apply(stale.write(path("/memories/a"), TEA)).await.unwrap_err();
        assert_eq!(log.plain()[4]["changes"][0]["before"], "unknown");
        let Node::File(file) = store.read(path("/memories/a")).await.unwrap() else { panic!() };
        let current = Batch::new().require(path("/memories/a"), Precondition::Version(file.version));
        audited.apply(current.write(path("/memories/a"), TEA)).await.unwrap();
        assert_eq!(log.plain()[6]["changes"][0]["before"], json!({"file": noted_coffee()}));
        write(&*audited, "/memories/a", COFFEE).await.unwrap();
        assert_eq!(log.plain()[8]["changes"][0]["before"], json!({"file": tea()}));
    });
}

#[test]
fn an_edit_reads_the_file_only_once() {
    block_on(async {
        let (tool, store) = audited(Scripted::default(), &TestLog::default());
        tool.call(create("/memories/a", TEA)).await.unwrap();
        assert_eq!(store.reads.load(Ordering::Relaxed), 0);
        tool.call(str_replace("/memories/a", "tea", "coffee")).await.unwrap();
        assert_eq!(store.reads.load(Ordering::Relaxed), 1);
        let without_commands = Engine::new(audited_store(&TestLog::default(), &store));
        without_commands.call(str_replace("/memories/a", "coffee", "tea")).await.unwrap();
        assert_eq!(store.reads.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_unreadable_file_can_be_removed() {
    block_on(async {
        let log = TestLog::default();
        let (tool, store) = audited(Scripted::default(), &log);
        tool.call(create("/memories/a", TEA)).await.unwrap();
        store.cannot_read.store(true, Ordering::Relaxed);
        tool.call(json!({"command": "delete", "path": "/memories/a"})).await.unwrap();
        assert_eq!(log.plain()[2]["changes"][0]["before"], "unknown");
    });
}

#[test]
fn a_directory_is_recorded_with_up_to_max_listed_files() {
    block_on(async {
        let log = TestLog::default();
        let store = Arc::new(InMemoryStore::new());
        for number in 0..=MAX_LISTED_FILES {
            write(&*store, &format!("/memories/a/{number:04}"), TEA).await.unwrap();
        }
        let plain = AuditedStore::new(Arc::clone(&store), log.clone(), actor("the service"));
        rename(&plain, "/memories/a", "/memories/b").await.unwrap();
        remove(&plain.with_digests_of_directories(), "/memories/b").await.unwrap();
        let states = log.records().into_iter().filter_map(|record| match record.event {
            AuditEvent::Intent { mut changes } => match changes.remove(0) {
                AuditedChange::Rename { moved: state, .. } | AuditedChange::Remove { before: state, .. } => Some(state),
                _ => None,
            },
            _ => None,
        });
        for (state, has_digests) in states.zip([false, true]) {
            let AuditedState::Directory { files, bytes, listed } = state else { panic!("{state:?}") };
            assert_eq!((files, bytes), (1_001, 13_013));
            assert_eq!(listed.len(), MAX_LISTED_FILES);
            assert!(listed.is_sorted_by_key(|file| file.path.as_str()));
            let digest = has_digests.then(|| AuditedFile::of(TEA.as_bytes()).sha256);
            assert!(listed.iter().all(|file| file.sha256 == digest && file.size == 13));
        }
    });
}

#[test]
fn logs_contain_no_file_contents() {
    const SECRETS: [&str; 3] = ["divorce", "hunter2", "the customer called"];

    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("audit.jsonl");
        let log = JsonLinesLog::open(&file).await.unwrap();
        let store = AuditedStore::new(InMemoryStore::new(), log.clone(), actor("the service"));
        let tool = AuditedTool::new(engine(store, "alice"), log, actor("alice")).with_views();
        let at = "/memories/a";
        let text = SECRETS.join("\n");
        for input in [
            create(at, &text),
            create(at, &text),
            str_replace(at, SECRETS[0], &text),
            str_replace(at, SECRETS[1], &text),
            str_replace(at, "hunter3", SECRETS[1]),
            json!({"command": "insert", "path": at, "insert_line": 1, "insert_text": text}),
            json!({"command": "insert", "path": at, "insert_line": 100, "insert_text": text}),
            json!({"command": "view", "path": at}),
            json!({"command": SECRETS[0], "path": at}),
            json!({"command": "view", "path": format!("/memories/../{}", SECRETS[0])}),
            json!({"command": "delete", "path": at}),
        ] {
            let _ = tool.call(input).await;
        }
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(written.lines().count() > 10 && written.lines().all(|line| line.contains(r#""format":1"#)));
        for secret in SECRETS {
            assert!(!written.contains(secret), "{secret}");
        }
    });
}

proptest! {
    #![proptest_config(property(64, 10_000))]

    /// An audited store behaves like its inner store, and the digests of all files can be computed from the log.
    #[test]
    fn replaying_the_log_gives_the_digests_of_all_files(
        steps in prop::collection::vec(steps(&["a", "b", "c"], &["/memories"]), 1..30),
    ) {
        block_on(async {
            let log = TestLog::default();
            let store = AuditedStore::new(InMemoryStore::new(), log.clone(), actor("the service"));
            let (plain, audited) = (Engine::new(InMemoryStore::new()), Engine::new(store));
            for step in &steps {
                assert_eq!(run(&audited, step).await, run(&plain, step).await);
            }
            let files = contents(audited.store()).await;
            let held = files.into_iter().map(|(path, _, content)| (path, AuditedFile::of(&content))).collect();
            assert_eq!(replay(&log.records()), held);
        });
    }
}

/// Computes the digests of all files from the records, and checks the recorded previous states.
fn replay(records: &[AuditRecord]) -> BTreeMap<StorePath, AuditedFile> {
    let mut files = BTreeMap::new();
    for pair in records.chunks(2) {
        let [AuditRecord { event: AuditEvent::Intent { changes }, .. }, AuditRecord { event, .. }] = pair else {
            panic!("{pair:?}")
        };
        if *event != outcome(AuditOutcome::Done) {
            continue;
        }
        for change in changes {
            match change {
                AuditedChange::Write { path, before, after } => {
                    let held = files.insert(path.clone(), after.clone());
                    assert_eq!(*before, held.map_or(AuditedState::Absent, AuditedState::File));
                }
                AuditedChange::Remove { path, before } => drop(take(&mut files, path, before)),
                AuditedChange::Rename { from, to, moved } => {
                    for (path, file) in take(&mut files, from, moved) {
                        files.insert(path.replace_prefix(from, to).unwrap(), file);
                    }
                }
                _ => panic!("{change:?}"),
            }
        }
    }
    files
}

fn take(
    files: &mut BTreeMap<StorePath, AuditedFile>,
    at: &StorePath,
    recorded: &AuditedState,
) -> Vec<(StorePath, AuditedFile)> {
    let taken: Vec<_> = files.extract_if(.., |path, _| path == at || path.is_under(at)).collect();
    match (recorded, &taken[..]) {
        (AuditedState::File(file), [(path, held)]) if path == at => assert_eq!(file, held),
        (AuditedState::Directory { listed, .. }, taken) => {
            let listed: Vec<_> = listed.iter().map(|file| (&file.path, file.size)).collect();
            let held: Vec<_> = taken.iter().map(|(path, file)| (path, file.size)).collect();
            assert_eq!(listed, held);
        }
        other => panic!("{other:?}"),
    }
    taken
}

/// Such as the redaction of a history, or a change of a store's settings.
#[test]
fn a_batch_that_changes_only_records_is_recorded_if_it_has_a_command() {
    block_on(async {
        let log = TestLog::default();
        let store = AuditedStore::new(InMemoryStore::new(), log.clone(), actor("the service"));
        let record = || Batch::new().write("/records/test/a".parse::<StorePath>().unwrap(), "text");
        store.apply(record()).await.unwrap();
        store.apply(Batch::new().for_command("create")).await.unwrap();
        assert_eq!(log.records(), []);
        store.apply(record().for_command("redact").by(actor("alice"))).await.unwrap();
        let records = log.plain();
        assert_eq!(records.len(), 2);
        assert_eq!((&records[0]["command"], &records[0]["changes"]), (&json!("redact"), &json!([])));
        assert_eq!((&records[1]["actor"], &records[1]["outcome"]), (&json!("alice"), &json!("done")));
    });
}
