//! [`Service`]: the state that all handlers share.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::memories::Memories;
use crate::metrics::Metrics;
use crate::options::{Listen, ServerLimits, ServerOptions};
use crate::page::Sessions;
use crate::proxies::Proxies;
use crate::tokens::Tokens;

/// The bodies of all requests together, and the part of each that is not counted: large bodies must not keep out small
/// ones.
const MAX_BODIES_KIB: usize = 128 * 1024;
const UNCOUNTED_KIB: usize = 64;

/// The pages that wait for changes at the same time.
const MAX_LIVE: usize = 512;

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) memories: Memories,
    pub(crate) tokens: Tokens,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: Proxies,
    pub(crate) limits: ServerLimits,
    /// The metrics of this process, if it has a recorder.
    pub(crate) metrics: Option<Metrics>,
    /// The file that operators change on the page.
    pub(crate) token_file: PathBuf,
    /// The people who signed in on the page.
    pub(crate) sessions: Sessions,
    /// The pages that wait for changes.
    pub(crate) live: Arc<Semaphore>,
    has_tls: bool,
    requests: Semaphore,
    bodies_kib: Semaphore,
    of_tokens: Mutex<HashMap<String, usize>>,
}

impl Service {
    /// The service at an address. Reads the tokens.
    pub(crate) fn new(options: &ServerOptions, address: &Listen, metrics: Option<Metrics>) -> io::Result<Self> {
        Ok(Self {
            memories: Memories::new(options),
            tokens: Tokens::load(options.tokens.clone())?,
            hosts: Hosts::new(address, &options.allow_hosts),
            proxies: Proxies(options.proxies.clone()),
            limits: options.limits,
            metrics,
            token_file: options.tokens.clone(),
            sessions: Sessions::default(),
            live: Arc::new(Semaphore::new(MAX_LIVE)),
            has_tls: options.tls.is_some(),
            requests: Semaphore::new(options.limits.requests),
            bodies_kib: Semaphore::new(MAX_BODIES_KIB),
            of_tokens: Mutex::default(),
        })
    }

    /// Whether the browser of a request uses TLS, as far as is known.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        // A client that claims it only harms its own cookie.
        self.has_tls || headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
    }

    /// Counts a request until the result is dropped.
    pub(crate) fn begin(&self, token: String) -> Result<Running<'_>, ApiError> {
        let permit = self.requests.try_acquire().map_err(|_| ApiError::busy())?;
        let mut of_tokens = self.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let count = of_tokens.entry(token.clone()).or_default();
        if *count >= self.limits.requests_of_token {
            return Err(ApiError::too_many_requests());
        }
        *count += 1;
        Ok(Running { service: self, token, body: None, _permit: permit })
    }
}

/// A request that is being answered.
pub(crate) struct Running<'a> {
    service: &'a Service,
    token: String,
    body: Option<SemaphorePermit<'a>>,
    _permit: SemaphorePermit<'a>,
}

impl Running<'_> {
    /// Counts a body that now has this length.
    pub(crate) fn count_body(&mut self, bytes: usize) -> Result<(), ApiError> {
        let held = self.body.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = bytes.div_ceil(1024).saturating_sub(UNCOUNTED_KIB + held);
        let more = u32::try_from(more).map_err(|_| ApiError::busy())?;
        let permit = self.service.bodies_kib.try_acquire_many(more).map_err(|_| ApiError::busy())?;
        match &mut self.body {
            Some(body) => body.merge(permit),
            None => self.body = Some(permit),
        }
        Ok(())
    }
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
