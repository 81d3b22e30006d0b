//! Tests on servers of S3, Google Cloud Storage and Azure, and a model of the bucket protocol.

#![cfg(test)]

#[cfg(unix)]
mod bridge;
mod contention;
#[cfg(unix)]
mod errors;
mod layer_cases;
mod model;
#[cfg(unix)]
mod program;
mod requests;
