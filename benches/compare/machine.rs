//! The machine and the programs of a run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) processor: String,
    pub(crate) rust: String,
    pub(crate) commit: String,
}

/// Describes the machine, and the file system of a directory.
pub(crate) fn describe(directory: &Path) -> Machine {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    Machine {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        file_system: file_system(directory),
        processor: format!("{cores} cores of {}", processor()),
        rust: output("rustc", &["--version"]),
        commit: output("git", &["describe", "--always", "--dirty"]),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn processor() -> String {
    let model = read("/proc/cpuinfo").lines().find_map(|line| Some(line.strip_prefix("model name")?.to_owned()));
    model.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or("an unknown processor".to_owned())
}

/// The type of the file system with the longest mount point above the directory.
fn file_system(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap();
    let mounts = read("/proc/self/mounts");
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| directory.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map_or("unknown".to_owned(), |(_, kind)| kind.to_owned())
}
