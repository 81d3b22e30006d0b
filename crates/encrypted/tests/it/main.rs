//! Tests of the encrypted store.

#![cfg(test)]

mod concurrency;
mod inner_store;
mod keys;
mod labels;
mod leaks;
mod opening;
mod rekey;
mod support;
mod tamper;
mod versions;
