//! Operations that are dropped or fail at any point. They must be atomic, and must not lose files that were used.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use memory_tool_core::{Batch, Engine, FileEntry, InMemoryStore, MemoryTool, Store, StoreExt as _, ToolResult};
use memory_tool_policies::ExpiringStore;
use serde_json::{Value, json};

use super::harness::{Fault, IDLE, Probe, RESOLUTION, TestClock, access_times, create, stored_times, view};
use crate::support::{block_on, contents};

pub(crate) type Tool = Engine<ExpiringStore<Arc<Probe>>>;

/// An operation on the memory of [`memory`].
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Command(Value),
    List,
    Sweep,
    Clear,
}

impl Action {
    pub(crate) async fn run(&self, tool: &Tool) -> String {
        match self {
            Self::Command(input) => {
                serde_json::to_string(&ToolResult::new(None, &tool.call(input.clone()).await)).unwrap()
            }
            Self::List => format!("{:?}", tool.store().list("/memories").await.map(paths_and_sizes)),
            // The number of removed files may depend on other operations.
            Self::Sweep => tool.store().sweep().await.map_or_else(|error| format!("{error:?}"), |_| "swept".to_owned()),
            Self::Clear => format!("{:?}", tool.clear_all_memory().await),
        }
    }
}

/// Omits the times of the files, which differ between runs.
fn paths_and_sizes(files: Vec<FileEntry>) -> Vec<(String, u64)> {
    files.into_iter().map(|file| (file.path.to_string(), file.size)).collect()
}

/// Operations on paths that are expired, nearly expired, recently used, and free.
pub(crate) fn actions() -> Vec<Action> {
    let mut actions = vec![Action::List, Action::Sweep, Action::Clear];
    let mut command = |input| actions.push(Action::Command(input));
    for path in ["/memories/near", "/memories/fresh", "/memories/old", "/memories/d", "/memories/only-old"] {
        command(view(path));
        command(json!({"command": "create", "path": path, "file_text": "created"}));
        command(json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "edited"}));
        command(json!({"command": "delete", "path": path}));
        command(json!({"command": "rename", "old_path": path, "new_path": "/memories/moved/here"}));
    }
    command(json!({"command": "create", "path": "/memories/old/under", "file_text": "created"}));
    command(json!({"command": "rename", "old_path": "/memories/near", "new_path": "/memories/old"}));
    command(json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/only-old"}));
    actions
}

/// Creates a memory with expired files, files that expire in a second, and recently used files.
pub(crate) fn memory(clock: &TestClock) -> Arc<InMemoryStore> {
    let inner = Arc::new(InMemoryStore::new());
    let tool = clock.open(Arc::clone(&inner));
    block_on(async {
        for path in ["/memories/old", "/memories/only-old/x", "/memories/d/old"] {
            create(&tool, path).await;
        }
        clock.advance(RESOLUTION);
        for path in ["/memories/near", "/memories/d/near"] {
            create(&tool, path).await;
        }
        clock.advance(IDLE);
        create(&tool, "/memories/fresh").await;
        create(&tool, "/memories/d/fresh").await;
        clock.advance(RESOLUTION - 1);
    });
    inner
}

pub(crate) type Contents = Vec<(String, String)>;

/// Returns the files that another session sees now, and after the idle time.
pub(crate) fn visible_files(clock: &TestClock, inner: &Arc<InMemoryStore>) -> [Contents; 2] {
    let now = clock.seconds();
    let visible = [0, IDLE].map(|later| {
        clock.set(now + later);
        // On a copy, because reading the files counts as use.
        let copy = Arc::new(InMemoryStore::new());
        block_on(async {
            for (path, _, content) in contents(&**inner).await {
                copy.write(path, content).await.unwrap();
            }
            if let Some(times) = stored_times(&**inner).await {
                copy.apply(Batch::new().write(access_times(), times)).await.unwrap();
            }
            let tool = clock.open(copy);
            let contents = contents(tool.store()).await.into_iter();
            contents.map(|(path, _, content)| (path.to_string(), String::from_utf8(content).unwrap())).collect()
        })
    });
    clock.set(now);
    visible
}

/// Runs the future until it stops for the first time.
pub(crate) fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn old_and_new(action: &Action) -> [[Contents; 2]; 2] {
    let clock = TestClock::new();
    let inner = memory(&clock);
    let before = visible_files(&clock, &inner);
    let tool = clock.open(Arc::new(Probe::over(Arc::clone(&inner))));
    block_on(action.run(&tool));
    [before, visible_files(&clock, &inner)]
}

#[test]
fn a_dropped_operation_is_atomic() {
    for fault in [Fault::StopBefore, Fault::StopAfter] {
        interrupt_everywhere(fault);
    }
}

#[test]
fn a_failed_operation_is_atomic() {
    for fault in [Fault::Fail, Fault::FailAfter] {
        interrupt_everywhere(fault);
    }
}

fn interrupt_everywhere(fault: Fault) {
    for action in actions() {
        let [before, after] = old_and_new(&action);
        for number in 0.. {
            let clock = TestClock::new();
            let inner = memory(&clock);
            let probe = Arc::new(Probe::over(Arc::clone(&inner)));
            let tool = clock.open(Arc::clone(&probe));
            probe.arm(number, fault);
            _ = poll_once(pin!(action.run(&tool)));
            if probe.disarm() {
                assert!(number > 0, "{action:?} does nothing");
                break;
            }
            let visible_now = visible_files(&clock, &inner);
            let is = |state: &[Contents; 2]| visible_now[0] == state[0];
            assert!(is(&before) || is(&after), "{action:?}, {fault:?} at {number}: {visible_now:?}");
            // After the idle time, a file may only be expired if its use could not be recorded.
            let kept: BTreeMap<_, _> = visible_now[1].iter().cloned().collect();
            let expected = if is(&before) { &before[1] } else { &after[1] };
            for (path, content) in expected {
                let is_kept = kept.get(path) == Some(content);
                assert!(
                    is_kept || !before[1].contains(&(path.clone(), content.clone())),
                    "{action:?}, {fault:?} at {number}: {path} is lost"
                );
            }
            // The same store still works, and the next sweep changes no visible file.
            assert_eq!(block_on(Action::Sweep.run(&tool)), "swept", "{action:?}, {fault:?} at {number}");
            assert_eq!(visible_files(&clock, &inner)[0], visible_now[0], "{action:?}, {fault:?} at {number}");
        }
    }
}
