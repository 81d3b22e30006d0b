//! Tests of the store in a bucket that is in this process.

#![cfg(test)]

mod concurrency;
mod credentials;
mod gc;
mod limits;
mod opening;
mod outcomes;
mod requests;
mod support;
