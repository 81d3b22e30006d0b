//! [`SqlProxy`]: counts round trips and injects faults between PostgreSQL and its clients.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::background::Background;
use crate::error::Error;
use crate::postgres::PostgresServer;
use crate::proxy::{Fault, Faults, Plan, Requests};

/// A proxy on a port of the loopback address for the Unix socket of a server. Roles need no password.
///
/// 1. A round trip has all bytes that a client sends between two responses: a pipeline of statements is one.
/// 2. A fault affects one packet. Its filter matches the bytes of the protocol: `Requests::all().with("COMMIT\0")`.
/// 3. It never repeats or refuses a request: those faults have no effect.
#[derive(Debug)]
pub struct SqlProxy {
    background: Background,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    round_trips: usize,
    faults: usize,
    /// The number of requests that are sent to the server later.
    late: usize,
}

impl SqlProxy {
    /// Starts a proxy that delays each response.
    ///
    /// # Errors
    /// If the proxy cannot listen.
    pub fn start(server: &PostgresServer, delay: Duration) -> Result<Self, Error> {
        let state = Arc::<Mutex<State>>::default();
        let (shared, socket) = (Arc::clone(&state), server.socket_file());
        let background = Background::start(move |client| {
            let (state, socket) = (Arc::clone(&shared), socket.clone());
            async move {
                // Ignores broken connections.
                let _ = serve(client, socket, delay, &state).await;
            }
        })?;
        Ok(Self { background, state })
    }

    /// The URL of a database for a role.
    pub fn url(&self, role: &str, database: &str) -> String {
        let address = self.background.url().trim_start_matches("http://");
        format!("postgres://{role}@{address}/{database}")
    }

    /// The number of round trips so far.
    ///
    /// With a delay, the count does not depend on the machine's speed: a client sends its whole pipeline during the
    /// delay.
    pub fn round_trips(&self) -> usize {
        lock(&self.state).round_trips
    }

    /// The number of faults so far.
    pub fn faults(&self) -> usize {
        lock(&self.state).faults
    }

    /// The number of delayed requests that the server has not received yet.
    pub fn late(&self) -> usize {
        lock(&self.state).late
    }

    /// Injects a fault into the `n`-th matching request from now on, counted from 1.
    pub fn fault_at(&self, requests: Requests, n: usize, fault: Fault) {
        lock(&self.state).plan.add(requests, n, fault);
    }

    /// Injects random faults from now on. Replaces earlier random faults.
    pub fn fault_at_random(&self, faults: Faults) {
        lock(&self.state).plan.randomize(faults);
    }

    /// Cancels all faults.
    pub fn heal(&self) {
        lock(&self.state).plan = Plan::default();
    }
}

/// Locks the state. It is consistent after a panic, because each change is a single step.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection until either side or a fault ends it.
async fn serve(mut client: TcpStream, socket: PathBuf, delay: Duration, state: &Mutex<State>) -> io::Result<()> {
    let mut server = UnixStream::connect(socket).await?;
    let (mut sent, mut received) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut is_new = true;
    let mut more = Duration::ZERO;
    loop {
        tokio::select! {
            length = client.read(&mut sent) => {
                let request = &sent[..length?];
                if request.is_empty() {
                    return Ok(());
                }
                let fault = record(state, request, std::mem::take(&mut is_new));
                match fault {
                    Some(Fault::CutRequest) => return Ok(()),
                    Some(Fault::Swallow) => return wait_for_end(&mut client).await,
                    Some(Fault::DelayRequest(delay)) => {
                        lock(state).late += 1;
                        sleep(delay).await;
                        let written = server.write_all(request).await;
                        lock(state).late -= 1;
                        written?;
                        continue;
                    }
                    Some(Fault::Delay(delay)) => more = delay,
                    _ => (),
                }
                server.write_all(request).await?;
                let Some(fault) = fault else { continue };
                if matches!(fault, Fault::CloseUnanswered | Fault::ResetUnanswered | Fault::CutAnswer | Fault::Hang) {
                    let length = server.read(&mut received).await?;
                    match fault {
                        Fault::ResetUnanswered => client.set_zero_linger()?,
                        Fault::CutAnswer => client.write_all(&received[..length / 2]).await?,
                        Fault::Hang => wait_for_end(&mut client).await?,
                        _ => (),
                    }
                    return Ok(());
                }
            }
            length = server.read(&mut received) => {
                let mut response = received[..length?].to_vec();
                if response.is_empty() {
                    return Ok(());
                }
                let delay = delay + std::mem::take(&mut more);
                let until = Instant::now() + delay;
                while !delay.is_zero() {
                    tokio::select! {
                        () = sleep_until(until) => break,
                        length = client.read(&mut sent) => match length? {
                            0 => return Ok(()),
                            length => server.write_all(&sent[..length]).await?,
                        },
                        length = server.read(&mut received) => match length? {
                            0 => break,
                            length => response.extend(&received[..length]),
                        },
                    }
                }
                client.write_all(&response).await?;
                is_new = true;
            }
        }
    }
}

fn record(state: &Mutex<State>, request: &[u8], is_new: bool) -> Option<Fault> {
    let mut state = lock(state);
    state.round_trips += usize::from(is_new);
    let fault = state.plan.next("", &String::from_utf8_lossy(request));
    state.faults += usize::from(fault.is_some());
    fault
}

/// Waits until the client disconnects.
async fn wait_for_end(client: &mut TcpStream) -> io::Result<()> {
    let mut rest = [0; 1 << 10];
    while client.read(&mut rest).await? > 0 {}
    Ok(())
}
