//! A change of the tokens survives a loss of power.
//!
//! The test runs this program again under `strace`. Without `strace` it is ignored.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_tool::Actor;
use memory_tool_server::{Grant, Right, TokenEntry, TokenFile};
use memory_tool_test_fixtures::faults::{TRACING, can_trace, strace, trial};

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
    let place = place.display().to_string();
    let calls: Vec<_> = log.lines().filter(|line| line.contains(&place)).collect();
    let is_flush = |call: &str, of: &str| call.contains("sync(") && call.contains(of);
    for calls in calls.chunks(3) {
        let [file, rename, flushed] = calls else { panic!("{log}") };
        assert!(is_flush(file, &format!("<{place}/.tmp")), "{file}");
        assert!(rename.contains("rename") && rename.contains(&format!("{place}/tokens")), "{rename}");
        assert!(is_flush(flushed, &format!("<{place}>")), "{flushed}");
    }
    assert_eq!(calls.len(), 6, "{log}");
}
