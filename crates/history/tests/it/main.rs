//! Tests of the history.

#![cfg(test)]

mod cases;
mod log;
mod model;
mod redacted_changes;
mod text_redaction;
mod writers;
