//! [`Gate`]: the tokens, the names and the limits of the server, which each request passes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Caller;
use crate::access::tokens::Tokens;
use crate::http::connections::{Activity, Busy};
use crate::http::error::ApiError;
use crate::http::hosts::Hosts;
use crate::http::offload::PROCESSORS;
use crate::http::proxies::Proxies;
use crate::options::{Listen, ServerLimits, ServerOptions};

/// The bytes of the bodies and responses of all requests together, and of one tenant.
const MAX_BYTES: usize = 128 * 1024 * 1024;
const MAX_BYTES_OF_TENANT: usize = 48 * 1024 * 1024;

/// The bytes of a body or a response that are not counted: large ones must not keep out small ones.
const UNCOUNTED: usize = 64 * 1024;

/// The requests of one tenant that read files at the same time. Others wait, as each file can be large.
const MAX_READS_OF_TENANT: usize = 4;

/// The tokens, the names and the limits of the server.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) tokens: Tokens,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: Proxies,
    pub(crate) limits: ServerLimits,
    /// Requests, also while their bodies arrive.
    begun: Arc<Limit>,
    /// Requests whose body has arrived. A slow body keeps no other request out.
    running: Arc<Limit>,
    bytes: Arc<Limit>,
    streams: Arc<Limit>,
    /// Whether the server is ending.
    ending: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    /// The gate of a server at an address. Reads the tokens.
    pub(crate) fn new(options: &ServerOptions, address: &Listen) -> io::Result<Self> {
        let limits = options.limits;
        Ok(Self {
            tokens: Tokens::load(options.tokens.clone())?,
            hosts: Hosts::new(address, &options.allow_hosts, options.tls.is_some()),
            proxies: Proxies(options.proxies.clone()),
            limits,
            begun: Limit::new(usize::MAX, limits.requests_of_token),
            running: Limit::new(limits.requests, usize::MAX),
            bytes: Limit::new(MAX_BYTES, MAX_BYTES_OF_TENANT),
            streams: Limit::new(limits.streams, limits.streams_of_token),
            ending: tokio::sync::watch::Sender::default(),
        })
    }

    /// Counts a request of a tenant until the result is dropped.
    pub(crate) fn begin(&self, tenant: &Arc<str>) -> Result<Begun, ApiError> {
        Ok(Begun { request: self.begun.take(tenant, 1)?, bytes: self.bytes.take(tenant, 0)? })
    }

    /// Ends all streams of notifications.
    pub(crate) fn end_streams(&self) {
        self.ending.send_replace(true);
    }

    /// Completes when the streams with the token of this id must end.
    pub(crate) async fn streams_ended(&self, token: &str) {
        self.stream_ended(token, |_| true).await;
    }

    /// Completes when a stream with the token of this id must end, also because the token lost what `allows` asks for.
    pub(crate) async fn stream_ended(&self, token: &str, allows: impl Fn(&Caller) -> bool) {
        tokio::select! {
            () = self.tokens.lost(token, allows) => {}
            _ = async { self.ending.subscribe().wait_for(|is_ending| *is_ending).await.map(drop) } => {}
        }
    }
}

/// A limit on all tenants together, and on each. The tokens for the same memories are of one tenant.
#[derive(Debug)]
struct Limit {
    max: usize,
    max_of_tenant: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    of_tenants: HashMap<Arc<str>, Share>,
}

#[derive(Debug)]
struct Share {
    permits: usize,
    used: usize,
    reads: Arc<Semaphore>,
    processors: Arc<Semaphore>,
}

impl Limit {
    fn new(max: usize, max_of_tenant: usize) -> Arc<Self> {
        Arc::new(Self { max, max_of_tenant, used: Mutex::default() })
    }

    fn take(self: &Arc<Self>, tenant: &Arc<str>, amount: usize) -> Result<Permit, ApiError> {
        let mut used = self.lock();
        let share = used.of_tenants.entry(Arc::clone(tenant)).or_insert_with(|| Share {
            permits: 0,
            used: 0,
            reads: Arc::new(Semaphore::new(MAX_READS_OF_TENANT)),
            processors: Arc::new(Semaphore::new(PROCESSORS)),
        });
        share.permits += 1;
        let (reads, processors) = (Arc::clone(&share.reads), Arc::clone(&share.processors));
        drop(used);
        let mut permit = Permit { limit: Arc::clone(self), tenant: Arc::clone(tenant), amount: 0, reads, processors };
        permit.grow(amount).map(|()| permit)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a limit, until it is dropped.
#[derive(Debug)]
struct Permit {
    limit: Arc<Limit>,
    tenant: Arc<str>,
    amount: usize,
    reads: Arc<Semaphore>,
    processors: Arc<Semaphore>,
}

impl Permit {
    /// Takes more of the limit.
    ///
    /// # Errors
    /// [`ApiError`] 429 at the limit of the tenant, 503 at that of all.
    fn grow(&mut self, more: usize) -> Result<(), ApiError> {
        let limit = Arc::clone(&self.limit);
        self.grow_to(more, limit.max, limit.max_of_tenant)
    }

    /// Takes more, also beyond the limit.
    fn grow_anyway(&mut self, more: usize) {
        let _ = self.grow_to(more, usize::MAX, usize::MAX);
    }

    fn grow_to(&mut self, more: usize, max: usize, max_of_tenant: usize) -> Result<(), ApiError> {
        let mut used = self.limit.lock();
        let all = used.all.saturating_add(more);
        let Some(share) = used.of_tenants.get_mut(&self.tenant) else { return Ok(()) };
        let of_tenant = share.used.saturating_add(more);
        if more > 0 && of_tenant > max_of_tenant {
            return Err(ApiError::too_many_requests());
        }
        if more > 0 && all > max {
            return Err(ApiError::busy());
        }
        share.used = of_tenant;
        used.all = all;
        drop(used);
        self.amount += more;
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.limit.lock();
        used.all -= self.amount;
        if let Some(share) = used.of_tenants.get_mut(&self.tenant) {
            share.used -= self.amount;
            share.permits -= 1;
            if share.permits == 0 {
                used.of_tenants.remove(&self.tenant);
            }
        }
    }
}

/// A request whose body may not have arrived.
#[derive(Debug)]
pub(crate) struct Begun {
    request: Permit,
    bytes: Permit,
}

impl Begun {
    /// Counts a body that now has this length.
    pub(crate) fn count_body(&mut self, length: usize) -> Result<(), ApiError> {
        self.bytes.grow(length.saturating_sub(UNCOUNTED + self.bytes.amount))
    }

    /// Counts the request as running, once its body has arrived.
    pub(crate) fn run(self, gate: &Gate, token: &str, busy: Option<Busy>) -> Result<Running, ApiError> {
        let running = gate.running.take(&self.request.tenant, 1)?;
        let (reads, processors) = (Arc::clone(&self.request.reads), Arc::clone(&self.request.processors));
        let (request, bytes) = (Mutex::new(vec![self.request, running]), Mutex::new(self.bytes));
        Ok(Running { request, bytes, replied: Mutex::default(), reads, processors, token: token.into(), busy })
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Running {
    request: Mutex<Vec<Permit>>,
    bytes: Mutex<Permit>,
    /// The bytes of the response that are counted.
    replied: Mutex<usize>,
    reads: Arc<Semaphore>,
    processors: Arc<Semaphore>,
    token: Arc<str>,
    busy: Option<Busy>,
}

impl Running {
    /// The id of the token.
    pub(crate) fn token(&self) -> Arc<str> {
        Arc::clone(&self.token)
    }

    /// The number of the connection.
    #[cfg(feature = "mcp")]
    pub(crate) fn connection(&self) -> Option<u64> {
        self.busy.as_ref().map(Busy::connection)
    }

    /// The processors of the tenant.
    pub(crate) fn processors(&self) -> Arc<Semaphore> {
        Arc::clone(&self.processors)
    }

    /// Waits until few requests of the tenant read files.
    pub(crate) async fn wait_to_read(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reads).acquire_owned().await.ok()
    }

    /// Counts a response that now has this length, also beyond the limits.
    pub(crate) fn count_reply(&self, length: usize) {
        let more = self.more(length);
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).grow_anyway(more);
        *self.replied.lock().unwrap_or_else(PoisonError::into_inner) += more;
    }

    /// Counts the response of a request that changed nothing, so that it can be refused.
    pub(crate) fn count_read(&self, length: usize) -> Result<(), ApiError> {
        let more = self.more(length);
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).grow(more)?;
        *self.replied.lock().unwrap_or_else(PoisonError::into_inner) += more;
        Ok(())
    }

    fn more(&self, length: usize) -> usize {
        length.saturating_sub(UNCOUNTED + *self.replied.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts the request as a stream of notifications instead, because it lasts until the client ends it.
    pub(crate) fn become_stream(&self, gate: &Gate) -> Result<(), ApiError> {
        let tenant = Arc::clone(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner).tenant);
        let stream = gate.streams.take(&tenant, 1)?;
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = vec![stream];
        self.busy.iter().for_each(|busy| busy.change(Activity::Notifying));
        Ok(())
    }
}
