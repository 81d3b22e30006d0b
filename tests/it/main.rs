//! Tests of several crates.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod auto_traits;
mod differential;
mod migration;
mod open;
mod paging;
mod readme;
