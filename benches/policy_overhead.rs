//! Benchmarks of the time that each policy adds to a command. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Actor, Batch, Engine, InMemoryStore, MemoryPath, MemoryTool, ReadOnlyStore, Store};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_policies::{
    AuditedStore, AuditedTool, ExpiringStore, JsonLinesLog, LimitedStore, MountedStore, ObservedStore, ObservedTool,
    Scope, ScopedStore, default_quota,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::measure::{medians, target_directory, text};

const ROUNDS: usize = 1_000;
/// Numbers of files of 4 KB, with 20 in each directory.
const FILES: [usize; 3] = [100, 1_000, 2_000];
const FILES_IN_DIRECTORY: usize = 20;
const NINETY_DAYS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// A policy and the parameters of its table row.
struct Policy {
    name: &'static str,
    /// The store under the policy, also used without it.
    under: fn(LocalStore) -> Box<dyn Store>,
    over: fn(Box<dyn Store>) -> Box<dyn MemoryTool>,
    /// The directory of the files in the row without the policy.
    directory: fn() -> MemoryPath,
    /// Whether to write the files through the store under the policy. Otherwise they are written directly to the disk.
    fills_stores: bool,
    workload: Workload,
}

/// The commands that are measured in addition to `view`.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Workload {
    /// None: the policy allows no changes.
    Views,
    /// All changes.
    Changes,
    /// An edit after a change of another program, which invalidates caches.
    AlternatingEdits,
}

const POLICIES: &[Policy] = &[
    Policy {
        name: "limits",
        under: nothing,
        over: |store| Box::new(Engine::new(LimitedStore::new(store, default_quota()))),
        directory: MemoryPath::root,
        fills_stores: false,
        workload: Workload::Changes,
    },
    Policy {
        name: "limits, after another process",
        under: nothing,
        over: |store| Box::new(Engine::new(LimitedStore::new(store, default_quota()))),
        directory: MemoryPath::root,
        fills_stores: false,
        workload: Workload::AlternatingEdits,
    },
    Policy {
        name: "expiry",
        under: nothing,
        over: |store| Box::new(Engine::new(ExpiringStore::builder(store, NINETY_DAYS).build().unwrap())),
        directory: MemoryPath::root,
        fills_stores: false,
        workload: Workload::Changes,
    },
    Policy {
        name: "audit log in production",
        under: production,
        over: |store| {
            let (log, actor) = (audit_log(), Actor::from_trusted_name("benchmark").unwrap());
            let store = AuditedStore::new(store, log.clone(), actor.clone());
            Box::new(AuditedTool::new(Engine::new(store), log, actor))
        },
        directory: MemoryPath::root,
        fills_stores: true,
        workload: Workload::Changes,
    },
    Policy {
        name: "read-only",
        under: nothing,
        over: |store| Box::new(Engine::new(ReadOnlyStore::new(store))),
        directory: MemoryPath::root,
        fills_stores: false,
        workload: Workload::Views,
    },
    Policy {
        name: "scope",
        under: nothing,
        over: |store| Box::new(Engine::new(ScopedStore::new(store, scope()))),
        directory: || scope().directory().clone(),
        fills_stores: false,
        workload: Workload::Changes,
    },
    Policy {
        name: "observation, no listener",
        under: nothing,
        over: |store| Box::new(ObservedTool::new(Engine::new(ObservedStore::new(store, "benchmark")), "benchmark")),
        directory: MemoryPath::root,
        fills_stores: false,
        workload: Workload::Changes,
    },
];

fn nothing(store: LocalStore) -> Box<dyn Store> {
    Box::new(store)
}

/// The stack under the audit log in `docs/production.md`.
fn production(store: LocalStore) -> Box<dyn Store> {
    let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
    let encrypted = block_on(EncryptedStore::builder(store, keys).label("users").open()).unwrap();
    let scoped = ScopedStore::new(ObservedStore::new(encrypted, "users"), scope());
    let expiring = ExpiringStore::builder(scoped, NINETY_DAYS).build().unwrap();
    let mounted = MountedStore::builder(LimitedStore::new(expiring, default_quota()));
    Box::new(mounted.mount_read_only("/memories/team".parse().unwrap(), InMemoryStore::new()).build().unwrap())
}

fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// With a timer, which encrypted stores need.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn scope() -> Scope {
    Scope::from_trusted_name("benchmark").unwrap()
}

/// On the disk of the store.
fn audit_log() -> JsonLinesLog {
    block_on(JsonLinesLog::open(target_directory().join("policy_overhead.jsonl"))).unwrap()
}

fn main() {
    println!("Stores and audit log: {}\n", disk());
    // First, because removing larger stores keeps the disk busy for a while.
    println!(
        "| policy | files | `create` without | with | ratio | `rename` without | with | ratio \
         | `delete` without | with | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for policy in POLICIES.iter().filter(|policy| policy.workload == Workload::Changes) {
        row_of_changes(policy, FILES[0]);
    }
    println!("\n| policy | files | `view` without | with | ratio | `str_replace` without | with | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for files in FILES {
        for policy in POLICIES {
            row(policy, files);
        }
    }
}

/// The directory of the stores, and its disk if the system reports it.
fn disk() -> String {
    let directory = target_directory();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().map(|mount| mount.split(' ').collect::<Vec<_>>());
    let holding = mounts.filter(|mount| directory.starts_with(mount[1])).max_by_key(|mount| mount[1].len());
    let disk = holding.map(|mount| format!(", on {} ({})", mount[0], mount[2])).unwrap_or_default();
    format!("{}{disk}", directory.display())
}

fn row(policy: &Policy, files: usize) {
    let pair = Pair::new(policy, files);
    let Pair { without, with, .. } = &pair;
    let view = columns(medians(ROUNDS, [&|_| without.view(), &|_| with.view()]));
    let edit = edits(policy, &pair).map_or(" | | ".to_owned(), columns);
    println!("| {} | {files} | {view} | {edit} |", policy.name);
}

fn edits(policy: &Policy, pair: &Pair) -> Option<[Duration; 2]> {
    let Pair { without, with, .. } = pair;
    match policy.workload {
        Workload::Views => None,
        Workload::Changes => Some(medians(ROUNDS, [&|_| without.edit(), &|_| with.edit()])),
        Workload::AlternatingEdits => {
            let [other_without, other_with] = &pair.opened_again(policy);
            let [_, without, _, with] = medians(
                ROUNDS,
                [&|_| other_without.edit(), &|_| without.edit(), &|_| other_with.edit(), &|_| with.edit()],
            );
            Some([without, with])
        }
    }
}

/// Creates, renames and deletes a file in each round.
fn row_of_changes(policy: &Policy, files: usize) {
    let Pair { without, with, .. } = &Pair::new(policy, files);
    let [create_without, create, rename_without, rename, delete_without, delete] = medians(
        ROUNDS,
        [
            &|_| without.create(),
            &|_| with.create(),
            &|_| without.rename(),
            &|_| with.rename(),
            &|_| without.delete(),
            &|_| with.delete(),
        ],
    );
    let columns = [[create_without, create], [rename_without, rename], [delete_without, delete]].map(columns);
    println!("| {} | {files} | {} |", policy.name, columns.join(" | "));
}

fn columns([without, with]: [Duration; 2]) -> String {
    format!("{without:.1?} | {with:.1?} | {:.3}", with.as_secs_f64() / without.as_secs_f64())
}

/// The relative paths of the files.
fn paths(files: usize) -> impl Iterator<Item = String> {
    (0..files).map(|number| format!("{}/{number}.txt", number / FILES_IN_DIRECTORY))
}

fn fill(memories: &Path, files: usize) {
    for path in paths(files) {
        let path = memories.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text()).unwrap();
    }
}

fn fill_store(store: &dyn Store, files: usize) {
    let write = |batch: Batch, path| batch.write(format!("/memories/{path}").parse().unwrap(), text());
    block_on(store.apply(paths(files).fold(Batch::new(), write))).unwrap();
}

/// Separate stores with and without the policy. Alternating changes to one store would invalidate caches.
struct Pair {
    directory: TempDir,
    runtime: Arc<Runtime>,
    without: Tool,
    with: Tool,
}

impl Pair {
    fn new(policy: &Policy, files: usize) -> Self {
        let directory = tempfile::tempdir_in(target_directory()).unwrap();
        let runtime = Arc::new(runtime());
        for base in STORES.map(|base| directory.path().join(base)) {
            if policy.fills_stores {
                fill_store(&*(policy.under)(block_on(LocalStore::open(base)).unwrap()), files);
            } else {
                fill(&base.join((policy.directory)().as_str().trim_start_matches('/')), files);
            }
        }
        let [without, with] = open(policy, directory.path(), &runtime);
        Self { directory, runtime, without, with }
    }

    /// Opens the same two stores like another program.
    fn opened_again(&self, policy: &Policy) -> [Tool; 2] {
        open(policy, self.directory.path(), &self.runtime)
    }
}

/// The directories of the stores.
const STORES: [&str; 2] = ["without", "with"];

fn open(policy: &Policy, directory: &Path, runtime: &Arc<Runtime>) -> [Tool; 2] {
    let [without, with] = STORES.map(|base| runtime.block_on(LocalStore::open(directory.join(base))).unwrap());
    [
        Tool::new(runtime, Box::new(Engine::new((policy.under)(without))), (policy.directory)()),
        Tool::new(runtime, (policy.over)((policy.under)(with)), MemoryPath::root()),
    ]
}

/// A tool over a store, and the directory of its files.
struct Tool {
    runtime: Arc<Runtime>,
    tool: Box<dyn MemoryTool>,
    directory: MemoryPath,
}

impl Tool {
    fn new(runtime: &Arc<Runtime>, tool: Box<dyn MemoryTool>, directory: MemoryPath) -> Self {
        Self { runtime: Arc::clone(runtime), tool, directory }
    }

    fn call(&self, input: Value) {
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }

    fn path(&self, name: &str) -> String {
        format!("{}/0/{name}.txt", self.directory)
    }

    fn view(&self) {
        self.call(json!({"command": "view", "path": self.path("1")}));
    }

    /// Adds a character, because a policy may skip edits that keep the length.
    fn edit(&self) {
        self.call(json!({"command": "str_replace", "path": self.path("1"), "old_str": "A", "new_str": ".A"}));
    }

    fn create(&self) {
        self.call(json!({"command": "create", "path": self.path("new"), "file_text": text()}));
    }

    fn rename(&self) {
        self.call(json!({"command": "rename", "old_path": self.path("new"), "new_path": self.path("old")}));
    }

    fn delete(&self) {
        self.call(json!({"command": "delete", "path": self.path("old")}));
    }
}
