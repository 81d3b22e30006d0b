//! The servers do what the tests of the object-store backend take for granted, seen by the client that it uses.

#![cfg(test)]

#[cfg(unix)]
mod azure;
mod contract;
mod gcs;
mod proxy;
#[cfg(unix)]
mod s3;

use std::time::Duration;

use object_store::{BackoffConfig, RetryConfig};

/// No retries, which would hide what a server or a proxy does.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// A few retries, without long pauses.
fn patient() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(5), ..BackoffConfig::default() };
    RetryConfig { max_retries: 4, backoff, ..RetryConfig::default() }
}
