//! Fault injection: each system call of a change fails once, and is once the last call of its process. The reported
//! outcome must be correct, and the files must have their old or their new state (`[X1]`, `[X2]`). Each
//! rename of a batch is also refused with each error, once and permanently, and with a kill during the undo.
//!
//! The tests run this program again under `strace`, which injects the faults. Without `strace` they are ignored.

use std::fmt::Display;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Trial;
use memory_tool_core::{Batch, ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StoreExt, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::{TRACING, block_on, can_trace, strace, trial};
use memory_tool_test_fixtures::{by_tier, path, record};

/// The change that the child process makes, and the base of its store.
const CHANGE: &str = "MEMORY_TOOL_TEST_CHANGE";
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

const CHANGES: [&str; 14] = [
    "create",
    "edit",
    "remove-file",
    "remove-directory",
    "rename",
    ODD_RENAME,
    "clear",
    "batch",
    "record",
    "file-and-records",
    "edit-with-entry",
    "removal-with-entry",
    "rename-with-entry",
    "records-after-entry",
];

/// The new name begins with a dot, so the store tries it first.
const ODD_RENAME: &str = "rename-to-an-odd-name";

const RECORDS: [&str; 5] = ["written", "removed", "made", "log/0", "log/1"];

/// The calls that the store makes, and an error for each.
const FAILURES: [(&str, &str); 13] = [
    ("flock", "EIO"),
    ("openat2", "EMFILE"),
    ("pwrite64", "EIO"),
    ("fchmod", "EIO"),
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("mkdirat", "ENOSPC"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("statx", "EIO"),
    ("syncfs", "EIO"),
    ("unlinkat", "EIO"),
    ("write", "ENOSPC"),
];

/// The batches, which have a journal.
const BATCHES: [&str; 2] = ["batch", "file-and-records"];

/// The calls that move files, and the errors with which a disk refuses them.
const MOVES: [&str; 3] = ["renameat2", "renameat", "linkat"];
const REFUSALS: [&str; 10] =
    ["EXDEV", "EPERM", "EBUSY", "ENOENT", "EILSEQ", "EINVAL", "ENAMETOOLONG", "EMLINK", "EIO", "ENOSPC"];

/// The exit statuses of the child process.
const DONE: i32 = 0;
const UNCHANGED: i32 = 10;
const UNKNOWN: i32 = 11;

/// In a child process: makes the change and returns the exit status.
pub(crate) fn run_child() -> Option<ExitCode> {
    let (change, base) = (std::env::var_os(CHANGE)?, std::env::var_os(BASE)?);
    Some(make_change(&change.into_string().unwrap(), Path::new(&base)))
}

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let can_trace = can_trace();
    let trial = |kind: &str, change: &'static str, check: fn(&str)| {
        let name = format!("system_calls::{kind}::{change}");
        trial(&name, can_trace, TRACING, move || check(change))
    };
    let failures = CHANGES.map(|change| trial("a_failure_reports_the_correct_outcome", change, fail_each_call));
    let kills = CHANGES.map(|change| trial("a_kill_leaves_the_old_or_new_state", change, kill_at_each_call));
    let old_systems =
        CHANGES.map(|change| trial("a_system_without_openat2_has_the_same_results", change, refuse_openat2));
    let refusals = BATCHES.map(|change| trial("a_refused_move_undoes_the_batch", change, refuse_each_move));
    let lasting = BATCHES.map(|change| trial("a_disk_that_refuses_all_moves_loses_nothing", change, refuse_all_moves));
    let undone = BATCHES.map(|change| trial("a_kill_during_the_undo_leaves_the_old_state", change, kill_each_undo));
    let hidden = trial("a_hidden_name_is_refused", ODD_RENAME, hide_the_new_name);
    let others = refusals.into_iter().chain(lasting).chain(undone).chain([hidden]);
    failures.into_iter().chain(kills).chain(old_systems).chain(others)
}

fn make_change(change: &str, base: &Path) -> ExitCode {
    let status = block_on(async {
        let Ok(store) = LocalStore::open(base).await else { return UNCHANGED };
        let applied = match batch(change, &store).await {
            Ok(batch) => store.apply(batch).await,
            Err(error) => Err(error),
        };
        match applied {
            Ok(()) => DONE,
            Err(StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }) => UNKNOWN,
            Err(_) => UNCHANGED,
        }
    });
    ExitCode::from(u8::try_from(status).unwrap())
}

async fn batch(change: &str, store: &LocalStore) -> Result<Batch, StoreError> {
    let batch = Batch::new();
    Ok(match change {
        "create" => batch.require(path("/memories/n/m/y"), Precondition::Absent).write(path("/memories/n/m/y"), "new"),
        "edit" => match store.read(&path("/memories/d/e/x")).await? {
            Node::File(file) => {
                let batch = batch.require(path("/memories/d/e/x"), Precondition::Version(file.version));
                batch.write(path("/memories/d/e/x"), "new")
            }
            other => panic!("{other:?}"),
        },
        "remove-file" => batch.remove(path("/memories/d/e/x")),
        "remove-directory" => batch.remove(path("/memories/d")),
        "rename" => batch.rename(path("/memories/d/e"), path("/memories/g/f")),
        ODD_RENAME => batch.rename(path("/memories/d/e/x"), path("/memories/.wh.x")),
        "clear" => batch.remove(StorePath::memories()),
        "batch" => {
            let batch = batch.remove(path("/memories/r")).write(path("/memories/k"), "new");
            batch.write(path("/memories/n/m/y"), "new").rename(path("/memories/d/e"), path("/memories/g/f"))
        }
        "record" => batch.write(record("written"), "new"),
        "file-and-records" => {
            let batch = batch.write(path("/memories/k"), "new").write(record("written"), "new");
            batch.write(record("made"), "new").remove(record("removed"))
        }
        "edit-with-entry" => batch.write(path("/memories/k"), "edited").write(record("log/1"), "entry"),
        "removal-with-entry" => batch.remove(path("/memories/d/e/x")).write(record("log/1"), "entry"),
        "rename-with-entry" => batch.rename(path("/memories/d"), path("/memories/n/m")).write(record("log/1"), "entry"),
        "records-after-entry" => batch.remove(record("log/0")).write(record("made"), "new"),
        other => panic!("{other}"),
    })
}

/// A store for a change with faults.
struct Target {
    directory: tempfile::TempDir,
    change: &'static str,
}

type Contents = Vec<(PathBuf, Vec<u8>)>;

impl Target {
    fn new(change: &str) -> Self {
        let change = CHANGES.into_iter().find(|known| *known == change).unwrap();
        let target = Self { directory: tempfile::tempdir().unwrap(), change };
        let start = ["k", "d/e/x", "r/s"]
            .iter()
            .fold(Batch::new(), |batch, name| batch.write(path(&format!("/memories/{name}")), "old"));
        let start = start.write(record("written"), "old").write(record("removed"), "old");
        let entry = Batch::new().rename(path("/memories/r"), path("/memories/s")).write(record("log/0"), "entry");
        block_on(async {
            let store = LocalStore::open(target.base()).await.unwrap();
            store.apply(start).await.unwrap();
            if change.contains("entry") {
                store.apply(entry).await.unwrap();
            }
        });
        target
    }

    fn base(&self) -> PathBuf {
        self.directory.path().join("base")
    }

    /// Runs the change, with `fault` at the `number`th call. Returns the exit status, or `None` if there was no such
    /// call.
    fn strike(&self, call: &str, fault: &str, number: impl Display) -> Option<std::process::ExitStatus> {
        self.strike_all(&[(call, fault, number.to_string())])
    }

    /// Runs the change with several faults. Returns `None` if there was no call for the last one.
    fn strike_all(&self, faults: &[(&str, &str, String)]) -> Option<std::process::ExitStatus> {
        let mut options = Vec::new();
        for (call, fault, number) in faults {
            options.extend(["-e".to_owned(), format!("inject={call}:{fault}:when={number}")]);
        }
        let calls: Vec<_> = faults.iter().map(|(call, ..)| *call).collect();
        options.extend(["-e".to_owned(), format!("trace={}", calls.join(","))]);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let (status, log) = strace(&options, &[(CHANGE, self.change.as_ref()), (BASE, self.base().as_os_str())]);
        let mark = if faults.last()?.1.starts_with("signal") { "killed by SIGKILL" } else { "(INJECTED)" };
        log.contains(mark).then_some(status)
    }

    /// The contents as another process reads them. Also checks that the staging directory is empty.
    fn contents(&self) -> Contents {
        block_on(async {
            let store = LocalStore::open(self.base()).await.unwrap();
            let mut contents = Vec::new();
            let staging = self.base().join(".memory-tool/staging");
            let is_clear = !staging.exists() || std::fs::read_dir(staging).unwrap().next().is_none();
            assert!(is_clear, "opening the store leaves files in the staging directory");
            for file in store.list(&StorePath::memories()).await.unwrap() {
                match store.read(&file.path).await.unwrap() {
                    Node::File(stored) => contents.push((file.path.as_str().into(), stored.content)),
                    other => panic!("{} is listed, but {other:?}", file.path),
                }
            }
            for name in RECORDS {
                let stored = store.read_opts(&record(name), ReadOptions::new()).await.unwrap().into_file();
                contents.extend(stored.map(|stored| (name.into(), stored.content)));
            }
            contents.sort();
            contents
        })
    }
}

/// The calls of a program that opens a store and writes a record.
pub(crate) fn calls_of_a_write(base: &Path, calls: &str) -> String {
    let options = ["-y", "-e", &format!("trace={calls}")];
    let (status, log) = strace(&options, &[(CHANGE, "record".as_ref()), (BASE, base.as_os_str())]);
    assert_eq!(status.code(), Some(DONE));
    log
}

/// Whether an unprivileged program that may open few files opens a store and writes a record. `copy` is a place for the
/// program, as the user may not reach the build directory.
pub(crate) fn writes_with_few_rights(base: &Path, copy: &Path) -> bool {
    std::fs::copy(std::env::current_exe().unwrap(), copy).unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 200 && exec $0"]).arg(copy).uid(crate::permissions::USER);
    limited.env(CHANGE, "record").env(BASE, base).status().unwrap().code() == Some(DONE)
}

/// As on fuse-overlayfs 1.10, which hides names that begin with `.wh.`.
fn hide_the_new_name(change: &str) {
    let (before, _) = before_and_after(change);
    let target = Target::new(change);
    let status = target.strike("unlinkat", "error=ENOENT", 1).unwrap();
    assert_eq!(status.code(), Some(UNCHANGED));
    assert_eq!(target.contents(), before);
}

fn before_and_after(change: &str) -> (Contents, Contents) {
    let target = Target::new(change);
    let before = target.contents();
    let made = Command::new(std::env::current_exe().unwrap()).env(CHANGE, change).env(BASE, target.base()).status();
    assert_eq!(made.unwrap().code(), Some(DONE));
    (before, target.contents())
}

/// Injects the fault at each call in turn, each time in a new store. Short tiers skip every second call of a kind.
/// Returns the number of calls.
fn strike_each(
    change: &str,
    fault: impl Fn(&str) -> String,
    check: impl Fn(&Target, std::process::ExitStatus, &str),
) -> usize {
    let mut strikes = 0;
    for (call, error) in FAILURES {
        for number in (1..).step_by(by_tier(2, 1)) {
            let target = Target::new(change);
            let Some(status) = target.strike(call, &fault(error), number) else { break };
            check(&target, status, &format!("{change}, {call} number {number}"));
            strikes += 1;
        }
    }
    strikes
}

fn fail_each_call(change: &str) {
    let states = before_and_after(change);
    let check = |target: &Target, status, place: &str| check_outcome(target, status, place, &states);
    let strikes = strike_each(change, |error| format!("error={error}"), check);
    assert!(strikes > by_tier(15, 30), "only {strikes} calls failed");
    eprintln!("{change}: {strikes} failures");
}

fn kill_at_each_call(change: &str) {
    let (before, after) = before_and_after(change);
    let check = |target: &Target, status: std::process::ExitStatus, place: &str| {
        assert_eq!(status.code(), None, "{place} was not the last call");
        let found = target.contents();
        assert!(found == before || found == after, "{place} left {found:?}");
    };
    let strikes = strike_each(change, |_| "signal=KILL".to_owned(), check);
    assert!(strikes > by_tier(15, 30), "only {strikes} calls were the last");
    eprintln!("{change}: {strikes} kills");
}

/// Checks the outcome that the change reported.
fn check_outcome(target: &Target, status: std::process::ExitStatus, place: &str, states: &(Contents, Contents)) {
    let (before, after) = states;
    let found = target.contents();
    match status.code() {
        Some(DONE) => assert_eq!(found, *after, "{place} reported success"),
        Some(UNCHANGED) => assert_eq!(found, *before, "{place} reported that nothing was changed"),
        Some(UNKNOWN) => assert!(found == *before || found == *after, "{place} left {found:?}"),
        other => panic!("{place} ended with {other:?}"),
    }
}

/// A refused move has a known outcome, and the store stays usable.
fn refuse_each_move(change: &str) {
    let states = before_and_after(change);
    let (mut refusals, mut undone) = (0, 0);
    for call in MOVES {
        for error in &REFUSALS[..by_tier(4, REFUSALS.len())] {
            for number in 1.. {
                let target = Target::new(change);
                let Some(status) = target.strike(call, &format!("error={error}"), number) else { break };
                let place = format!("{change}, {error} of {call} number {number}");
                assert_ne!(status.code(), Some(UNKNOWN), "{place}");
                check_outcome(&target, status, &place, &states);
                refusals += 1;
                undone += usize::from(status.code() == Some(UNCHANGED));
            }
        }
    }
    assert!(refusals > 20 && undone > 10, "{refusals} refusals, {undone} batches undone");
    eprintln!("{change}: {refusals} refusals, {undone} batches undone");
}

/// The steps can then not be undone either. The next process does it.
fn refuse_all_moves(change: &str) {
    let states = before_and_after(change);
    let mut refusals = 0;
    for error in &REFUSALS[..by_tier(3, REFUSALS.len())] {
        for number in 1.. {
            let target = Target::new(change);
            let faults = MOVES.map(|call| (call, format!("error={error}"), format!("{number}+")));
            let faults: Vec<_> =
                faults.iter().map(|(call, fault, when)| (*call, fault.as_str(), when.clone())).collect();
            let Some(status) = target.strike_all(&faults) else { break };
            check_outcome(&target, status, &format!("{change}, {error} from number {number}"), &states);
            refusals += 1;
        }
    }
    assert!(refusals > 5, "{refusals} refusals");
    eprintln!("{change}: {refusals} refusals");
}

/// A step is refused, and the process is killed at a later call.
fn kill_each_undo(change: &str) {
    const STEP: usize = 3;
    let states = before_and_after(change);
    let mut kills = 0;
    for number in (1..).step_by(by_tier(STEP, 1)) {
        let refused = ("renameat2", "error=EPERM", number.to_string());
        if Target::new(change).strike_all(std::slice::from_ref(&refused)).is_none() {
            break;
        }
        for call in ["openat2", "statx", "fsync", "unlinkat"] {
            for killed in (1..).step_by(by_tier(STEP, 1)) {
                let target = Target::new(change);
                let faults = [refused.clone(), (call, "signal=KILL", killed.to_string())];
                if target.strike_all(&faults).is_none() {
                    break;
                }
                let found = target.contents();
                let place = format!("{change}, rename {number} refused, killed at {call} {killed}");
                assert!(found == states.0 || found == states.1, "{place}: {found:?}");
                kills += 1;
            }
        }
    }
    assert!(kills > 30, "{kills} kills");
    eprintln!("{change}: {kills} kills");
}

/// Older kernels and some containers refuse the call.
fn refuse_openat2(change: &str) {
    let (_, after) = before_and_after(change);
    for error in ["ENOSYS", "EPERM"] {
        let target = Target::new(change);
        let status = target.strike("openat2", &format!("error={error}"), "1+").unwrap();
        assert_eq!((status.code(), target.contents()), (Some(DONE), after.clone()), "{error}");
    }
}
