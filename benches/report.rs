//! Prints the results of the benchmarks as Markdown.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::Path;
use std::process::Command;

/// Prints the lines of the machine and the programs of a run. `$1` is the directory of the stores.
const DESCRIBE: &str = "uname -sr; findmnt -no FSTYPE -T \"$1\"; echo \"$(nproc) cores\"; \
    sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1; rustc --version; git describe --always --dirty";

/// Prints a table. Rows that are measured lazily are printed immediately.
pub(crate) fn print_table(columns: &str, rows: impl IntoIterator<Item = Vec<String>>) {
    println!("| {columns} |\n|{}", "---|".repeat(columns.split(" | ").count()));
    for cells in rows {
        println!("| {} |", cells.join(" | "));
    }
    println!();
}

/// Prints the machine, the file system of a directory, and more versions.
pub(crate) fn print_machine(directory: &Path, versions: &[String]) {
    let output = Command::new("sh").args(["-c", DESCRIBE, "sh"]).arg(directory).output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let parts = output.lines().chain(versions.iter().map(String::as_str)).filter(|part| !part.is_empty());
    println!("{}.\n", parts.collect::<Vec<_>>().join(", "));
}

/// A time in seconds, with at least two digits.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..1e-3 => (seconds * 1e6, "µs"),
        ..1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

pub(crate) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}
