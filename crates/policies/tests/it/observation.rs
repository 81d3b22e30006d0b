//! Events, spans and metrics of commands and operations.

#[cfg(feature = "metrics")]
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

#[cfg(feature = "metrics")]
use crate::support::block_on;
use crate::support::{Log, record};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, Quota, ReadOnlyStore, ReadOptions, Store, StoreError,
    StoreExt as _, StorePath,
};
use memory_tool_policies::{LimitedStore, MountedStore, ObservedStore, ObservedTool, ScreenedStore, SensitiveData};
#[cfg(feature = "metrics")]
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};

const SECRET: &str = "the customer called about her divorce";

/// Returns the events in spans with this name, each with its span.
fn events_in(captured: &Log, span: &str) -> Vec<(Value, Value)> {
    let events = captured.text();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["span"]["name"] == span).map(|event| (event["span"].clone(), event)).collect()
}

/// A store that fails with the given kind of error, or never completes a read.
#[derive(Debug)]
struct Failing(Option<ErrorKind>);

#[async_trait]
impl Store for Failing {
    async fn read_opts(&self, _: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
        match self.0 {
            Some(kind) => Err(StoreError::failure(kind, "reading", SECRET)),
            None => std::future::pending().await,
        }
    }

    async fn apply(&self, _: Batch) -> Result<(), StoreError> {
        unreachable!()
    }
}

fn commands() -> [(Value, &'static str, Option<&'static str>); 9] {
    let path = "/memories/divorce.txt";
    [
        (json!({"command": "create", "path": path, "file_text": SECRET}), "done", None),
        (json!({"command": "create", "path": path, "file_text": SECRET}), "refused", Some("already_exists")),
        (json!({"command": "view", "path": path}), "done", None),
        (json!({"command": "str_replace", "path": path, "old_str": SECRET, "new_str": "x"}), "done", None),
        (
            json!({"command": "str_replace", "path": path, "old_str": SECRET, "new_str": "x"}),
            "refused",
            Some("no_match"),
        ),
        (json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": SECRET}), "done", None),
        (json!({"command": "rename", "old_path": path, "new_path": "/memories/b"}), "done", None),
        (json!({"command": "delete", "path": path}), "refused", Some("not_found")),
        (json!({"command": SECRET}), "refused", Some("invalid_input")),
    ]
}

#[tokio::test]
async fn each_command_is_reported_once_without_contents() {
    let captured = Log::of_this_thread_as_json();
    let tool = ObservedTool::new(Engine::new(ObservedStore::new(InMemoryStore::new(), "alice")), "alice");
    for (command, outcome, error) in commands() {
        let before = events_in(&captured, "memory_command").len();
        let _ = tool.call(command.clone()).await;
        let events = events_in(&captured, "memory_command");
        assert_eq!(events.len(), before + 1);
        let (span, event) = events.last().unwrap();
        assert_eq!(span["store"], "alice");
        assert_eq!(
            span["command"],
            if error == Some("invalid_input") { json!("none") } else { command["command"].clone() }
        );
        assert_eq!(event["level"], "INFO");
        assert_eq!(event["fields"]["outcome"], outcome, "{command}");
        assert_eq!(event["fields"].get("error").and_then(Value::as_str), error, "{command}");
        assert!(event["fields"]["duration_us"].is_u64());
        let text_bytes = ["file_text", "new_str", "insert_text"].iter().find_map(|field| command[field].as_str());
        assert_eq!(span["text_bytes"], text_bytes.unwrap_or_default().len());
    }
    let shown =
        events_in(&captured, "memory_command").iter().map(|(span, _)| span["shown_bytes"].as_u64()).collect::<Vec<_>>();
    assert_eq!(shown[2], Some(SECRET.len() as u64));
    for secret in ["divorce", "/memories"] {
        assert!(!captured.text().contains(secret), "{}", captured.text());
    }
}

#[tokio::test]
async fn paths_are_reported_if_enabled() {
    let captured = Log::of_this_thread_as_json();
    let store = ObservedStore::new(InMemoryStore::new(), "alice").with_paths();
    let tool = ObservedTool::new(Engine::new(store), "alice").with_paths();
    for (command, ..) in commands() {
        let _ = tool.call(command).await;
    }
    let (span, _) =
        events_in(&captured, "memory_command").into_iter().find(|(span, _)| span["command"] == "rename").unwrap();
    assert_eq!((&span["path"], &span["new_path"]), (&json!("/memories/divorce.txt"), &json!("/memories/b")));
    assert!(events_in(&captured, "memory_store").iter().any(|(span, _)| span["path"] == "/memories/divorce.txt"));
    assert!(!captured.text().contains("customer"));
}

#[tokio::test]
async fn each_store_operation_is_reported_by_name() {
    let captured = Log::of_this_thread_as_json();
    let store = ObservedStore::new(InMemoryStore::new(), "alice");
    store.write("/memories/a", SECRET).await.unwrap();
    store.list("/memories").await.unwrap();
    store.read_opts(&record("test/a"), ReadOptions::new()).await.unwrap();
    let stale = Batch::new().require(
        record("test/divorce"),
        memory_tool_core::Precondition::Version(memory_tool_core::Version::new(*b"x")),
    );
    store.apply(stale).await.unwrap_err();
    let events = events_in(&captured, "memory_store");
    let named: Vec<_> = events
        .iter()
        .map(|(span, event)| {
            (span["operation"].as_str().unwrap(), event["fields"].get("error").and_then(Value::as_str))
        })
        .collect();
    let expected = [("apply", None), ("read", None), ("read", None), ("apply", Some("version_mismatch"))];
    assert_eq!(named, expected);
    assert!(!captured.text().contains("divorce"), "{}", captured.text());
}

/// The second of two concurrent edits is retried.
#[tokio::test]
async fn a_retried_edit_reports_each_version_mismatch() {
    #[derive(Debug)]
    struct Overtaken(InMemoryStore, Mutex<usize>);

    #[async_trait]
    impl Store for Overtaken {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            self.0.read_opts(path, options).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            let is_overtaken = {
                let mut left = self.1.lock().unwrap();
                *left = left.saturating_sub(1);
                *left > 0
            };
            if is_overtaken {
                return Err(StoreError::VersionMismatch { path: StorePath::memories() });
            }
            self.0.apply(batch).await
        }
    }

    let captured = Log::of_this_thread_as_json();
    let inner = InMemoryStore::new();
    inner.write("/memories/a", "x").await.unwrap();
    let store = ObservedStore::new(Overtaken(inner, Mutex::new(3)), "alice");
    let tool = ObservedTool::new(Engine::new(store), "alice");
    tool.call(json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "y"})).await.unwrap();
    let applied = events_in(&captured, "memory_store").into_iter().filter(|(span, _)| span["operation"] == "apply");
    let errors: Vec<_> = applied.map(|(_, event)| event["fields"]["error"].as_str().map(str::to_owned)).collect();
    assert_eq!(errors, [Some("version_mismatch".to_owned()), Some("version_mismatch".to_owned()), None]);
}

#[tokio::test]
async fn a_failure_is_reported_as_an_error_without_its_cause() {
    for (kind, name) in [(ErrorKind::Busy, "busy"), (ErrorKind::OutcomeUnknown, "outcome_unknown")] {
        let captured = Log::of_this_thread_as_json();
        let tool = ObservedTool::new(Engine::new(ObservedStore::new(Failing(Some(kind)), "alice")), "alice");
        tool.call(json!({"command": "view", "path": "/memories/a"})).await.unwrap_err();
        for span in ["memory_command", "memory_store"] {
            let (_, event) = events_in(&captured, span).pop().unwrap();
            assert_eq!((&event["level"], &event["fields"]["outcome"]), (&json!("ERROR"), &json!("failed")));
            assert_eq!(event["fields"]["error"], name);
        }
        assert!(!captured.text().contains("divorce"));
    }
}

#[tokio::test]
async fn a_dropped_command_is_reported() {
    let captured = Log::of_this_thread_as_json();
    let tool = ObservedTool::new(Engine::new(ObservedStore::new(Failing(None), "alice")), "alice");
    let command = tool.call(json!({"command": "view", "path": "/memories/a"}));
    tokio::time::timeout(Duration::ZERO, command).await.unwrap_err(); // it is polled once
    for span in ["memory_command", "memory_store"] {
        assert_eq!(events_in(&captured, span).pop().unwrap().1["fields"]["outcome"], "dropped");
    }
}

/// A tool whose commands are refused by several policies, and the policy that refuses each.
fn refusing() -> (impl MemoryTool, [(Value, Option<&'static str>); 4]) {
    let limited = LimitedStore::new(InMemoryStore::new(), Quota::new().with_file_bytes(60));
    let team = ReadOnlyStore::new(InMemoryStore::new());
    let mounted = MountedStore::builder(limited).mount("/memories/team".parse().unwrap(), team).build().unwrap();
    let store = ObservedStore::new(ScreenedStore::new(mounted, SensitiveData::new()), "alice");
    let create = |path: &str, text: &str| json!({"command": "create", "path": path, "file_text": text});
    let commands = [
        (create("/memories/a", &format!("password: {PASSWORD}")), Some("screening")),
        (create("/memories/a", &"x".repeat(61)), Some("limits")),
        (create("/memories/team/a", "x"), Some("read-only")),
        (json!({"command": "delete", "path": "/memories/a"}), None),
    ];
    (ObservedTool::new(Engine::new(store), "alice"), commands)
}

const PASSWORD: &str = "vT9#mLq2xR";

#[tokio::test]
async fn the_policy_that_refused_is_reported() {
    let captured = Log::of_this_thread_as_json();
    let (tool, commands) = refusing();
    for (command, policy) in commands {
        tool.call(command.clone()).await.unwrap_err();
        for span in ["memory_command", "memory_store"] {
            let fields = &events_in(&captured, span).pop().unwrap().1["fields"];
            assert_eq!(fields.get("policy").and_then(Value::as_str), policy, "{command}: {fields}");
        }
    }
    assert!(!captured.text().contains(PASSWORD), "{}", captured.text());
}

/// The names, labels and values of the metrics of some work.
#[cfg(feature = "metrics")]
fn metrics_of(work: impl Future<Output = ()>) -> Vec<(String, BTreeMap<String, String>, DebugValue)> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || block_on(work));
    let metrics = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let labels = key.key().labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
        (key.key().name().to_owned(), labels.collect(), value)
    });
    metrics.collect()
}

#[cfg(feature = "metrics")]
#[test]
fn the_policy_that_refused_is_a_label() {
    let (tool, commands) = refusing();
    let metrics = metrics_of(async {
        for (command, _) in commands {
            tool.call(command).await.unwrap_err();
        }
    });
    let mut policies = Vec::new();
    for (name, mut labels, _) in metrics {
        let label = labels.remove("policy");
        assert_eq!(label.is_some(), name.ends_with("_total"), "{name}");
        policies.extend(label.filter(|_| name == "memory_commands_total"));
    }
    policies.sort_unstable();
    assert_eq!(policies, ["limits", "none", "read-only", "screening"]);
}

#[cfg(feature = "metrics")]
#[test]
fn commands_and_operations_are_counted() {
    let metrics = metrics_of(async {
        let tool = ObservedTool::new(Engine::new(ObservedStore::new(InMemoryStore::new(), "alice")), "alice");
        for (command, ..) in commands() {
            let _ = tool.call(command).await;
        }
    });
    let mut created = Vec::new();
    for (_, labels, value) in &metrics {
        let has = |key: &str, value: &str| labels.get(key).is_some_and(|label| label == value);
        assert!(has("store", "alice"));
        if let DebugValue::Counter(count) = value
            && has("command", "create")
        {
            created.push((has("outcome", "done"), has("error", "already_exists"), *count));
        }
    }
    created.sort_unstable();
    assert_eq!(created, [(false, true, 1), (true, false, 1)]);
    for name in ["memory_command_seconds", "memory_store_operations_total", "memory_store_operation_seconds"] {
        assert!(metrics.iter().any(|(found, ..)| found == name), "{name}");
    }
}
