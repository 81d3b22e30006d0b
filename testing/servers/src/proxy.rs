//! [`Proxy`]: counts the requests to a server, and puts faults between it and its clients.

mod fault;
mod message;
mod plan;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::background::Background;
use crate::error::Error;
pub use fault::{Fault, Refusal};
use message::{Answer, Head};
use plan::Plan;
pub use plan::{Faults, Requests};

/// A request that came to the proxy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Its method.
    pub method: String,
    /// Its path and query, as they were sent.
    pub target: String,
    /// What was done to it.
    pub fault: Option<Fault>,
    /// The status that the server answered with, whether or not the client got to see it; `None` while it has not, or where
    /// the request never came to it.
    pub status: Option<u16>,
}

/// A proxy of HTTP/1.1 at a free port of the loopback address, before one server.
///
/// 1. Requests and answers pass byte by byte, the `Host` header included, which signatures cover.
/// 2. Each request of a client is recorded before it is forwarded, so the count is right once the client has its answer.
/// 3. A fault that was asked for with [`Proxy::fault_at`] comes before one of [`Proxy::fault_at_random`].
/// 4. Each request has a connection to the server of its own, so that no fault touches another request.
#[derive(Debug)]
pub struct Proxy {
    background: Background,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    records: Vec<Record>,
    /// How many records were taken out, so that a request that is still under way finds its own.
    taken: usize,
}

impl Proxy {
    /// Starts a proxy before the server at `url`.
    ///
    /// # Errors
    /// Where `url` is not of the form `http://address:port`, or no address can be had.
    pub fn start(url: &str) -> Result<Self, Error> {
        let server = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let server: SocketAddr = server.ok_or_else(|| Error::Address(url.to_owned()))?;
        let state = Arc::default();
        let shared = Arc::clone(&state);
        let background = Background::start(move |client| {
            let state = Arc::clone(&shared);
            async move {
                // A connection that breaks is an end like any other.
                let _ = serve(client, server, &state).await;
            }
        })?;
        Ok(Self { background, state })
    }

    /// Where clients find the proxy: `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        self.background.url()
    }

    /// Lets a fault happen to the `n`-th of such requests from now on, of which the first is 1.
    pub fn fault_at(&self, requests: Requests, n: usize, fault: Fault) {
        lock(&self.state).plan.add(requests, n, fault);
    }

    /// Lets faults happen at random from now on, in place of those that were asked for before.
    pub fn fault_at_random(&self, faults: Faults) {
        lock(&self.state).plan.randomize(faults);
    }

    /// Lets none of those faults happen any more that were asked for with [`Proxy::fault_at`].
    pub fn withdraw_exact(&self) {
        lock(&self.state).plan.withdraw_exact();
    }

    /// Lets no more faults happen.
    pub fn heal(&self) {
        lock(&self.state).plan = Plan::default();
    }

    /// The requests so far, in the order in which they came.
    pub fn records(&self) -> Vec<Record> {
        lock(&self.state).records.clone()
    }

    /// The requests so far, which are then forgotten.
    pub fn take_records(&self) -> Vec<Record> {
        let mut state = lock(&self.state);
        state.taken += state.records.len();
        std::mem::take(&mut state.records)
    }

    /// How many such requests there were so far, forgotten ones not counted.
    pub fn count(&self, requests: &Requests) -> usize {
        lock(&self.state).records.iter().filter(|record| requests.contain(&record.method, &record.target)).count()
    }
}

impl State {
    /// Enters a request, and gives its number and what is to happen to it.
    fn enter(&mut self, head: &Head) -> (usize, Option<Fault>) {
        let fault = self.plan.next(&head.method, &head.target);
        let record = Record { method: head.method.clone(), target: head.target.clone(), fault, status: None };
        self.records.push(record);
        (self.taken + self.records.len() - 1, fault)
    }

    fn answered(&mut self, number: usize, status: u16) {
        let record = number.checked_sub(self.taken).and_then(|index| self.records.get_mut(index));
        if let Some(record) = record {
            record.status = Some(status);
        }
    }
}

/// A change of the state is one step, so that it is whole after a panic.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a client's connection until either side or a fault ends it.
async fn serve(client: TcpStream, server: SocketAddr, state: &Mutex<State>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    while let Some(head) = message::read_request_head(&mut client).await? {
        let (number, fault) = lock(state).enter(&head);
        if fault == Some(Fault::CutRequest) {
            message::read_half(&mut client, &head).await?;
            return Ok(());
        }
        let request = message::read_request(&mut client, &head).await?;
        match fault {
            Some(Fault::Swallow) => return wait_for_end(&mut client).await,
            Some(Fault::RefuseBefore(refusal)) => {
                client.write_all(&refusal.answer(&head.method)).await?;
                continue;
            }
            Some(Fault::DelayRequest(delay)) => tokio::time::sleep(delay).await,
            _ => (),
        }
        let answer = forward(server, &head, &request).await?;
        lock(state).answered(number, answer.status);
        if !pass_on(&mut client, &head, answer, fault).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn forward(server: SocketAddr, head: &Head, request: &[u8]) -> io::Result<Answer> {
    let mut server = BufReader::new(TcpStream::connect(server).await?);
    server.get_ref().set_nodelay(true)?;
    // Without the state that a closed connection leaves, or thousands of requests would use up the ports.
    server.get_ref().set_zero_linger()?;
    server.write_all(request).await?;
    message::read_answer(&mut server, &head.method).await
}

/// Gives the client what it is to see of the server's answer, and says whether its connection may go on.
async fn pass_on(
    client: &mut BufReader<TcpStream>,
    head: &Head,
    answer: Answer,
    fault: Option<Fault>,
) -> io::Result<bool> {
    match fault {
        Some(Fault::CloseUnanswered) => return Ok(false),
        Some(Fault::ResetUnanswered) => return client.get_ref().set_zero_linger().map(|()| false),
        Some(Fault::Hang) => return wait_for_end(client).await.map(|()| false),
        Some(Fault::CutAnswer) => return client.write_all(answer.half()).await.map(|()| false),
        Some(Fault::RefuseAfter(refusal)) => {
            return client.write_all(&refusal.answer(&head.method)).await.map(|()| true);
        }
        Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
        Some(Fault::CutRequest | Fault::Swallow | Fault::DelayRequest(_) | Fault::RefuseBefore(_)) | None => (),
    }
    client.write_all(&answer.bytes).await?;
    Ok(head.keeps_open && answer.keeps_open)
}

/// Waits until a client that gets no answer has enough of it.
async fn wait_for_end(client: &mut BufReader<TcpStream>) -> io::Result<()> {
    client.read(&mut [0]).await.map(drop)
}
