//! A change of the tokens survives a loss of power.
//!
//! The test runs this program again under `strace`. Without `strace` it is ignored.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_tool::Actor;
use memory_tool_server::{Grant, Right, TokenEntry, TokenFile};
use memory_tool_test_fixtures::faults::{Call, Reader, TRACING, can_trace, strace, trial};

/// The file that the child process changes.
const TOKENS: &str = "MEMORY_TOOL_TEST_TOKENS";

fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(TOKENS) {
        change(file.as_ref());
        return ExitCode::SUCCESS;
    }
    let trials = vec![trial("changes_of_tokens_are_flushed", can_trace(), TRACING, changes_are_flushed)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Adds a token and revokes it.
fn change(file: &Path) {
    let actor = Actor::from_trusted_name("key").unwrap();
    let (entry, _) = TokenEntry::generate(actor, vec![Grant::All], Right::ALL.to_vec()).unwrap();
    let (file, id) = (TokenFile::new(file), entry.id.clone());
    file.add(entry).unwrap();
    assert!(file.revoke(&id).unwrap());
}

/// Each change flushes the new file, then renames it, then flushes its directory.
fn changes_are_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let options = ["-y", "-s", "4096", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2"];
    let (status, log) = strace(&options, &[(TOKENS, place.join("tokens").as_os_str())]);
    assert!(status.success(), "{status}");
    let mut reader = Reader::default();
    let concerns = |call: &Call| (0..call.arguments.len()).any(|argument| path(call, argument).starts_with(&place));
    let calls: Vec<_> = log.lines().filter_map(|line| reader.read(line)).filter(concerns).collect();
    let is_flush = |call: &Call| call.name.ends_with("sync") && call.succeeded();
    for calls in calls.chunks(3) {
        let [file, rename, flushed] = calls else { panic!("{log}") };
        let is_temporary = path(file, 0).file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp"));
        assert!(is_flush(file) && is_temporary, "{file:?}");
        let is_renamed = (0..rename.arguments.len()).any(|argument| path(rename, argument) == place.join("tokens"));
        assert!(rename.name.starts_with("rename") && is_renamed, "{rename:?}");
        assert!(is_flush(flushed) && path(flushed, 0) == place, "{flushed:?}");
    }
    assert_eq!(calls.len(), 6, "{log}");
}

/// The path that an argument is, or the file of a descriptor.
fn path(call: &Call, argument: usize) -> PathBuf {
    let text = call.text(argument).map(|text| String::from_utf8(text).unwrap().into());
    text.or_else(|| call.file(argument)).unwrap_or_default()
}
