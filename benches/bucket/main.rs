//! Measures the requests and bytes of the store in a bucket. See `README.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod commands;
#[path = "../measure.rs"]
mod measure;
#[path = "../report.rs"]
mod report;
mod site;
mod texts;
mod usage;

use memory_tool_test_servers::S3Server;

use crate::measure::{Amount, target_directory};
use crate::site::Site;

fn main() {
    let rounds = match Amount::from_arguments() {
        Amount::Quick => 20,
        Amount::Usual => 50,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    report::print_machine(&target_directory(), &[]);
    let site = Site::new(S3Server::start().unwrap());
    runtime.block_on(commands::print(&site, rounds));
}
