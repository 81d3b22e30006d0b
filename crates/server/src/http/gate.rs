//! [`Gate`]: the tokens, the names and the limits of the server, which each request passes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use memory_tool::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Caller;
#[cfg(feature = "mcp")]
use crate::access::issuer::Resource;
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
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) hosts: Hosts,
    /// `/mcp`, if it accepts tokens of an identity provider.
    #[cfg(feature = "mcp")]
    pub(crate) resource: Option<Resource>,
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

#[cfg(feature = "mcp")]
fn resource(options: &ServerOptions) -> io::Result<Option<Resource>> {
    let found = options.resource().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    found.map(|(url, issuer)| Resource::new(url, issuer)).transpose()
}

impl Gate {
    /// The gate of a server at an address. Reads the tokens.
    pub(crate) fn new(options: &ServerOptions, address: &Listen) -> io::Result<Self> {
        let limits = options.limits;
        Ok(Self {
            tokens: Arc::new(Tokens::load(options)?),
            hosts: Hosts::new(address, options),
            #[cfg(feature = "mcp")]
            resource: resource(options)?,
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

#[derive(Debug, Default)]
struct Share {
    permits: usize,
    used: usize,
    tenant: Arc<Tenant>,
}

/// The turns of the requests of a tenant.
#[derive(Debug)]
struct Tenant {
    reads: Arc<Semaphore>,
    processors: Arc<Semaphore>,
}

impl Default for Tenant {
    fn default() -> Self {
        let [reads, processors] = [MAX_READS_OF_TENANT, PROCESSORS].map(|number| Arc::new(Semaphore::new(number)));
        Self { reads, processors }
    }
}

impl Limit {
    fn new(max: usize, max_of_tenant: usize) -> Arc<Self> {
        Arc::new(Self { max, max_of_tenant, used: Mutex::default() })
    }

    fn take(self: &Arc<Self>, name: &Arc<str>, amount: usize) -> Result<Permit, ApiError> {
        let mut used = lock(&self.used);
        let share = used.of_tenants.entry(Arc::clone(name)).or_default();
        share.permits += 1;
        let tenant = Arc::clone(&share.tenant);
        drop(used);
        let mut permit = Permit { limit: Arc::clone(self), name: Arc::clone(name), amount: 0, tenant };
        permit.grow(amount, Excess::Refused).map(|()| permit)
    }
}

/// Whether a request gets more than a limit.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Excess {
    Refused,
    /// The response of a request that changed something is not refused.
    Counted,
}

impl Excess {
    pub(crate) fn of_reply(is_read: bool) -> Self {
        if is_read { Self::Refused } else { Self::Counted }
    }
}

/// A part of a limit, until it is dropped.
#[derive(Debug)]
struct Permit {
    limit: Arc<Limit>,
    /// The name of the tenant.
    name: Arc<str>,
    amount: usize,
    tenant: Arc<Tenant>,
}

impl Permit {
    /// Takes more of the limit.
    ///
    /// # Errors
    /// [`ApiError`] 429 at the limit of the tenant, 503 at that of all, if the excess is refused.
    fn grow(&mut self, more: usize, excess: Excess) -> Result<(), ApiError> {
        let mut used = lock(&self.limit.used);
        let all = used.all.saturating_add(more);
        let Some(share) = used.of_tenants.get_mut(&self.name) else { return Ok(()) };
        let of_tenant = share.used.saturating_add(more);
        let can_be_refused = more > 0 && excess == Excess::Refused;
        if can_be_refused && of_tenant > self.limit.max_of_tenant {
            return Err(ApiError::too_many_requests());
        }
        if can_be_refused && all > self.limit.max {
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
        let mut used = lock(&self.limit.used);
        used.all -= self.amount;
        if let Some(share) = used.of_tenants.get_mut(&self.name) {
            share.used -= self.amount;
            share.permits -= 1;
            if share.permits == 0 {
                used.of_tenants.remove(&self.name);
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
        self.bytes.grow(length.saturating_sub(UNCOUNTED + self.bytes.amount), Excess::Refused)
    }

    /// Counts the request as running, once its body has arrived.
    pub(crate) fn run(self, gate: &Gate, token: &str, busy: Option<Busy>) -> Result<Running, ApiError> {
        let running = gate.running.take(&self.request.name, 1)?;
        let tenant = Arc::clone(&running.tenant);
        let held = Held { request: vec![self.request, running], bytes: self.bytes, replied: 0 };
        Ok(Running { held: Mutex::new(held), tenant, token: token.into(), busy })
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Running {
    held: Mutex<Held>,
    tenant: Arc<Tenant>,
    token: Arc<str>,
    busy: Option<Busy>,
}

#[derive(Debug)]
struct Held {
    request: Vec<Permit>,
    bytes: Permit,
    /// The bytes of the response that are counted.
    replied: usize,
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
        Arc::clone(&self.tenant.processors)
    }

    /// Waits until few requests of the tenant read files.
    pub(crate) async fn wait_to_read(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.tenant.reads).acquire_owned().await.ok()
    }

    /// Counts a response that now has this length.
    pub(crate) fn count_reply(&self, length: usize, excess: Excess) -> Result<(), ApiError> {
        let mut held = lock(&self.held);
        let more = length.saturating_sub(UNCOUNTED + held.replied);
        held.bytes.grow(more, excess)?;
        held.replied += more;
        Ok(())
    }

    /// Counts the request as a stream of notifications instead, because it lasts until the client ends it.
    pub(crate) fn become_stream(&self, gate: &Gate) -> Result<(), ApiError> {
        let mut held = lock(&self.held);
        held.request = vec![gate.streams.take(&held.bytes.name, 1)?];
        self.busy.iter().for_each(|busy| busy.change(Activity::Notifying));
        Ok(())
    }
}
