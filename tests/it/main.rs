//! Tests of several crates.

#![cfg(test)]

mod actors;
mod auto_traits;
mod differential;
mod forget;
mod history_policies;
mod languages;
mod memories;
mod migration;
mod open;
mod options;
mod paging;
mod readme;
mod sync;
mod times;
