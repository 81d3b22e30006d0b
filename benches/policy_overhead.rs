//! What each policy adds to a command: see `README.md` beside this file.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Engine, MemoryPath, MemoryTool, Store};
use memory_tool_local::LocalStore;
use memory_tool_policies::{
    Actor, AuditedStore, JsonLinesLog, LimitedStore, Limits, ObservedStore, ReadOnlyStore, Scope, ScopedStore,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{medians, target_directory, text};

const ROUNDS: usize = 1_000;
/// Each of 4 KB, 20 in a directory.
const FILES: [usize; 3] = [100, 1_000, 2_000];
const FILES_IN_DIRECTORY: usize = 20;

/// A policy, and what its row of the table is about.
struct Policy {
    name: &'static str,
    over: fn(LocalStore) -> Box<dyn Store>,
    /// Where the store beneath keeps what the policy shows at `/memories`. The row without the policy has its files there, too.
    directory: fn() -> MemoryPath,
    allows_edits: bool,
}

const POLICIES: &[Policy] = &[
    Policy {
        name: "limits",
        over: |store| Box::new(LimitedStore::new(store, Limits::default())),
        directory: MemoryPath::root,
        allows_edits: true,
    },
    Policy {
        name: "audit log",
        over: |store| Box::new(AuditedStore::new(store, audit_log(), Actor::from_trusted_name("benchmark").unwrap())),
        directory: MemoryPath::root,
        allows_edits: true,
    },
    Policy {
        name: "read-only",
        over: |store| Box::new(ReadOnlyStore::new(store)),
        directory: MemoryPath::root,
        allows_edits: false,
    },
    Policy {
        name: "scope",
        over: |store| Box::new(ScopedStore::new(store, scope())),
        directory: || scope().directory().clone(),
        allows_edits: true,
    },
    Policy {
        name: "observation, nobody listening",
        over: |store| Box::new(ObservedStore::new(store, "benchmark")),
        directory: MemoryPath::root,
        allows_edits: true,
    },
];

fn scope() -> Scope {
    Scope::from_trusted_name("benchmark").unwrap()
}

/// On the disk that the store is on.
fn audit_log() -> JsonLinesLog {
    let opening = JsonLinesLog::open(target_directory().join("policy_overhead.jsonl"));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(opening).unwrap()
}

fn main() {
    println!("| policy | files | `view` without | with | ratio | `str_replace` without | with | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for files in FILES {
        for policy in POLICIES {
            row(policy, files);
        }
    }
}

/// The two stores are apart: where others change a store in turn, it can keep nothing of what it knew.
fn row(policy: &Policy, files: usize) {
    let (directory, shown) = (tempfile::tempdir_in(target_directory()).unwrap(), (policy.directory)());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let open = |name: &str| {
        let base = directory.path().join(name);
        fill(&base.join(shown.as_str().trim_start_matches('/')), files);
        runtime.block_on(LocalStore::open(base)).unwrap()
    };
    let without = Tool::new(&runtime, Box::new(open("without")), format!("{shown}/0/1.txt"));
    let with = Tool::new(&runtime, (policy.over)(open("with")), "/memories/0/1.txt".to_owned());
    let view = medians(ROUNDS, [&|_| without.view(), &|_| with.view()]);
    print!("| {} | {files} | {}", policy.name, columns(view));
    if policy.allows_edits {
        println!(" | {} |", columns(medians(ROUNDS, [&|_| without.edit(), &|_| with.edit()])));
    } else {
        println!(" | | | |");
    }
}

fn columns([without, with]: [Duration; 2]) -> String {
    format!("{without:.1?} | {with:.1?} | {:.3}", with.as_secs_f64() / without.as_secs_f64())
}

fn fill(memories: &Path, files: usize) {
    for number in 0..files {
        let path = memories.join(format!("{}/{number}.txt", number / FILES_IN_DIRECTORY));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text()).unwrap();
    }
}

/// The tool over a store, and the file that it is used on.
struct Tool<'a> {
    runtime: &'a Runtime,
    tool: Engine<Arc<dyn Store>>,
    path: String,
}

impl<'a> Tool<'a> {
    fn new(runtime: &'a Runtime, store: Box<dyn Store>, path: String) -> Self {
        Self { runtime, tool: Engine::new(store.into()), path }
    }

    fn call(&self, input: Value) {
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }

    fn view(&self) {
        self.call(json!({"command": "view", "path": self.path}));
    }

    /// Adds a character, as a policy may not look at an edit that leaves the length as it is.
    fn edit(&self) {
        self.call(json!({"command": "str_replace", "path": self.path, "old_str": "A", "new_str": ".A"}));
    }
}
