//! Developer tasks. `cargo xtask` lists them, and each prints the commands that it runs.

#![allow(clippy::print_stderr, reason = "a program for the terminal")]

mod picture;
mod vectors;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type BoxError = Box<dyn Error>;

/// A task, whose commands run in order until one fails.
struct Task {
    name: &'static str,
    about: &'static str,
    commands: &'static [CommandLine],
}

/// An optional environment variable, and a program with arguments, separated by spaces.
struct CommandLine(Option<(&'static str, &'static str)>, &'static str);

const TASKS: [Task; 7] = [
    Task { name: "fmt", about: "format the code", commands: &[CommandLine(None, "cargo fmt --all")] },
    Task {
        name: "lint",
        about: "check the format and run clippy",
        commands: &[
            CommandLine(None, "cargo fmt --all -- --check"),
            CommandLine(None, "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
        ],
    },
    Task { name: "test", about: "run the default tests", commands: &[CommandLine(None, "cargo test")] },
    Task {
        name: "test-full",
        about: "run all tests; the first run downloads servers",
        commands: &[CommandLine(Some(("MEMORY_TOOL_TESTS", "full")), "cargo test --workspace")],
    },
    Task {
        name: "test-long",
        about: "run more cases, races and crashes with random seeds",
        commands: &[CommandLine(None, "bash .ci/long tests")],
    },
    Task {
        name: "bench",
        about: "run all benchmarks",
        commands: &[CommandLine(None, "cargo bench -p memory-tool-bench")],
    },
    Task {
        name: "docs",
        about: "build the documentation and deny warnings",
        commands: &[CommandLine(
            Some(("RUSTDOCFLAGS", "-D warnings")),
            "cargo doc --workspace --no-deps --all-features",
        )],
    },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["picture"] => picture::write(),
        ["picture", "--check"] => picture::check(),
        ["vectors"] => vectors::write().map(|path| eprintln!("wrote {}", path.display())),
        [name] => TASKS.iter().find(|task| task.name == name).ok_or_else(|| usage().into()).and_then(run),
        _ => Err(usage().into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut lines = vec!["usage: cargo xtask TASK".to_owned()];
    lines.extend(TASKS.iter().map(|task| format!("  {:<18}{}", task.name, task.about)));
    lines.push(format!("  {:<18}pack the conformance vectors for other languages", "vectors"));
    lines.push(format!("  {:<18}draw {}; with --check, fail if it is out of date", "picture [--check]", picture::FILE));
    lines.join("\n")
}

fn run(task: &Task) -> Result<(), BoxError> {
    task.commands.iter().try_for_each(CommandLine::run)
}

impl CommandLine {
    fn run(&self) -> Result<(), BoxError> {
        let Self(variable, line) = self;
        match variable {
            Some((name, value)) => eprintln!("$ {name}='{value}' {line}"),
            None => eprintln!("$ {line}"),
        }
        let mut words = line.split(' ');
        let status = Command::new(words.next().unwrap_or_default())
            .args(words)
            .envs(*variable)
            .current_dir(root())
            .status()
            .map_err(|error| format!("cannot run `{line}`: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}").into()) }
    }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
