//! Spans and events of [`tracing`], and metrics, for the commands of a tool and the operations of a store.

mod report;
mod store;
mod tool;

pub use store::ObservedStore;
pub use tool::ObservedTool;
