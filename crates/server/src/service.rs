//! [`Service`]: the state that all handlers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::memories::Memories;
use crate::tokens::Tokens;

/// The concurrent requests of all tokens, and of one.
const MAX_REQUESTS: usize = 256;
const MAX_REQUESTS_OF_TOKEN: usize = 128;

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) memories: Memories,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) hosts: Hosts,
    requests: Semaphore,
    of_tokens: Mutex<HashMap<String, usize>>,
}

impl Service {
    pub(crate) fn new(memories: Memories, tokens: Arc<Tokens>, hosts: Hosts) -> Self {
        Self { memories, tokens, hosts, requests: Semaphore::new(MAX_REQUESTS), of_tokens: Mutex::default() }
    }

    /// Counts a request until the result is dropped.
    pub(crate) fn begin(&self, token: String) -> Result<Running<'_>, ApiError> {
        let permit = self.requests.try_acquire().map_err(|_| ApiError::busy())?;
        let mut of_tokens = self.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let count = of_tokens.entry(token.clone()).or_default();
        if *count >= MAX_REQUESTS_OF_TOKEN {
            return Err(ApiError::too_many_requests());
        }
        *count += 1;
        Ok(Running { service: self, token, _permit: permit })
    }
}

/// A request that is being answered.
pub(crate) struct Running<'a> {
    service: &'a Service,
    token: String,
    _permit: tokio::sync::SemaphorePermit<'a>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut of_tokens = self.service.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = of_tokens.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                of_tokens.remove(&self.token);
            }
        }
    }
}
