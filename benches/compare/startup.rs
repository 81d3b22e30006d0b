//! The first reply and the memory of a new process: our program, and the SDKs' tools.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::contestant::{Contestant, Worker};
use crate::protocol::Job;
use crate::results::Results;
use crate::workloads::{Id, Operation, repeated};

const STORE: &str = "startup";

pub(crate) fn measure(directory: &Path, rounds: usize, results: &mut Results) {
    let (prepare, view) = repeated(Operation::View, 1);
    let contestants = [Contestant::Local, Contestant::Sqlite, Contestant::Python, Contestant::TypeScript];
    let mut installed = contestants.to_vec();
    installed.retain(|of| {
        let worker = Worker::start(*of, directory);
        worker.map(|mut worker| worker.run_all(&Job::single(STORE, prepare.clone()))).is_some()
    });
    let program = build();
    if program.is_none() {
        installed.retain(|contestant| !contestant.is_ours());
    }
    let job = serde_json::to_string(&Job::single(STORE, view.clone())).unwrap();
    let start = |contestant: Contestant| match &program {
        Some(program) if contestant.is_ours() => {
            let mut command = Command::new(program);
            command.arg("run").arg("--store").arg(store_url(contestant, directory));
            first_reply(command, &view[0].to_string(), 1)
        }
        _ => first_reply(contestant.command(directory), &job, 2),
    };
    let mut samples = vec![(Vec::new(), Vec::new()); installed.len()];
    for _ in 0..rounds {
        for (contestant, (seconds, bytes)) in installed.iter().zip(&mut samples) {
            let reply = start(*contestant);
            seconds.push(reply.seconds);
            bytes.extend(reply.peak_memory);
        }
    }
    for (contestant, (seconds, bytes)) in installed.into_iter().zip(samples) {
        results.add(Id::FirstReply, contestant, seconds);
        results.add(Id::PeakMemory, contestant, bytes);
    }
}

/// Builds the program. Returns its path.
fn build() -> Option<PathBuf> {
    let arguments = ["build", "--release", "--quiet", "--package", "memory-tool-cli", "--bin", "memory-tool"];
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    // Variables of the running benchmark, which would make cargo compile dependencies again.
    let of_benchmark = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in env::vars().filter(|(name, _)| of_benchmark(name)) {
        command.env_remove(name);
    }
    let is_built = command.args(arguments).status().is_ok_and(|status| status.success());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../release/memory-tool");
    (is_built && program.exists()).then_some(program)
}

fn store_url(contestant: Contestant, directory: &Path) -> String {
    let base = contestant.base(directory);
    match contestant {
        Contestant::Sqlite => format!("sqlite:{}", base.join(STORE).with_extension("sqlite").display()),
        _ => base.join(STORE).display().to_string(),
    }
}

struct FirstReply {
    seconds: f64,
    /// In bytes, if the system reports it.
    peak_memory: Option<f64>,
}

/// Starts a process, writes a line and waits for some lines.
fn first_reply(mut command: Command, line: &str, lines: usize) -> FirstReply {
    let start = Instant::now();
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
    writeln!(input, "{line}").unwrap();
    let mut reply = String::new();
    for _ in 0..lines {
        reply.clear();
        output.read_line(&mut reply).unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(!reply.is_empty() && !reply.contains("is_error"), "{command:?}: {reply}");
    let peak_memory = peak_memory(process.id());
    drop(input);
    process.wait().unwrap();
    FirstReply { seconds, peak_memory }
}

fn peak_memory(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"))?;
    Some(kilobytes.trim().parse::<f64>().ok()? * 1_024.0)
}
