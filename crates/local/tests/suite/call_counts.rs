//! The number of system calls of a command.
//!
//! The test runs this program again under `strace`.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use libtest_mimic::Trial;
use memory_tool_core::{Batch, Engine, MemoryTool, Store, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::{self, TRACING, block_on, can_trace, strace};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

/// The work of the child process, and the base of its store.
const WORK: &str = "MEMORY_TOOL_TEST_WORK";
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

/// The number of commands. Each uses another file.
const COMMANDS: usize = 11;

/// Written to standard error before and after each command.
const MARKS: [&str; 2] = ["<command>", "</command>"];

/// Calls of the runtime, the allocator and, in debug builds, the standard library, which checks a descriptor before it
/// closes it.
const NOT_OF_THE_STORE: [&str; 9] =
    ["futex(", "epoll_", "mmap(", "munmap(", "madvise(", "brk(", "mprotect(", "F_GETFD", r#""\1\0\0\0\0\0\0\0""#];

const BATCHES: usize = 32;

/// In a child process: does the work.
pub(crate) fn run_child() -> Option<ExitCode> {
    let (work, base) = (std::env::var(WORK).ok()?, std::env::var_os(BASE)?);
    block_on(async {
        let store = LocalStore::open(Path::new(&base)).await.unwrap();
        match work.as_str() {
            "group" => return write_at_once(&store, Path::new(&base)).await,
            "large" => return write_with_few_descriptors(&store).await,
            _ => {}
        }
        let tool = Engine::new(store);
        for number in 0..COMMANDS {
            let create = json!({"command": "create", "path": path(number), "file_text": "Prefers tea."});
            tool.call(create).await.unwrap();
        }
        // Later, the time of a change identifies it.
        std::thread::sleep(Duration::from_millis(3_200));
        for number in 0..COMMANDS {
            let command = command(&work, number);
            eprint!("{}", MARKS[0]);
            tool.call(command).await.unwrap();
            eprint!("{}", MARKS[1]);
        }
    });
    Some(ExitCode::SUCCESS)
}

fn path(number: usize) -> String {
    format!("/memories/customers/acme/{number}.md")
}

fn command(name: &str, number: usize) -> Value {
    match name {
        "view" => json!({"command": "view", "path": path(number)}),
        "str_replace" => {
            json!({"command": "str_replace", "path": path(number), "old_str": "tea", "new_str": "coffee"})
        }
        "rename" => {
            let new_path = format!("/memories/customers/acme/{number}-renamed.md");
            json!({"command": "rename", "old_path": path(number), "new_path": new_path})
        }
        "delete" => json!({"command": "delete", "path": path(number)}),
        other => panic!("{other}"),
    }
}

/// The batches wait together, because the store is locked.
async fn write_at_once(store: &LocalStore, base: &Path) {
    let write = |number| Batch::new().write(path(number).parse::<StorePath>().unwrap(), "text");
    store.apply(write(0)).await.unwrap();
    let lock = File::open(base.join(".memory-tool/lock")).unwrap();
    lock.lock().unwrap();
    eprint!("{}", MARKS[0]);
    let mut writes = join_all((1..=BATCHES).map(|number| store.apply(write(number))));
    assert!(poll!(&mut writes).is_pending());
    lock.unlock().unwrap();
    for written in writes.await {
        written.unwrap();
    }
    eprint!("{}", MARKS[1]);
}

async fn write_with_few_descriptors(store: &LocalStore) {
    const LIMIT: u64 = 64;
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let write = |batch: Batch, number| batch.write(path(number).parse::<StorePath>().unwrap(), "text");
    store.apply((0..200).fold(Batch::new(), write)).await.unwrap();
}

/// Other tasks need descriptors too.
fn limit_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    assert!(child.env(WORK, "large").env(BASE, directory.path().join("base")).status().unwrap().success());
}

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let trial = |name: &str, check: fn()| faults::trial(&format!("call_counts::{name}"), can_trace(), TRACING, check);
    [
        trial("a_view_of_a_cached_file_makes_at_most_7", || assert!(median_calls("view") <= 7)),
        trial("an_edit_makes_at_most_25", || assert!(median_calls("str_replace") <= 25)),
        trial("a_rename_makes_at_most_14", || assert!(median_calls("rename") <= 14)),
        trial("a_removal_of_a_file_makes_at_most_16", || assert!(median_calls("delete") <= 16)),
        faults::trial("call_counts::a_large_batch_opens_few_files", true, "", limit_descriptors),
        trial("concurrent_batches_share_their_flushes", share_flushes),
    ]
    .into_iter()
}

fn median_calls(work: &str) -> usize {
    let mut counts: Vec<_> = traced(work).iter().map(Vec::len).collect();
    counts.sort_unstable();
    eprintln!("{work}: {counts:?}");
    counts[counts.len() / 2]
}

/// The flushes of the files and of the directory are shared.
fn share_flushes() {
    let calls = traced("group").remove(0);
    let flushes = calls.iter().filter(|call| call.contains("fsync(") || call.contains("syncfs(")).count();
    assert!((2..BATCHES / 4).contains(&flushes), "{flushes} flushes of {BATCHES} batches");
}

/// The system calls of each command.
fn traced(work: &str) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    let (status, log) = strace(&[], &[(WORK, work.as_ref()), (BASE, base.as_os_str())]);
    assert!(status.success(), "{status}");
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut is_running = false;
    for line in log.lines() {
        match MARKS.map(|mark| line.contains(&format!("\"{mark}\""))) {
            [true, _] => {
                commands.push(Vec::new());
                is_running = true;
            }
            [_, true] => is_running = false,
            _ if !is_running || line.contains(" resumed>") => {}
            _ if NOT_OF_THE_STORE.iter().any(|call| line.contains(call)) => {}
            _ => commands.last_mut().unwrap().push(line.to_owned()),
        }
    }
    commands
}
