//! Measures the requests, bytes, prices and concurrent edits of the store in a bucket. See `README.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod commands;
mod growth;
mod import;
#[path = "../measure.rs"]
mod measure;
#[path = "../process.rs"]
mod process;
#[path = "../report.rs"]
mod report;
mod site;
mod texts;
mod usage;
mod worker;
mod writers;

use std::env;
use std::time::Duration;

use memory_tool_test_servers::{GcsServer, S3Server};

use crate::measure::{Amount, target_directory};
use crate::site::Site;
use crate::usage::{PRICE_DATE, READ_PRICE, WRITE_PRICE};

/// The delay of each response of a distant server.
const DISTANCE: Duration = Duration::from_millis(20);
/// The shortest time between two writes to one object that Google Cloud Storage accepts.
const PAUSE: Duration = Duration::from_secs(1);

fn main() {
    let arguments: Vec<_> = env::args().collect();
    if let [_, worker::ARGUMENT, url, job] = &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        return worker::run(url, &serde_json::from_str(job).unwrap());
    }
    let amount = Amount::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure(&amount));
}

async fn measure(amount: &Amount) {
    let (rounds, imported, seconds) = match amount {
        Amount::Quick => (20, 1_000, 4.0),
        Amount::Usual | Amount::Full => (50, 10_000, 10.0),
    };
    let largest: &[usize] = if let Amount::Full = amount { &[1_000_000] } else { &[] };
    report::print_machine(&target_directory(), &[]);
    println!(
        "Prices in US dollars per million, by the list prices of {PRICE_DATE}, which are the same for S3 Standard \
         (us-east-1) and GCS Standard: `PUT`, `POST` and `LIST` {WRITE_PRICE:.2}, `GET` and `HEAD` {READ_PRICE:.2}, \
         `DELETE` free. The commands, edits and imports are on S3.\n"
    );
    let site = Site::new(S3Server::start().unwrap());
    commands::print(&site, rounds).await;
    growth::print(&site, &[&[200, 10_000], largest].concat()).await;
    import::print(&site, imported).await;
    let distant = Site::new(GcsServer::start().unwrap()).delayed(DISTANCE);
    println!("Concurrent edits of separate files on GCS, with {DISTANCE:?} of latency:\n");
    writers::print(&distant, seconds).await;
    let throttled = Site::new(GcsServer::start_with_pause(PAUSE).unwrap()).delayed(DISTANCE);
    println!("The same, with at most one write to an object in {PAUSE:?}:\n");
    writers::print_throttled(&throttled, seconds).await;
}
