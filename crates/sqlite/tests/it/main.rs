//! Tests of the SQLite store.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cached_reads;
mod concurrency;
mod damage;
mod displaced;
mod hostile;
mod isolation;
mod modes;
mod opening;
mod records;
mod support;
