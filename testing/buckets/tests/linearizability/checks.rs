//! Checks recordings against `[X3]`, and `[X2]` for acknowledged changes.

use std::collections::BTreeMap;

use memory_tool_core::StorePath;
use memory_tool_test_checker::check;

use crate::recording::{Call, Outcome, Recording};
use crate::workload::LOG;
use memory_tool_test_buckets::reference::{Files, Reference};

/// Checks that the recording is linearizable.
///
/// # Errors
/// A description of the contradiction.
pub(crate) fn check_order(recording: &Recording) -> Result<(), String> {
    let (calls, operations): (Vec<_>, Vec<_>) =
        recording.calls.iter().filter_map(|call| Some((call, call.operation()?))).unzip();
    check(&Reference::new(), recording.start.clone(), &operations).map_err(|error| {
        let candidates: Vec<_> = error.candidates.iter().map(|&operation| describe_call(calls[operation])).collect();
        format!("{error}:\n{}\nin a state with the files\n{}", candidates.join("\n"), describe_files(&error.state))
    })
}

/// Checks that the log file contains each acknowledged line once, and no failed line.
///
/// # Errors
/// A description of the lost or unexpected line.
pub(crate) fn check_log(recording: &Recording) -> Result<(), String> {
    let mut found = BTreeMap::<&str, usize>::new();
    let log = &recording.end[&LOG.parse::<StorePath>().unwrap()];
    for line in std::str::from_utf8(log).unwrap().lines() {
        *found.entry(line).or_default() += 1;
    }
    for call in recording.calls.iter().filter(|call| call.command["path"] == LOG) {
        let Some(line) = call.command["insert_text"].as_str() else { continue };
        let times = found.remove(line).unwrap_or(0);
        let is_valid = match call.outcome() {
            Outcome::Known => times == 1,
            Outcome::Unknown => times <= 1,
            Outcome::Failed => times == 0,
        };
        if !is_valid {
            return Err(format!("found {times} times in the log: {}", describe_call(call)));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("lines without an insert: {found:?}")) }
}

fn describe_call(call: &Call) -> String {
    let Call { process, command, called, responded, reply } = call;
    format!("process {process}, {called:?} to {responded:?}: {} -> {}", truncate(&command.to_string()), truncate(reply))
}

fn describe_files(files: &Files) -> String {
    let describe = |(path, content): (&StorePath, &Vec<u8>)| {
        format!("{path} ({} bytes): {:?}", content.len(), truncate(&String::from_utf8_lossy(content)))
    };
    files.iter().map(describe).collect::<Vec<_>>().join("\n")
}

fn truncate(text: &str) -> String {
    text.chars().take(400).collect()
}
