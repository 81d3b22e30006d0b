//! Whole clusters of sessions, collectors and repairs of one memory in a bucket, in one thread, under a simulated clock
//! and a simulated object store. All random numbers come from one seed, which repeats a run.
//!
//! Each run has two parts, with an event between them. After each part, the replies must be
//! linearizable, the history must have one entry for each change, and the store must be intact.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod bucket;
mod checks;
mod cluster;
mod plan;
mod random;
mod session;
mod start;

pub use cluster::{Run, Stats, simulate};
