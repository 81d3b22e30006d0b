//! [`Service`]: the state that all handlers share.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::{Activity, Busy};
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
    pub(crate) sessions: Arc<Sessions>,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: crate::mcp::Mcp,
    requests: Arc<Limit>,
    bodies_kib: Arc<Semaphore>,
    streams: Arc<Limit>,
    /// Whether the server is ending.
    ending: tokio::sync::watch::Sender<bool>,
}

impl Service {
    /// The service at an address. Reads the tokens.
    pub(crate) fn new(options: &ServerOptions, address: &Listen, metrics: Option<Metrics>) -> io::Result<Self> {
        let limits = options.limits;
        Ok(Self {
            memories: Memories::new(options),
            tokens: Tokens::load(options.tokens.clone())?,
            hosts: Hosts::new(address, &options.allow_hosts, options.tls.is_some()),
            proxies: Proxies(options.proxies.clone()),
            limits,
            metrics,
            token_file: options.tokens.clone(),
            sessions: Arc::new(Sessions::load(&options.tokens, address)),
            #[cfg(feature = "mcp")]
            mcp: crate::mcp::Mcp::new(&options.memory).separate_tools(options.separate_tools),
            requests: Limit::new(limits.requests, limits.requests_of_token),
            bodies_kib: Arc::new(Semaphore::new(MAX_BODIES_KIB)),
            streams: Limit::new(limits.streams, limits.streams_of_token),
            ending: tokio::sync::watch::Sender::default(),
        })
    }

    /// Counts a request with the token of this id until the result is dropped.
    pub(crate) fn begin(&self, token: &str) -> Result<Permit, ApiError> {
        self.requests.take(token)
    }

    /// Ends all streams of notifications.
    pub(crate) fn end_streams(&self) {
        self.ending.send_replace(true);
    }

    /// Completes when the streams with the token of this id must end.
    pub(crate) async fn streams_ended(&self, token: &str) {
        tokio::select! {
            () = self.tokens.ended(token) => {}
            _ = async { self.ending.subscribe().wait_for(|is_ending| *is_ending).await.map(drop) } => {}
        }
    }
}

/// A limit on all tokens together, and on each.
#[derive(Debug)]
struct Limit {
    all: Arc<Semaphore>,
    max_of_token: usize,
    of_tokens: Mutex<HashMap<Arc<str>, usize>>,
}

impl Limit {
    fn new(max: usize, max_of_token: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(max)), max_of_token, of_tokens: Mutex::default() })
    }

    fn take(self: &Arc<Self>, token: &str) -> Result<Permit, ApiError> {
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| ApiError::busy())?;
        let mut of_tokens = self.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token: Arc<str> = token.into();
        let count = of_tokens.entry(Arc::clone(&token)).or_default();
        if *count >= self.max_of_token {
            return Err(ApiError::too_many_requests());
        }
        *count += 1;
        Ok(Permit { limit: Arc::clone(self), token, body: None, _permit: permit })
    }
}

/// A part of a limit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<Limit>,
    token: Arc<str>,
    body: Option<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

impl Permit {
    /// Counts a body that now has this length.
    pub(crate) fn count_body(&mut self, service: &Service, bytes: usize) -> Result<(), ApiError> {
        let held = self.body.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(1024).saturating_sub(UNCOUNTED_KIB + held);
        let more = u32::try_from(more).map_err(|_| ApiError::busy())?;
        let permit = Arc::clone(&service.bodies_kib).try_acquire_many_owned(more).map_err(|_| ApiError::busy())?;
        match &mut self.body {
            Some(body) => body.merge(permit),
            None => self.body = Some(permit),
        }
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut of_tokens = self.limit.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = of_tokens.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                of_tokens.remove(&self.token);
            }
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Running {
    permit: Mutex<Permit>,
    busy: Option<Busy>,
}

impl Running {
    pub(crate) fn new(permit: Permit, busy: Option<Busy>) -> Self {
        Self { permit: Mutex::new(permit), busy }
    }

    /// The id of the token.
    pub(crate) fn token(&self) -> Arc<str> {
        Arc::clone(&self.permit.lock().unwrap_or_else(PoisonError::into_inner).token)
    }

    /// Counts the request as a stream of notifications instead, because it lasts until the client ends it.
    pub(crate) fn become_stream(&self, service: &Service) -> Result<(), ApiError> {
        let stream = service.streams.take(&self.token())?;
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = stream;
        self.busy.iter().for_each(|busy| busy.change(Activity::Notifying));
        Ok(())
    }
}
