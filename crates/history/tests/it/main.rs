//! Tests of the history.

#![cfg(test)]

mod log;
mod model;
