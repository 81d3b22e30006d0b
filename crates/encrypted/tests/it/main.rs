//! Tests of the encrypted store.

#![cfg(test)]

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
