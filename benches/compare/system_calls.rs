//! Counts system calls with `strace`, if it is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::contestant::{Contestant, Worker};
use crate::protocol::Job;
use crate::results::Results;
use crate::workloads::{Id, Operation, repeated};

/// The number of commands of the shorter run. The longer run has twice as many.
const COMMANDS: usize = 100;

pub(crate) fn measure(directory: &Path, results: &mut Results) {
    for operation in [Operation::View, Operation::StrReplace] {
        for contestant in Contestant::ALL {
            let calls = [COMMANDS, 2 * COMMANDS].map(|count| count_calls(contestant, operation, count, directory));
            if let [Some(fewer), Some(more)] = calls {
                let per_command = (more as f64 - fewer as f64) / COMMANDS as f64;
                results.add(Id::SystemCalls(operation), contestant, vec![per_command]);
            }
        }
    }
}

/// Returns the number of system calls of a new process that runs some commands.
fn count_calls(contestant: Contestant, operation: Operation, count: usize, directory: &Path) -> Option<u64> {
    let table = directory.join("strace");
    let traced = contestant.command(directory);
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "--summary-only", "--summary-columns=calls,name", "--output"]).arg(&table);
    command.arg(traced.get_program()).args(traced.get_args());
    let mut worker = Worker::start_with(contestant, command)?;
    let (prepare, timed) = repeated(operation, count);
    let store = format!("calls-{}-{count}", operation.name());
    worker.run_all(&Job::single(&store, prepare));
    worker.run_all(&Job::single(&store, timed));
    drop(worker); // writes the table
    let table = fs::read_to_string(table).ok()?;
    table.lines().find_map(|line| line.trim().strip_suffix(" total")?.trim().parse().ok())
}
