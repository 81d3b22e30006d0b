//! The steps of the processes: random commands with faults.

use std::time::Duration;

use memory_tool_test_fixtures::linearizability::workload::{change, generate, view};
use memory_tool_test_servers::Fault;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use crate::faults;

/// A step of a process.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) command: Value,
    /// The fault of the change, after which the bucket stops responding.
    pub(crate) lost: Option<Fault>,
}

/// The steps of one process, whose commands have this timeout.
pub(crate) fn steps(seed: u64, count: usize, timeout: Duration) -> Vec<Step> {
    let lost = prop::option::weighted(faults::CHANCE_OF_LOSS, select(faults::losses(timeout)));
    let step = prop_oneof![
        3 => view().prop_map(|command| Step { command, lost: None }),
        7 => (change(), lost).prop_map(|(command, lost)| Step { command, lost }),
    ];
    generate(seed, step, count)
}
