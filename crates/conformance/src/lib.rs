#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod case;
mod cases;
mod clause;
mod command_line;
mod disk;
mod disk_event;
mod exclusive_store;
mod failure;
mod faults;
mod fixture;
mod program;
mod read_back;
mod report;
mod sandbox;
mod serve;
mod session;
mod store_call;
#[doc(hidden)]
pub mod strace;
mod suite;
mod target;
mod time_limit;
mod vectors;

pub use case::{Basis, Capability, Case};
pub use clause::Clause;
pub use command_line::{CommandLine, InvalidCommandLine};
pub use failure::{Difference, Failure};
pub use faults::Fault;
pub use fixture::{BackendFixture, FixtureError, ToolOptions};
pub use report::{CaseResult, Outcome, Report, Totals};
pub use serve::{serve, serve_store};
pub use suite::{DEFAULT_ANSWER_TIMEOUT, DEFAULT_CASE_TIMEOUT, DEFAULT_RACES, Progress, Suite};
