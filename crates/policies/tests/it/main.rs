//! Tests of the policies.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod cases;
mod combinations;
mod corpus;
mod expiry;
mod limits;
mod mounts;
mod observation;
mod scopes;
mod screening;
mod support;
