//! The first reply and the memory of a new process: our program, and the SDKs' tools.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::contestant::Contestant;
use crate::measure::{memory, target_directory};
use crate::process::Process;
use crate::rounds::{Figure, Results};
use crate::workloads::{Id, Script, session};

const STORE: &str = "startup";

pub(crate) fn measure(directory: &Path, rounds: usize, results: &mut Results) {
    build();
    let Script { prepare, timed: view, .. } = Script::view();
    let mut contestants = Contestant::ALL.to_vec();
    contestants.retain(|contestant| {
        let worker = contestant.start(directory);
        worker.map(|mut worker| worker.run_all(&session(STORE, prepare.clone()))).is_some()
    });
    let job = serde_json::to_string(&session(STORE, view.clone())).unwrap();
    for _ in 0..rounds {
        for &contestant in &contestants {
            let (seconds, bytes) = if contestant.is_ours() {
                first_reply(program(contestant, directory), &view[0].to_string(), 1)
            } else {
                first_reply(contestant.script(directory), &job, 2) // the first line is the version
            };
            for (id, sample) in [(Id::FirstReply, Some(seconds)), (Id::PeakMemory, bytes)] {
                let samples = sample.into_iter().collect();
                results.add(id, contestant, Figure { samples, ..Figure::default() });
            }
        }
    }
}

fn build() {
    let arguments = ["build", "--release", "--quiet", "--package", "memory-tool-cli", "--bin", "memory-tool"];
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    // Variables of the running benchmark, which would make cargo compile dependencies again.
    let of_benchmark = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in env::vars().filter(|(name, _)| of_benchmark(name)) {
        command.env_remove(name);
    }
    assert!(command.args(arguments).status().unwrap().success());
}

fn program(contestant: Contestant, directory: &Path) -> Command {
    let url = contestant.url(&contestant.base(directory).join(STORE));
    let mut command = Command::new(target_directory().join("../release/memory-tool"));
    command.arg("run").arg("--store").arg(url);
    command
}

/// Starts a process, writes a line and waits for some lines. Returns the seconds, and the peak memory in bytes if the
/// system reports it.
fn first_reply(command: Command, line: &str, lines: usize) -> (f64, Option<f64>) {
    let start = Instant::now();
    let mut process = Process::start(command).unwrap();
    process.write_line(line);
    let reply = (0..lines).map(|_| process.read_line()).last().unwrap_or_default();
    let seconds = start.elapsed().as_secs_f64();
    assert!(!reply.is_empty() && !reply.contains("is_error"), "{reply}");
    (seconds, memory(&process.id().to_string(), "VmHWM:"))
}
