//! PostgreSQL stores: opening, rights, lost connections and round trips.

#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod opening;
mod outages;
mod round_trips;
mod support;
