//! The tool as the Messages API sees it: its definition, calls and results.

pub(crate) mod context_editing;
pub(crate) mod runner;
pub(crate) mod wire;
