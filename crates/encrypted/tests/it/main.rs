//! Tests of the encrypted store.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod beneath;
mod concurrency;
mod keys;
mod leaks;
mod naming;
mod opening;
mod rekey;
mod support;
mod tamper;
mod versions;
