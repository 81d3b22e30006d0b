//! The command line.

use std::env;
use std::path::PathBuf;

use crate::worker::Job;

const USAGE: &str = "usage: cargo bench -p memory-tool-bench --bench bucket -- [--quick|--full] [--out DIR]
  --quick    fewer rounds and a smaller import
  --full     also a store of 1,000,000 files
  --out DIR  the directory for bucket.md and bucket.json; default: target/bucket
A relative directory starts at benches/.";

/// How the program was started.
pub(crate) enum Invocation {
    Measure(Options),
    /// By the benchmark, as a process that uses the store at a URL.
    Worker {
        url: String,
        job: Job,
    },
}

pub(crate) struct Options {
    /// The number of calls of each command.
    pub(crate) rounds: usize,
    /// The numbers of files of the growing stores.
    pub(crate) growth: Vec<usize>,
    pub(crate) imported: usize,
    /// How long the writers write.
    pub(crate) seconds: f64,
    pub(crate) output: PathBuf,
}

pub(crate) fn parse() -> Result<Invocation, String> {
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../bucket");
    let mut options = Options { rounds: 50, growth: vec![200, 10_000], imported: 10_000, seconds: 10.0, output };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--bench" => {} // passed by cargo
            "--quick" => options = Options { rounds: 20, imported: 1_000, seconds: 4.0, ..options },
            "--full" => options.growth.push(1_000_000),
            "--out" => options.output = value()?.into(),
            "--help" => return Err(USAGE.to_owned()),
            "worker" => {
                let (url, job) = (value()?, value()?);
                let job = serde_json::from_str(&job).map_err(|error| error.to_string())?;
                return Ok(Invocation::Worker { url, job });
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}")),
        }
    }
    Ok(Invocation::Measure(options))
}
