//! Tests of proposals.

#![cfg(test)]

mod deciding;
mod model;
mod order;
mod races;
