//! Tests of the encrypted store.

#![cfg(test)]

mod beneath;
mod concurrency;
mod keys;
mod leaks;
mod naming;
mod opening;
mod rekey;
mod support;
mod tamper;
mod versions;
