//! Clients of MCP and memory tools of other projects. The full and long tiers run these tests, because they may
//! download packages.

#![cfg(test)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod drivers;
mod mcp_clients;
#[path = "../it/server.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod server;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_tool_test_fixtures::Tier;
use memory_tool_test_fixtures::faults::trial;

fn main() -> ExitCode {
    let compare: fn() = drivers::drivers_reply_as_the_comparison_reports;
    let is_long = Tier::current() >= Tier::Long;
    let comparison = trial("drivers_reply_as_the_comparison_reports", is_long, "the long tier", compare);
    let tests: [(&str, fn()); 5] = [
        ("mcp_conformance_suite_passes", mcp_clients::conformance_suite_passes),
        ("mcp_inspector_finds_no_mistake", mcp_clients::inspector_finds_no_mistake),
        ("mcp_python_client_works", mcp_clients::python_client_works),
        ("mcp_over_http_passes_the_suite_of_memory_tools", mcp_clients::http_passes_the_suite_of_memory_tools),
        ("mcp_server_passes_the_suite_of_memory_tools", mcp_clients::server_passes_the_suite_of_memory_tools),
    ];
    let is_full = Tier::current() >= Tier::Full;
    let trials = tests.map(|(name, test)| trial(name, is_full, "the full tier", test));
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().chain([comparison]).collect()).exit_code()
}
