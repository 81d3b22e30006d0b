//! Benchmarks of the time that policies add to a command. See `README.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::array;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_tool_core::{Actor, Batch, CommandName, Engine, InMemoryStore, MemoryTool, Store, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_history::HistoryStore;
use memory_tool_local::LocalStore;
use memory_tool_policies::{
    AuditedStore, AuditedTool, ExpiringStore, JsonLinesLog, LimitedStore, MountedStore, ObservedStore, ObservedTool,
    Scope, ScopedStore, default_quota,
};
use memory_tool_proposals::ProposalStore;
use memory_tool_sqlite::SqliteStore;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::measure::{create, delete, medians, rename, target_directory, text, view};
use crate::report::{print_machine, print_table, ratio, time};

const ROUNDS: usize = 300;
/// Files of 4 KB, with 20 in each directory.
const FILES: usize = 100;
const FILES_IN_DIRECTORY: usize = 20;
const VIEW: CommandName = CommandName::View;
const EDIT: CommandName = CommandName::StrReplace;
/// Changes that leave the store as they found it.
const CHANGES: [CommandName; 3] = [CommandName::Create, CommandName::Rename, CommandName::Delete];
const NINETY_DAYS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// A policy, and the same stores without it.
struct Policy {
    name: &'static str,
    /// Opens the store under the policy, which is also used without it.
    under: fn(&Path) -> Box<dyn Store>,
    over: fn(Box<dyn Store>) -> Box<dyn MemoryTool>,
    directory: StorePath,
}

impl Policy {
    fn new(name: &'static str, over: fn(Box<dyn Store>) -> Box<dyn MemoryTool>) -> Self {
        let under = |path: &Path| -> Box<dyn Store> { Box::new(local_store(path)) };
        Self { name, under, over, directory: StorePath::memories() }
    }
}

fn policies() -> Vec<Policy> {
    vec![
        Policy::new("limits", |store| engine(LimitedStore::new(store, default_quota()))),
        Policy::new("expiry", |store| engine(ExpiringStore::builder(store, NINETY_DAYS).build().unwrap())),
        Policy::new("history", |store| engine(HistoryStore::new(store))),
        Policy { under: sqlite_store, ..Policy::new("history, SQLite", |store| engine(HistoryStore::new(store))) },
        Policy::new("proposal", |store| engine(ProposalStore::new(store, "bench".parse().unwrap()))),
        Policy {
            under: sqlite_store,
            ..Policy::new("proposal, SQLite", |store| engine(ProposalStore::new(store, "bench".parse().unwrap())))
        },
        Policy { under: production, ..Policy::new("audit log in production", audited) },
        Policy {
            directory: scope().directory().into(),
            ..Policy::new("scope", |store| engine(ScopedStore::new(store, scope())))
        },
        Policy::new("observation, no listener", |store| {
            Box::new(ObservedTool::new(Engine::new(ObservedStore::new(store, "benchmark")), "benchmark"))
        }),
    ]
}

fn engine(store: impl Store + 'static) -> Box<dyn MemoryTool> {
    Box::new(Engine::new(store))
}

/// With the log on the disk of the store.
fn audited(store: Box<dyn Store>) -> Box<dyn MemoryTool> {
    let log = block_on(JsonLinesLog::open(target_directory().join("policies.jsonl"))).unwrap();
    let actor = Actor::from_trusted_name("benchmark").unwrap();
    let store = AuditedStore::new(store, log.clone(), actor.clone());
    Box::new(AuditedTool::new(Engine::new(store), log, actor))
}

/// The stack under the audit log in `docs/production.md`.
fn production(path: &Path) -> Box<dyn Store> {
    let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
    let encrypted = block_on(EncryptedStore::builder(local_store(path), keys).label("users").open()).unwrap();
    let scoped = ScopedStore::new(ObservedStore::new(encrypted, "users"), scope());
    let expiring = ExpiringStore::builder(scoped, NINETY_DAYS).build().unwrap();
    let mounted = MountedStore::builder(LimitedStore::new(expiring, default_quota()));
    Box::new(mounted.mount_read_only("/memories/team".parse().unwrap(), InMemoryStore::new()).build().unwrap())
}

fn scope() -> Scope {
    Scope::from_trusted_name("benchmark").unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// With a timer, which encrypted stores need.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn main() {
    print_machine(&target_directory(), &[]);
    let columns = "policy | `view` | `str_replace` | `create` | `rename` | `delete`";
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let rows = policies().into_iter().filter(|policy| policy.name.starts_with(&name)).map(|policy| row(&policy));
    let floor = FLOOR.starts_with(&name).then(|| floor_row(&target_directory()));
    print_table(columns, rows.chain(floor));
}

const FLOOR: &str = "history, only the calls to the disk";

/// The times with a policy, and divided by the times without it.
fn row(policy: &Policy) -> Vec<String> {
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    STORES.iter().for_each(|name| fill(policy, &directory, name));
    let [without, with] = &open(policy, &directory);
    let view = medians(ROUNDS, [&|_| without.call(VIEW), &|_| with.call(VIEW)]);
    let edit = medians(ROUNDS, [&|_| without.call(EDIT), &|_| with.call(EDIT)]);
    let changes = array::from_fn(|number| move |_: usize| [without, with][number % 2].call(CHANGES[number / 2]));
    let changes: [_; 2 * CHANGES.len()] = medians(ROUNDS, changes.each_ref().map(|change| change as _));
    cells(policy.name, &[&[view, edit], changes.as_chunks().0].concat())
}

fn cells(name: &str, times: &[[f64; 2]]) -> Vec<String> {
    let cells = times.iter().map(|[without, with]| format!("{} ({})", ratio(with / without), time(*with)));
    [name.to_owned()].into_iter().chain(cells).collect()
}

/// The calls that a local store makes for each command, without and with a history, and nothing else: the least that
/// this file system allows.
fn floor_row(place: &Path) -> Vec<String> {
    let directory = tempfile::tempdir_in(place).unwrap();
    let [without, with] = &STORES.map(|name| Calls::new(directory.path().join(name)));
    let view = |calls: &Calls| drop(black_box(fs::read(calls.base.join("memories/1.txt")).unwrap()));
    let views = medians(ROUNDS, [&|_| view(without), &|_| view(with)]);
    let change =
        |number: usize| move |round| [without, with][number % 2].change(number / 2, round, !number.is_multiple_of(2));
    let changes: [_; 2 * Calls::CHANGES] =
        medians(ROUNDS, array::from_fn::<_, { 2 * Calls::CHANGES }, _>(change).each_ref().map(|change| change as _));
    cells(FLOOR, &[&[views], changes.as_chunks().0].concat())
}

struct Calls {
    base: PathBuf,
    log: File,
}

impl Calls {
    /// An edit, and [`CHANGES`].
    const CHANGES: usize = 1 + CHANGES.len();
    const LOG: u64 = 512 * 1024;

    fn new(base: PathBuf) -> Self {
        ["memories", "staging", "records"].iter().for_each(|name| fs::create_dir_all(base.join(name)).unwrap());
        fs::write(base.join("memories/1.txt"), text()).unwrap();
        fs::write(base.join("log"), vec![0; Self::LOG as usize]).unwrap();
        let log = File::options().write(true).open(base.join("log")).unwrap();
        log.sync_all().unwrap();
        Self { base, log }
    }

    fn change(&self, number: usize, round: usize, has_history: bool) {
        let at = |name: &str| self.base.join(name);
        let (staged, new, old) = (at("staging/new"), at("memories/new.txt"), at("memories/old.txt"));
        if number < 2 {
            fs::write(&staged, text()).unwrap();
            File::open(&staged).unwrap().sync_all().unwrap();
        }
        // An edit and a deletion keep the text from before.
        let entry = if number.is_multiple_of(3) { text() } else { String::new() } + &"x".repeat(400);
        let offset = (round * Self::CHANGES + number) as u64 * 5_120 % (Self::LOG - 5_120);
        if has_history {
            write_at(&self.log, entry.as_bytes(), offset);
            self.log.sync_data().unwrap();
            fs::write(at(&format!("records/{round}-{number}")), entry).unwrap();
        }
        match number {
            0 => fs::rename(&staged, at("memories/1.txt")).unwrap(),
            1 => fs::rename(&staged, new).unwrap(),
            2 => fs::rename(new, old).unwrap(),
            _ => fs::remove_file(old).unwrap(),
        }
        File::open(at("memories")).unwrap().sync_all().unwrap();
        if has_history {
            write_at(&self.log, b"settled", offset);
        }
    }
}

fn write_at(mut file: &File, bytes: &[u8], offset: u64) {
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Separate stores with and without the policy. Alternating changes to one store would invalidate caches.
const STORES: [&str; 2] = ["without", "with"];

fn local_store(path: &Path) -> LocalStore {
    block_on(LocalStore::open(path)).unwrap()
}

fn sqlite_store(path: &Path) -> Box<dyn Store> {
    Box::new(block_on(SqliteStore::open(path.with_extension("sqlite"))).unwrap())
}

fn fill(policy: &Policy, directory: &TempDir, name: &str) {
    let store = (policy.under)(&directory.path().join(name));
    let write = |batch: Batch, number: usize| {
        let path = format!("{}/{}/{number}.txt", policy.directory, number / FILES_IN_DIRECTORY);
        batch.write(path.parse::<StorePath>().unwrap(), text())
    };
    block_on(store.apply((0..FILES).fold(Batch::new(), write))).unwrap();
}

fn open(policy: &Policy, directory: &TempDir) -> [Tool; 2] {
    let [without, with] = STORES.map(|name| (policy.under)(&directory.path().join(name)));
    [
        Tool { runtime: runtime(), tool: engine(without), directory: policy.directory.clone() },
        Tool { runtime: runtime(), tool: (policy.over)(with), directory: StorePath::memories() },
    ]
}

struct Tool {
    runtime: Runtime,
    tool: Box<dyn MemoryTool>,
    directory: StorePath,
}

impl Tool {
    fn call(&self, name: CommandName) {
        let path = |name| format!("{}/0/{name}.txt", self.directory);
        let input = match name {
            CommandName::View => view(&path("1")),
            CommandName::Create => create(&path("new"), &text()),
            CommandName::Rename => rename(&path("new"), &path("old")),
            CommandName::Delete => delete(&path("old")),
            // Adds a character, because a policy may skip edits that keep the length.
            _ => json!({"command": "str_replace", "path": path("1"), "old_str": "A", "new_str": ".A"}),
        };
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }
}
