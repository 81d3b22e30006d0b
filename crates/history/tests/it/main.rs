//! Tests of the history.

#![cfg(test)]

mod cases;
mod copy;
mod log;
mod model;
mod redacted_changes;
mod text_redaction;
mod writers;
