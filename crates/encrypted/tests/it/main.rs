//! Tests of the encrypted store.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod concurrency;
mod inner_store;
mod keys;
mod leaks;
mod memory_name;
mod opening;
mod rekey;
mod support;
mod tamper;
mod versions;
