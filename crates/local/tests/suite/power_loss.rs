//! Power loss: programs apply batches, and their system calls are recorded. Every state in which a loss of power could
//! leave the disk must contain what was acknowledged, and each other batch as a whole or not at all (`[X1]`, `[X2]`).
//!
//! The tests run this program again under `strace`. Without `strace` they are ignored.

mod check;
mod crash;
mod model;
mod trace;

use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Instant;

use libtest_mimic::Trial;
use memory_tool_core::{Batch, Change, Store, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::{TRACING, block_on, can_trace, trial};
use memory_tool_test_fixtures::{by_tier, record};

use check::{Checker, Contents, Script};
use model::{Effect, Operation, Recording, Tree};

/// The base of the store of the recorded program, and the name of its script.
const BASE: &str = "MEMORY_TOOL_TEST_POWER_LOSS_BASE";
const SCRIPT: &str = "MEMORY_TOOL_TEST_POWER_LOSS_SCRIPT";

/// The name of the base directory in a state.
const BASE_NAME: &str = "base";

/// The program prints this and the name of a batch after it was applied.
const ACKNOWLEDGED: &str = "acknowledged ";

/// The name of the script with all kinds of changes. Any other name is a path, at which the script creates a file.
const ALL_CHANGES: &str = "all changes";

/// The names of two scripts: one creates files, and the disk refuses the batch of the other. The program then prints
/// the third.
const FILES: &str = "files";
const UNDONE: &str = "undone";
const REFUSED: &str = "refused";

const RECORDS: [&str; 8] = ["first", "second", "third", "log/1", "log/2", "log/3", "log/4", "log/5"];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let can_trace = can_trace();
    let trial = move |name: &str, test: fn()| trial(&format!("power_loss::{name}"), can_trace, TRACING, test);
    [
        trial("every_state_has_what_was_acknowledged", every_state_has_what_was_acknowledged),
        trial("a_second_power_loss_is_harmless", a_second_power_loss_is_harmless),
        trial("a_power_loss_after_a_kill_is_harmless", a_power_loss_after_a_kill_is_harmless),
        trial("a_power_loss_during_an_undo_is_harmless", a_power_loss_during_an_undo_is_harmless),
        trial("a_missing_or_late_flush_is_detected", a_missing_or_late_flush_is_detected),
    ]
    .into_iter()
}

fn path(text: &str) -> StorePath {
    format!("/memories/{text}").parse().unwrap()
}

fn script(name: &str) -> Script {
    let single = |batch| vec![vec![(name.to_owned(), batch)]];
    if name == FILES {
        let files = ["a", "d/b", "e/c"].iter().fold(Batch::new(), |batch, file| batch.write(path(file), "old"));
        return single(files.write(record("first"), "old"));
    }
    if name == UNDONE {
        let batch = Batch::new().write(path("a"), "new").write(path("n/m"), "new").rename(path("d"), path("o/d"));
        return single(batch.remove(path("e")).write(record("first"), "new").write(record("second"), "new"));
    }
    if name != ALL_CHANGES {
        return vec![vec![(
            name.to_owned(),
            Batch::new().write(name.parse::<StorePath>().unwrap(), "created by the next program"),
        )]];
    }
    let write = |name: &str, content: &str| Batch::new().write(path(name), content);
    let rename = |from: &str, to: &str| Batch::new().rename(path(from), path(to));
    let remove = |name: &str| Batch::new().remove(path(name));
    let rounds = vec![
        vec![write("new/directory/a", "created")],
        vec![write("new/directory/b", "created in a directory that exists")],
        vec![write("new/directory/a", "edited")],
        vec![write("new/directory/a", "edited again")],
        vec![rename("new/directory/b", "new/renamed")],
        vec![rename("new/directory", "other/place")],
        vec![Batch::new().write(record("first"), "first record")],
        vec![Batch::new().write(record("first"), "edited first record")],
        vec![write("c", "created in the root"), write("d/e/f", "created"), rename("new/renamed", "g/moved")],
        vec![
            write("c", "edited with others")
                .write(path("h/i/j"), "created with others")
                .rename(path("g/moved"), path("d/moved"))
                .remove(path("other/place/a"))
                .write(path("other/b"), "")
                .write(record("first"), "edited with others")
                .write(record("second"), "created with others"),
        ],
        vec![Batch::new().remove(record("first"))],
        vec![write("d/large", &"0123456789".repeat(150))],
        vec![remove("d/e/f")],
        vec![write("c", "edited"), remove("h/i"), Batch::new().write(record("third"), "third record")],
        vec![remove("d")],
        vec![write("k/l", "text").write(path("k/m"), "text").remove(path("other"))],
        vec![Batch::new().remove(StorePath::memories())],
        vec![write("k/l", "created after everything was removed")],
        // The removal of a journal of writes is not flushed.
        vec![write("k/l", "edited with its entry").write(record("first"), "entry")],
        vec![write("k/l", "edited alone")],
        vec![write("k/l", "edited again").write(record("second"), "another entry")],
        vec![Batch::new().remove(record("first")).write(record("third"), "both entries")],
        // Changes of one file with new records go through the log.
        vec![write("k/l", "edited with a new entry").write(record("first"), "new entry")],
        vec![write("k/n/o", "created with a new entry").write(record("log/1"), "entry of a creation")],
        vec![rename("k/n/o", "p/q").write(record("log/2"), "entry of a rename")],
        vec![write("k/l", "the log is cleared").write(record("log/3"), "entry ".repeat(200)).remove(record("log/1"))],
        vec![rename("p", "r").write(record("log/4"), "entry of the rename of a directory")],
        vec![remove("r/q").write(record("log/5"), "entry of a removal")],
        vec![write("k/l", "edited without an entry")],
    ];
    let name = |(round, batches): (usize, Vec<Batch>)| {
        batches.into_iter().enumerate().map(|(number, batch)| (format!("{round}.{number}"), batch)).collect()
    };
    rounds.into_iter().enumerate().map(name).collect()
}

/// In the recorded program: applies the batches and returns the exit status.
pub(crate) fn run_child() -> Option<ExitCode> {
    let (base, name) = (std::env::var_os(BASE)?, std::env::var(SCRIPT).ok()?);
    block_on(apply(Path::new(&base), script(&name)));
    Some(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the trace contains what is printed")]
async fn apply(base: &Path, script: Script) {
    let store = LocalStore::open(base).await.unwrap();
    for round in script {
        let applying = round.into_iter().map(|(name, batch)| {
            let store = store.clone();
            tokio::spawn(async move {
                match store.apply(batch).await {
                    Err(_) if name == UNDONE => println!("{ACKNOWLEDGED}{REFUSED}"),
                    applied => {
                        applied.unwrap();
                        println!("{ACKNOWLEDGED}{name}");
                    }
                }
            })
        });
        for applying in applying.collect::<Vec<_>>() {
            applying.await.unwrap();
        }
    }
}

/// Runs a script on a directory, and adds it to the recording of the directory.
fn run(name: &str, recording: Recording) -> Recording {
    let recording = record_with(name, recording, None);
    for (name, _) in script(name).into_iter().flatten() {
        assert!(recording.acknowledges(&name), "{name} is not recorded");
    }
    recording
}

/// Runs a script on a directory, with a call that fails.
fn record_with(name: &str, mut recording: Recording, fault: Option<&str>) -> Recording {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    check::create(&root, &recording.live.tree());
    let base = root.join(BASE_NAME);
    recording.add(&root, &trace::trace(&[(BASE, base.as_os_str()), (SCRIPT, name.as_ref())], fault));
    recording
}

/// The checked recording of all changes, which several tests start from.
fn check_all_changes() -> (Recording, Checker) {
    static CHECKED: LazyLock<(Recording, Checker)> = LazyLock::new(|| {
        let start = Instant::now();
        let recording = run(ALL_CHANGES, Recording::of(&Tree::new()));
        let mut checker = Checker::default();
        checker.check(&recording, 0, &Contents::new(), &script(ALL_CHANGES)).unwrap();
        report(ALL_CHANGES, recording.operations.len(), &checker, start);
        (recording, checker)
    });
    CHECKED.clone()
}

fn report(name: &str, operations: usize, checker: &Checker, start: Instant) {
    let (states, distinct, left_out) = (checker.states, checker.distinct.len(), checker.left_out);
    let time = start.elapsed();
    eprintln!("{name}: {operations} operations, {states} states ({distinct} distinct, {left_out} left out), {time:?}");
}

fn every_state_has_what_was_acknowledged() {
    check_all_changes();
}

/// The power fails, and fails again while the next program uses the store. Covers states with a journal, and others.
fn a_second_power_loss_is_harmless() {
    const NEXT: &str = "/memories/n/o";
    let (_, mut first) = check_all_changes();
    let (start, mut checker, mut operations) = (Instant::now(), Checker::default(), 0);
    let journal = format!("{BASE_NAME}/.memory-tool/journal");
    let (journals, others): (Vec<_>, Vec<_>) =
        first.distinct.clone().into_iter().partition(|tree| tree.contains_key(&journal));
    assert!(!journals.is_empty(), "no state has a journal");
    for tree in sample(&journals, by_tier(5, 100)).chain(sample(&others, by_tier(5, 100))) {
        let contents = first.outcome(tree.clone()).clone().unwrap();
        let lost = Recording::of(tree);
        let from = lost.operations.len();
        let recording = run(NEXT, lost);
        operations += recording.operations.len() - from;
        checker.check(&recording, from, &contents, &script(NEXT)).unwrap();
    }
    report("second power loss", operations, &checker, start);
}

/// The program is killed after any operation, and the power fails while the next program uses the store. Short tiers
/// try a quarter of the kills.
fn a_power_loss_after_a_kill_is_harmless() {
    let (recording, mut checker) = check_all_changes();
    let (start, all_changes, mut operations) = (Instant::now(), script(ALL_CHANGES), 0);
    let mut problems = Vec::new();
    // A kill before a flush makes more states possible than a kill after it.
    let changes = recording.operations.iter().filter(|it| !matches!(it.effect, Effect::Flush { .. }));
    for last in changes.step_by(by_tier(4, 1)) {
        let killed = recording.killed_after(last.number + 1);
        let is_incomplete = |round: &Vec<(String, _)>| !round.iter().all(|(name, _)| killed.acknowledges(name));
        let Some(round) = all_changes.iter().position(is_incomplete) else { break };
        let next = beside(&all_changes[round][0].1);
        let mut both = all_changes[..=round].to_vec();
        both[round].extend(script(&next).into_iter().flatten());
        let recording = run(&next, killed);
        operations += recording.operations.len() - last.number - 1;
        let checked = checker.check(&recording, last.number + 1, &Contents::new(), &both);
        problems.extend(checked.err().map(|problem| format!("killed after {}: {problem}", last.description)));
    }
    report("kills", operations, &checker, start);
    assert!(problems.is_empty(), "{} kills:\n{}", problems.len(), problems.join("\n"));
}

/// A step of a batch is refused, so the batch is undone. After the refusal is reported, it must have no effect.
fn a_power_loss_during_an_undo_is_harmless() {
    let (start, mut checker, mut operations, mut undone) = (Instant::now(), Checker::default(), 0, 0);
    let files = run(FILES, Recording::of(&Tree::new())).live.tree();
    let contents: Contents = ["/memories/a", "/memories/d/b", "/memories/e/c", "first"]
        .map(|name| (name.to_owned(), "old".to_owned()))
        .into();
    for number in (1..).step_by(by_tier(2, 1)) {
        let fault = format!("inject=renameat2:error=EBUSY:when={number}");
        let recording = record_with(UNDONE, Recording::of(&files), Some(&fault));
        if recording.acknowledges(UNDONE) {
            break;
        }
        let from = recording.operations.iter().take_while(|it| it.acknowledged().is_none()).count();
        let first = Recording::of(&files).operations.len();
        checker.check(&recording, first, &contents, &script(UNDONE)).unwrap();
        checker.check(&recording, from, &contents, &Script::new()).unwrap();
        operations += recording.operations.len() - first;
        undone += 1;
    }
    assert!(undone > by_tier(3, 6), "only {undone} batches were undone");
    report("undone batches", operations, &checker, start);
}

/// A path in the directory that a batch changes first.
fn beside(batch: &Batch) -> String {
    let path = batch.changes().first().and_then(|change| match change {
        Change::Write { path, .. } | Change::Remove { path } | Change::Rename { to: path, .. } => path.parent(),
    });
    format!("{}/beside", path.unwrap_or_else(StorePath::memories))
}

fn sample<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(count).max(1))
}

/// The check detects the absence of the flushes of files or directories in any batch. It also detects flushes that come
/// too late: of new contents, and of directories in a batch of several changes. Short tiers try a third of the rounds.
fn a_missing_or_late_flush_is_detected() {
    let (recording, mut checker) = check_all_changes();
    let (start, script, mut alterations) = (Instant::now(), script(ALL_CHANGES), 0);
    let step = by_tier(3, 1);
    for (round, batches) in script.iter().enumerate().step_by(step) {
        let has_journal = batches.iter().any(|(_, batch)| batch.changes().len() > 1);
        for (of_directory, is_late) in [(false, false), (false, true), (true, false), (true, true)] {
            if of_directory && is_late && !has_journal {
                continue;
            }
            let Some((altered, from)) = alter(&recording, round, of_directory, is_late) else { continue };
            let found = checker.check(&altered, from, &Contents::new(), &script);
            assert!(found.is_err(), "round {round} needs no flushes (of directories: {of_directory}, late: {is_late})");
            alterations += 1;
        }
    }
    assert!(step * alterations > script.len(), "only {alterations} alterations of {} rounds", script.len());
    report("altered flushes", recording.operations.len() * alterations, &checker, start);
}

/// Leaves out the flushes of files or of directories in a round, or moves them to its last acknowledgement. Returns the
/// number of the first.
fn alter(recording: &Recording, round: usize, of_directory: bool, is_late: bool) -> Option<(Recording, usize)> {
    let ends = |operation: &Operation, round: usize| {
        operation.acknowledged().is_some_and(|name| name.starts_with(&format!("{round}.")))
    };
    let last = |round| recording.operations.iter().rposition(|operation| ends(operation, round)).unwrap();
    let start = round.checked_sub(1).map_or(0, |round| last(round) + 1);
    let (before, rest) = recording.operations.split_at(start);
    let (during, after) = rest.split_at(last(round) - start);
    let (flushes, others): (Vec<_>, Vec<_>) =
        during.iter().cloned().partition(|operation| recording.flushes(operation, of_directory));
    let from = flushes.first()?.number;
    let flushes = if is_late { flushes } else { Vec::new() };
    let operations = [before, &others, &flushes, after].concat();
    Some((Recording { operations, ..recording.clone() }, from))
}
