//! Benchmarks of a search in 10 MB of notes on each backend, against ripgrep and Python. See `README.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, InMemoryStore, Search, Store, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_servers::{S3Server, Server as _};
use object_store::RetryConfig;
use tokio::runtime::Runtime;

use crate::measure::{median, medians, target_directory};
use crate::report::{print_machine, print_table, ratio, time};

const ROUNDS: usize = 30;
const NOTES: usize = 2_500;
const NOTE_BYTES: usize = 4_000;
const IN_DIRECTORY: usize = 25;
/// Words that one note in a hundred contains, and a regular expression for the same lines.
const WORDS: &str = "green tea ceremony";
const REGEX: &str = r"green\s+\w+ ceremony";

/// Reads each file and searches it, as a script of a tool would.
const PYTHON: &str = "\
import os, sys
for directory, _, names in os.walk(sys.argv[2]):
    for name in names:
        with open(os.path.join(directory, name), encoding='utf-8') as file:
            text = file.read()
        if sys.argv[1] in text.lower():
            for number, line in enumerate(text.splitlines(), 1):
                if sys.argv[1] in line.lower():
                    print(f'{directory}/{name}:{number}:{line}')
";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let place = |name: &str| directory.path().join(name);
    let keys = || KeyRing::new(RawKey::from_bytes([1; 32]));
    let local = runtime.block_on(LocalStore::open(place("local"))).unwrap();
    let sqlite = runtime.block_on(SqliteStore::open(place("memory.sqlite"))).unwrap();
    let under = runtime.block_on(LocalStore::open(place("encrypted"))).unwrap();
    let encrypted = runtime.block_on(EncryptedStore::open(under, keys())).unwrap();
    let server = S3Server::start().unwrap();
    let client = server.client(server.url(), RetryConfig::default()).unwrap();
    let bucket = runtime.block_on(BucketStore::builder(client, "search".into()).open()).unwrap();
    let memory = InMemoryStore::new();
    let stores: [(&str, &dyn Store); 5] = [
        ("in memory", &memory),
        ("local", &local),
        ("SQLite", &sqlite),
        ("encrypted, local", &encrypted),
        ("bucket, S3 server on this machine", &bucket),
    ];
    for (_, store) in stores {
        fill(&runtime, store);
    }
    let files = place("local").join("memories");
    print_machine(directory.path(), &[version("rg"), version("python3")]);
    for (name, pattern, search) in
        [("words", WORDS, Search::new(WORDS)), ("regular expression", REGEX, Search::new(REGEX).regex())]
    {
        let mut programs = [
            ripgrep(pattern, &files),
            (name == "words").then(|| python(pattern, &files)),
            program(pattern, &search, &place("local")),
        ];
        let mut samples = [const { Vec::new() }; 8];
        for _ in 0..ROUNDS {
            let processes = programs.iter_mut().map(|program| program.as_mut().map_or(f64::NAN, run));
            let searches = stores.iter().map(|(_, store)| {
                let [seconds] = medians(
                    1,
                    [&|_| {
                        let report = runtime.block_on(search.run(*store)).unwrap();
                        assert_eq!((report.matches, report.searched), (NOTES as u64 / 100, NOTES as u64));
                    }],
                );
                seconds
            });
            samples.iter_mut().zip(processes.chain(searches)).for_each(|(samples, seconds)| samples.push(seconds));
        }
        let names = ["`rg`", "Python", "`memory-tool search`, local"].into_iter().chain(stores.map(|(name, _)| name));
        let floor = median(&samples[0]);
        let rows = names.zip(&samples).map(|(row, samples)| match median(samples) {
            seconds if seconds.is_nan() => vec![row.to_owned(), "not measured".to_owned(), String::new()],
            seconds => vec![row.to_owned(), time(seconds), ratio(seconds / floor)],
        });
        print_table(&format!("{name} | time | / `rg`"), rows);
    }
}

fn fill(runtime: &Runtime, store: &dyn Store) {
    for first in (0..NOTES).step_by(100) {
        let batch = (first..first + 100).fold(Batch::new(), |batch, number| {
            let path = format!("/memories/{}/{number}.md", number / IN_DIRECTORY);
            batch.write(path.parse::<StorePath>().unwrap(), note(number))
        });
        runtime.block_on(store.apply(batch)).unwrap();
    }
}

fn note(number: usize) -> String {
    let mut note = String::new();
    while note.len() < NOTE_BYTES {
        let line = note.len() + number;
        note += &format!("- The user prefers short answers; see section {line} of the Report, about green paint.\n");
    }
    if number.is_multiple_of(100) { note + "The green tea ceremony is on Sunday.\n" } else { note }
}

fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().map_or_else(|| format!("no {program}"), str::to_owned)
}

/// Missing programs are not measured.
fn ripgrep(pattern: &str, files: &Path) -> Option<Command> {
    let is_installed = !version("rg").starts_with("no ");
    is_installed.then(|| command("rg", [OsStr::new("-nS"), pattern.as_ref(), files.as_ref()]))
}

fn python(pattern: &str, files: &Path) -> Command {
    command("python3", [OsStr::new("-c"), PYTHON.as_ref(), pattern.as_ref(), files.as_ref()])
}

/// The program that `cargo build --release -p memory-tool-cli` built.
fn program(pattern: &str, search: &Search, store: &Path) -> Option<Command> {
    let program: PathBuf = target_directory().join("../release/memory-tool");
    let is_regex = *search != Search::new(pattern);
    let option = if is_regex { "-e" } else { "-i" };
    let words = [OsStr::new("search"), option.as_ref(), pattern.as_ref(), "--store".as_ref(), store.as_ref()];
    program.exists().then(|| command(&program, words))
}

fn command<'a>(program: impl AsRef<OsStr>, words: impl IntoIterator<Item = &'a OsStr>) -> Command {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command
}

/// The seconds of a process that finds all lines.
fn run(command: &mut Command) -> f64 {
    let start = std::time::Instant::now();
    let output = command.output().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), NOTES / 100);
    seconds
}
