//! Measures the requests, bytes, prices and concurrent edits of the store in a bucket. See `README.md`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod commands;
mod growth;
mod import;
#[path = "../compare/machine.rs"]
mod machine;
mod options;
mod report;
mod results;
mod site;
mod texts;
mod usage;
mod worker;
mod writers;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use memory_tool_test_servers::{GcsServer, S3Server};

use crate::options::{Invocation, Options};
use crate::results::Results;
use crate::site::Site;

/// The delay of each response of a distant server.
const DISTANCE: Duration = Duration::from_millis(20);
/// The shortest time between two writes to one object that Google Cloud Storage accepts.
const PAUSE: Duration = Duration::from_secs(1);

fn main() {
    match options::parse() {
        Ok(Invocation::Worker { url, job }) => worker::run(&url, &job),
        Ok(Invocation::Measure(options)) => measure(&options),
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(2);
        }
    }
}

fn measure(options: &Options) {
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let results = runtime.block_on(run(options, start));
    let machine = machine::describe(Path::new(env!("CARGO_MANIFEST_DIR")));
    let markdown = report::markdown(&machine, &results);
    println!("{markdown}");
    fs::create_dir_all(&options.output).unwrap();
    fs::write(options.output.join("bucket.md"), markdown).unwrap();
    fs::write(options.output.join("bucket.json"), report::json(&machine, &results)).unwrap();
    let output = options.output.canonicalize().unwrap();
    eprintln!("{:.0?}; wrote bucket.md and bucket.json to {}", start.elapsed(), output.display());
}

async fn run(options: &Options, start: Instant) -> Results {
    let progress = |section| eprintln!("{:>5.0?} {section}", start.elapsed());
    let site = Site::new(S3Server::start().unwrap());
    progress("commands");
    let commands = commands::measure(&site, options.rounds).await;
    let mut growth = Vec::new();
    for &files in &options.growth {
        progress("growth");
        growth.push(growth::measure(&site, files).await);
    }
    progress("import");
    let import = import::measure(&site, options.imported).await;
    progress("writers");
    let distant = Site::new(GcsServer::start().unwrap()).delayed(DISTANCE);
    let writers = writers::measure(&distant, options.seconds).await;
    progress("writers with one write per second and object");
    let throttled = Site::new(GcsServer::start_with_pause(PAUSE).unwrap()).delayed(DISTANCE);
    let throttled = writers::measure_throttled(&throttled, options.seconds).await;
    Results { commands, growth, import, writers, throttled }
}
