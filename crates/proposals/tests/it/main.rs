//! Tests of proposals.

#![cfg(test)]

mod deciding;
