//! Checks that the servers meet the assumptions of the object-store tests, with the same client.

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

/// No retries, because they hide faults.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// A few retries, without long pauses.
fn few_retries() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(5), ..BackoffConfig::default() };
    RetryConfig { max_retries: 4, backoff, ..RetryConfig::default() }
}
