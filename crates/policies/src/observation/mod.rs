//! What a tool and its store do, for the operator: spans and events of [`tracing`], and metrics by the feature `metrics`. Which,
//! the page of the crate says.

mod record;
mod store;
mod tool;

pub use store::ObservedStore;
pub use tool::ObservedTool;
