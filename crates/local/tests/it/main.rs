//! Tests of the local store.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(unix)]
mod cached_reads;
mod capacity;
mod concurrency;
#[cfg(unix)]
mod foreign;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod interference;
#[cfg(target_os = "linux")]
mod large_files;
mod log;
mod many_stores;
#[cfg(unix)]
mod modes;
mod open_modes;
mod records;
mod support;
