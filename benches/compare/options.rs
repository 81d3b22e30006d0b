//! The command line.

use std::env;
use std::path::PathBuf;

use crate::contestant::Contestant;

const USAGE: &str =
    "usage: cargo bench -p memory-tool-bench --bench compare -- [--quick|--full] [--dir DIR] [--out DIR]
  --quick    fewer rounds: about 2 minutes in place of 5 to 10
  --full     stores of up to 1,000,000 files
  --dir DIR  the directory to measure in, on a real disk; default: target/tmp
  --out DIR  the directory for compare.md, compare.json and compare.svg; default: target/compare
Relative directories start at benches/.";

/// How the program was started.
pub(crate) enum Invocation {
    Compare(Options),
    /// By the comparison, as the process of one contestant.
    Worker {
        contestant: Contestant,
        base: PathBuf,
    },
}

pub(crate) struct Options {
    pub(crate) amount: Amount,
    pub(crate) directory: PathBuf,
    pub(crate) output: PathBuf,
}

/// How much is measured.
pub(crate) struct Amount {
    pub(crate) rounds: usize,
    pub(crate) concurrent_rounds: usize,
    /// The numbers of files of the growing stores.
    pub(crate) growth: Vec<usize>,
}

impl Amount {
    fn new(rounds: usize, concurrent_rounds: usize, largest: usize) -> Self {
        let growth = (2..).map(|exponent| 10_usize.pow(exponent)).take_while(|files| *files <= largest);
        Self { rounds, concurrent_rounds, growth: growth.collect() }
    }
}

pub(crate) fn parse() -> Result<Invocation, String> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let output = target.join("../compare");
    let mut options = Options { amount: Amount::new(20, 8, 100_000), directory: target, output };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--bench" => {} // passed by cargo
            "--quick" => options.amount = Amount::new(4, 1, 10_000),
            "--full" => options.amount = Amount::new(20, 8, 1_000_000),
            "--dir" => options.directory = value()?.into(),
            "--out" => options.output = value()?.into(),
            "--help" => return Err(USAGE.to_owned()),
            "worker" => {
                let name = value()?;
                let contestant = Contestant::named(&name).ok_or_else(|| format!("no contestant is named {name}"))?;
                return Ok(Invocation::Worker { contestant, base: value()?.into() });
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}")),
        }
    }
    Ok(Invocation::Compare(options))
}
