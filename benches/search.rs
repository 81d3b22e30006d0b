//! Benchmarks of a search in 10 MB of notes on each backend, against ripgrep. See `README.md`.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use memory_tool_core::{Batch, Search, Store, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use tokio::runtime::Runtime;

use crate::measure::{medians, target_directory};
use crate::report::{print_machine, print_table, ratio, time};

const ROUNDS: usize = 30;
const NOTES: usize = 2_500;
const NOTE_BYTES: usize = 4_000;
const IN_DIRECTORY: usize = 25;
/// A phrase that one note in a hundred contains, and a regular expression for the same lines.
const WORDS: &str = "green tea ceremony";
const REGEX: &str = r"green\s+\w+ ceremony";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let place = |name: &str| directory.path().join(name);
    let local = runtime.block_on(LocalStore::open(place("local"))).unwrap();
    let sqlite = runtime.block_on(SqliteStore::open(place("memory.sqlite"))).unwrap();
    let under = runtime.block_on(LocalStore::open(place("encrypted"))).unwrap();
    let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
    let encrypted = runtime.block_on(EncryptedStore::open(under, keys)).unwrap();
    let stores: [(&str, &dyn Store); 3] = [("local", &local), ("SQLite", &sqlite), ("encrypted, local", &encrypted)];
    for (_, store) in stores {
        fill(&runtime, store);
    }
    let (program, files) = (target_directory().join("../release/memory-tool"), place("local").join("memories"));
    print_machine(directory.path(), &[]);
    let phrase = format!("\"{WORDS}\"");
    for (search, option) in [(Search::new(&phrase), "-i"), (Search::new(REGEX).regex(), "-e")] {
        let (pattern, given) = if option == "-e" { (REGEX, REGEX) } else { (WORDS, phrase.as_str()) };
        let words = [OsStr::new("search"), option.as_ref(), given.as_ref(), "--store".as_ref()];
        let in_store = |store: &dyn Store| {
            let report = runtime.block_on(search.run(store)).unwrap();
            assert_eq!((report.matches, report.searched), (NOTES as u64 / 100, NOTES as u64));
        };
        let times = medians(
            ROUNDS,
            [
                &|_| run(Command::new("rg").arg("-nS").arg(pattern).arg(&files)),
                &|_| run(Command::new(&program).args(words).arg(place("local"))),
                &|_| in_store(&local),
                &|_| in_store(&sqlite),
                &|_| in_store(&encrypted),
            ],
        );
        let names = ["`rg`", "`memory-tool search`, local"].into_iter().chain(stores.map(|(name, _)| name));
        let rows =
            names.zip(times).map(|(name, seconds)| vec![name.to_owned(), time(seconds), ratio(seconds / times[0])]);
        print_table(&format!("`{pattern}` | time | / `rg`"), rows);
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

/// Runs a process that finds all lines.
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("needs `rg` and a release build of the program");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), NOTES / 100);
}
