//! Tests of the store in a bucket that is in this process.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod concurrency;
mod credentials;
mod gc;
mod limits;
mod opening;
mod outcomes;
mod requests;
mod support;
