//! [`Proxy`]: counts requests and injects faults between a server and its clients.

mod fault;
mod message;
mod plan;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::background::Background;
use crate::error::Error;
pub use fault::{Fault, Refusal};
use message::{Head, Response};
pub(crate) use plan::Plan;
pub use plan::{Faults, Requests};

/// A request that the proxy received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// The method.
    pub method: String,
    /// The path and query.
    pub target: String,
    /// The injected fault.
    pub fault: Option<Fault>,
    /// The status of the server's response, even if the client did not receive it. `None` if the server has not
    /// responded.
    pub status: Option<u16>,
    /// The length of the request's body, or 0 if the proxy did not read all of it.
    pub request_bytes: usize,
    /// The length of the body of the server's response, even if the client did not receive it.
    pub response_bytes: usize,
}

/// An HTTP/1.1 proxy for one server, on a free port of the loopback address.
///
/// 1. The proxy forwards requests and responses unchanged, including the `Host` header, which signatures cover.
/// 2. It records each request before forwarding it, so the count is exact when the client has the response.
/// 3. Faults of [`Proxy::fault_at`] take precedence over faults of [`Proxy::fault_at_random`].
/// 4. Each request uses a separate connection to the server, so a fault affects only one request.
#[derive(Debug)]
pub struct Proxy {
    background: Background,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    records: Vec<Record>,
    /// The number of records that were taken, so that a request in progress finds its record.
    taken: usize,
    /// The number of requests that are sent to the server later.
    late: usize,
}

impl Proxy {
    /// Starts a proxy for the server at `url`.
    ///
    /// # Errors
    /// If `url` does not have the form `http://address:port`, or the proxy cannot listen.
    pub fn start(url: &str) -> Result<Self, Error> {
        let server = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let server: SocketAddr = server.ok_or_else(|| Error::Address(url.to_owned()))?;
        let state = Arc::default();
        let shared = Arc::clone(&state);
        let background = Background::start(move |client| {
            let state = Arc::clone(&shared);
            async move {
                // Ignores broken connections.
                let _ = serve(client, server, &state).await;
            }
        })?;
        Ok(Self { background, state })
    }

    /// The URL of the proxy: `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        self.background.url()
    }

    /// Injects a fault into the `n`-th matching request from now on, counted from 1.
    pub fn fault_at(&self, requests: Requests, n: usize, fault: Fault) {
        lock(&self.state).plan.add(requests, n, fault);
    }

    /// Injects a fault into the next matching request. After that, the server still processes requests that match
    /// `silenced`, but they get no response until [`Proxy::withdraw_exact`].
    pub fn fault_and_silence(&self, requests: Requests, fault: Fault, silenced: Requests) {
        lock(&self.state).plan.add_with_silence(requests, fault, silenced);
    }

    /// Injects random faults from now on. Replaces earlier random faults.
    pub fn fault_at_random(&self, faults: Faults) {
        lock(&self.state).plan.randomize(faults);
    }

    /// Cancels all faults of [`Proxy::fault_at`] and [`Proxy::fault_and_silence`].
    pub fn withdraw_exact(&self) {
        lock(&self.state).plan.withdraw_exact();
    }

    /// Cancels all faults.
    pub fn heal(&self) {
        lock(&self.state).plan = Plan::default();
    }

    /// Returns the requests so far, in order of arrival.
    pub fn records(&self) -> Vec<Record> {
        lock(&self.state).records.clone()
    }

    /// Returns the requests so far, and clears the record.
    pub fn take_records(&self) -> Vec<Record> {
        let mut state = lock(&self.state);
        state.taken += state.records.len();
        std::mem::take(&mut state.records)
    }

    /// Returns the number of delayed and repeated requests that the server has not processed yet.
    pub fn late(&self) -> usize {
        lock(&self.state).late
    }

    /// Counts the matching requests in the record.
    pub fn count(&self, requests: &Requests) -> usize {
        lock(&self.state).records.iter().filter(|record| requests.include(record)).count()
    }
}

impl State {
    /// Records a request. Returns its number and its fault.
    fn record(&mut self, head: &Head) -> (usize, Option<Fault>) {
        let fault = self.plan.next(&head.method, &head.target);
        self.records.push(Record {
            method: head.method.clone(),
            target: head.target.clone(),
            fault,
            status: None,
            request_bytes: 0,
            response_bytes: 0,
        });
        (self.taken + self.records.len() - 1, fault)
    }

    /// Completes the record of a request, unless it was taken.
    fn update(&mut self, number: usize, update: impl FnOnce(&mut Record)) {
        if let Some(record) = number.checked_sub(self.taken).and_then(|index| self.records.get_mut(index)) {
            update(record);
        }
    }
}

/// Locks the state. It is consistent after a panic, because each change is a single step.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection until either side or a fault ends it.
async fn serve(client: TcpStream, server: SocketAddr, state: &Arc<Mutex<State>>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    while let Some(head) = message::read_request_head(&mut client).await? {
        let (number, fault) = lock(state).record(&head);
        if fault == Some(Fault::CutRequest) {
            message::read_half(&mut client, &head).await?;
            return Ok(());
        }
        let request = message::read_request(&mut client, &head).await?;
        lock(state).update(number, |record| record.request_bytes = request.len() - head.length());
        let mut late = None;
        match fault {
            Some(Fault::Swallow) => return wait_for_end(&mut client).await,
            Some(Fault::RefuseBefore(refusal)) => {
                client.write_all(&refusal.response(&head.method)).await?;
                continue;
            }
            Some(Fault::DelayRequest(delay)) => {
                late = Some(Late::new(state));
                tokio::time::sleep(delay).await;
            }
            Some(Fault::RepeatRequest(delay)) => {
                tokio::spawn(repeat(server, head.clone(), request.clone(), delay, Late::new(state)));
            }
            _ => (),
        }
        let response = forward(server, &head, &request).await?;
        lock(state).update(number, |record| {
            record.status = Some(response.status);
            record.response_bytes = response.body_length();
        });
        drop(late);
        if !send_response(&mut client, &head, response, fault).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn forward(server: SocketAddr, head: &Head, request: &[u8]) -> io::Result<Response> {
    let mut server = BufReader::new(TcpStream::connect(server).await?);
    server.get_ref().set_nodelay(true)?;
    // Avoids TIME_WAIT, because thousands of connections would exhaust the ports.
    server.get_ref().set_zero_linger()?;
    server.write_all(request).await?;
    message::read_response(&mut server, &head.method).await
}

/// Sends a request after a delay, also if the client has disconnected.
async fn repeat(server: SocketAddr, head: Head, request: Vec<u8>, delay: Duration, late: Late) {
    tokio::time::sleep(delay).await;
    let _ = forward(server, &head, &request).await;
    drop(late);
}

/// A request that the server has not processed yet, although its client may have disconnected.
struct Late(Arc<Mutex<State>>);

impl Late {
    fn new(state: &Arc<Mutex<State>>) -> Self {
        lock(state).late += 1;
        Self(Arc::clone(state))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        lock(&self.0).late -= 1;
    }
}

/// Sends the response, or a fault, to the client. Returns whether the connection stays open.
async fn send_response(
    client: &mut BufReader<TcpStream>,
    head: &Head,
    response: Response,
    fault: Option<Fault>,
) -> io::Result<bool> {
    match fault {
        Some(Fault::CloseUnanswered) => return Ok(false),
        Some(Fault::ResetUnanswered) => return client.get_ref().set_zero_linger().map(|()| false),
        Some(Fault::Hang) => return wait_for_end(client).await.map(|()| false),
        Some(Fault::CutAnswer) => return client.write_all(response.half()).await.map(|()| false),
        Some(Fault::RefuseAfter(refusal)) => {
            return client.write_all(&refusal.response(&head.method)).await.map(|()| true);
        }
        Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
        Some(
            Fault::CutRequest
            | Fault::Swallow
            | Fault::DelayRequest(_)
            | Fault::RepeatRequest(_)
            | Fault::RefuseBefore(_),
        )
        | None => (),
    }
    client.write_all(&response.bytes).await?;
    Ok(head.keeps_open && response.keeps_open)
}

/// Waits until the client disconnects.
async fn wait_for_end(client: &mut BufReader<TcpStream>) -> io::Result<()> {
    client.read(&mut [0]).await.map(drop)
}
