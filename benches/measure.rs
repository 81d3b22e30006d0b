//! Functions shared by the benchmarks: options, timing and inputs of the memory tool.

#![allow(clippy::print_stderr, reason = "a benchmark prints")]
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::PathBuf;
use std::time::Instant;
use std::{env, fs};

use serde_json::{Value, json};

const SIZE: usize = 4_096;

/// How much a benchmark measures.
pub(crate) enum Amount {
    Quick,
    Usual,
}

impl Amount {
    /// Parses the command line. Exits if it is invalid.
    pub(crate) fn from_arguments() -> Self {
        // Cargo passes --bench.
        let arguments: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
        match arguments.join(" ").as_str() {
            "" => Self::Usual,
            "--quick" => Self::Quick,
            _ => {
                eprintln!("usage: cargo bench -p memory-tool-bench --bench NAME -- [--quick]");
                std::process::exit(2);
            }
        }
    }
}

/// The median seconds of interleaved workloads, so that a slow moment of the machine affects all of them.
pub(crate) fn medians<const N: usize>(rounds: usize, works: [&dyn Fn(usize); N]) -> [f64; N] {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..rounds {
        for (work, samples) in works.iter().zip(&mut samples) {
            let start = Instant::now();
            work(round);
            samples.push(start.elapsed().as_secs_f64());
        }
    }
    samples.map(|samples| median(&samples))
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The value that this part of the samples does not exceed.
pub(crate) fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// A text of 4 KB with one unique line.
pub(crate) fn text() -> String {
    let mut text = "line of text\n".repeat(SIZE);
    text.truncate(SIZE - 2);
    text + "A\n"
}

/// The old and the new text of an edit, alternating.
pub(crate) fn swap(round: usize) -> (&'static str, &'static str) {
    if round.is_multiple_of(2) { ("A\n", "B\n") } else { ("B\n", "A\n") }
}

pub(crate) fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}

pub(crate) fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

/// A `str_replace` that alternates by [`swap`].
pub(crate) fn edit(path: &str, round: usize) -> Value {
    let (old, new) = swap(round);
    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
}

pub(crate) fn rename(old_path: &str, new_path: &str) -> Value {
    json!({"command": "rename", "old_path": old_path, "new_path": new_path})
}

pub(crate) fn delete(path: &str) -> Value {
    json!({"command": "delete", "path": path})
}

/// A directory on the disk: the temporary directory may be in RAM, where flushing is free.
pub(crate) fn target_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// A figure of the memory of a process in bytes, if the system reports it.
pub(crate) fn memory(process: &str, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"))?;
    Some(kilobytes.trim().parse::<f64>().ok()? * 1_024.0)
}
