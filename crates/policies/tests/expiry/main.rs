//! Files that nobody uses expire, and no others do.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "background")]
mod background;
mod checks;
mod costs;
mod harness;
mod interleaving;
mod interruption;
mod model;
#[path = "../support/mod.rs"]
mod support;
