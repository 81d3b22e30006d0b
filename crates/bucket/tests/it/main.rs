//! Tests of the store in a bucket in memory.

#![cfg(test)]

mod archives;
mod checkpoints;
mod collector;
mod concurrency;
#[cfg(all(feature = "s3", feature = "gcs"))]
mod credentials;
mod damage;
mod deadlines;
mod edits;
mod fairness;
mod gc;
mod groups;
mod limits;
mod log;
mod opening;
mod other_prefixes;
mod outcomes;
mod repair;
mod requests;
mod round_trips;
mod support;
