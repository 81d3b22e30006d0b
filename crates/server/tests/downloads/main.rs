//! The Memory Stores API by the official SDKs. The full and long tiers run these tests, because they may download
//! packages.

#![cfg(test)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod page;
mod sdks;
#[path = "../api/server.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod server;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_tool_test_fixtures::Tier;
use memory_tool_test_fixtures::faults::trial;

fn main() -> ExitCode {
    let tests: [(&str, fn()); 4] = [
        ("python_sdk_works", sdks::python_works),
        ("typescript_sdk_works", sdks::typescript_works),
        ("the_page_works_in_a_browser", page::the_page_works_in_a_browser),
        ("tabs_and_texts_survive_in_a_browser", page::tabs_and_texts_survive_in_a_browser),
    ];
    let is_full = Tier::current() >= Tier::Full;
    let trials = tests.map(|(name, test)| trial(name, is_full, "the full tier", test));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}
