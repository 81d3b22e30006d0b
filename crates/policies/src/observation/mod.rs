//! What a tool and its store do, for the operator: spans and events of [`tracing`], and metrics by the feature `metrics`. Which,
//! the page of the crate says.

mod names;
mod record;
mod store;
mod tool;

pub(crate) use names::{name_of_store_error, outcome_of_command, outcome_of_operation};
pub(crate) use record::Outcome;
pub use store::ObservedStore;
pub use tool::ObservedTool;
