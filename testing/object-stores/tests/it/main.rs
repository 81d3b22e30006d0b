//! Tests on servers of S3, Google Cloud Storage and Azure, and a model of the bucket protocol.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(unix)]
mod bridge;
mod contention;
mod model;
mod opening;
mod policy_cases;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod program_encrypted;
mod requests;
