//! The native module of the Python package `memory-tool`: Python's side of the crate `memory-tool`.
//!
//! The classes that programs use are in `python/memory_tool`, and call this module.

mod conformance;
mod errors;
mod memory;
mod opening;
mod queue;
mod raised;
mod runtime;
mod store;
mod tool;
mod watch;

use std::ffi::OsString;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python gives it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use super::conformance::{cases, run_conformance};
    #[pymodule_export]
    use super::errors::RejectedPath;
    #[pymodule_export]
    use super::memory::NativeMemory;
    #[pymodule_export]
    use super::opening::{memories, open, start_memories, start_open};
    #[pymodule_export]
    use super::queue::{Place, Queue, parse_command};
    #[pymodule_export]
    use super::raised::describe;
    #[pymodule_export]
    use super::run_program;
    #[pymodule_export]
    use super::runtime::{Call, shut_down};
    #[pymodule_export]
    use super::store::{Answer, Batch, ReadOptions, replace_prefix};
    #[pymodule_export]
    use super::watch::NativeWatch;
}

/// Runs the program `memory-tool` with these arguments, the name of the program included. Returns its exit status.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| memory_tool_cli::run(arguments))
}
