//! Tests of the policies.

#![cfg(test)]

mod audit;
mod cases;
mod combinations;
mod corpus;
mod everyday;
mod expiry;
mod limits;
mod mounts;
mod observation;
mod scopes;
mod screening;
mod support;
