//! [`Connections`]: the connections to one server, and the limits on their concurrent use.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, RecyclingMethod};
use memory_tool_core::{BoxError, ErrorKind, lock};
use tokio::runtime::{Handle, Id};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Config;

use crate::failure::{Failure, Retry};
use crate::tls::{self, SslMode};

/// The number of groups of memories. The writers of a group in this process take turns.
const WRITERS: usize = 256;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest and the longest delay before a repeated operation. Each delay is twice the one before.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// A pool, and the turns of writers. A writer waits for its turn before it takes a connection. Otherwise, the writers
/// of one memory could occupy all connections while they wait for each other.
pub(crate) struct Connections {
    pool: Pool,
    /// The id of the first writer. The others follow.
    first_writer: u128,
    writers: Vec<Group>,
}

/// A group of memories, which is one writer for the server.
struct Group {
    turn: Semaphore,
    calls: AtomicI64,
}

/// The turn of a writer, which ends on drop.
pub(crate) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    group: &'a Group,
    writer: u128,
}

impl Turn<'_> {
    pub(crate) fn writer(&self) -> [u8; 16] {
        self.writer.to_be_bytes()
    }

    /// The number of the next call of the writer, from 1.
    pub(crate) fn next_call(&self) -> i64 {
        self.group.calls.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Debug for Connections {
    /// Without the host and the user.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

impl Connections {
    pub(crate) fn new(pool: Pool) -> Result<Arc<Self>, Failure> {
        let group = |_| Group { turn: Semaphore::new(1), calls: AtomicI64::new(0) };
        let writers = (0..WRITERS).map(group).collect();
        Ok(Arc::new(Self { pool, first_writer: random_number()?, writers }))
    }

    /// Takes a connection, which is returned to the pool on drop.
    pub(crate) async fn take(&self, deadline: &Deadline) -> Result<Client, Failure> {
        let client = deadline.limit(self.pool.get()).await?;
        client.map_err(Failure::of_connecting)
    }

    /// Waits for the turn of a writer of the memory with this number.
    pub(crate) async fn turn(&self, memory: u64, deadline: &Deadline) -> Result<Turn<'_>, Failure> {
        let number = memory % WRITERS as u64;
        let closed = || Failure::new(ErrorKind::Other, "the connections were closed"); // this never occurs
        let group = self.writers.get(number as usize).ok_or_else(closed)?;
        let permit = deadline.limit(group.turn.acquire()).await?.map_err(|_| closed())?;
        Ok(Turn { _permit: permit, group, writer: self.first_writer.wrapping_add(number.into()) })
    }
}

/// A connection that is closed on drop, because it may be in a transaction.
pub(crate) struct Held(Option<Client>);

impl Held {
    pub(crate) fn new(client: Client) -> Self {
        Self(Some(client))
    }

    /// Returns the connection to the pool.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }

    /// Returns the connection to the pool, unless it failed.
    pub(crate) fn give_back<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        if matches!(result, Ok(_) | Err(Failure::Refused(_))) {
            self.release();
        }
        result
    }

    pub(crate) fn client(&self) -> Result<&Client, Failure> {
        // It is present until the value is dropped.
        self.0.as_ref().ok_or_else(|| Failure::new(ErrorKind::Other, "the connection was returned"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Client::take(client));
        }
    }
}

/// The time until which an operation may wait, and its repetitions.
#[derive(Debug)]
pub(crate) struct Deadline {
    end: Instant,
    timeout: Duration,
    is_extended: bool,
    next_pause: Duration,
    /// The failure before the last repetition, which explains a timeout.
    last: Option<Failure>,
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        // A timeout that cannot be represented never ends.
        let end = Instant::now().checked_add(timeout);
        let end = end.unwrap_or_else(|| Instant::now() + Duration::from_secs(u32::MAX.into()));
        Self { end, timeout, is_extended: false, next_pause: PAUSE, last: None }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The remaining time for the server, where 0 is no limit.
    pub(crate) fn milliseconds(&self) -> i32 {
        self.remaining().as_millis().clamp(1, i32::MAX as u128) as i32
    }

    /// Adds time, at most once.
    pub(crate) fn extend(&mut self, time: Duration) {
        if !std::mem::replace(&mut self.is_extended, true) {
            self.end += time;
        }
    }

    /// Waits for a future until the deadline. It is polled at least once.
    pub(crate) async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        timeout_at(self.end, future).await.map_err(|_| Failure::timeout(self.timeout))
    }

    /// Fails after the deadline.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.remaining().is_zero() { Err(Failure::timeout(self.timeout)) } else { Ok(()) }
    }

    /// Waits before a repetition after a failure that changed nothing, or returns the failure.
    pub(crate) async fn repeat_after(&mut self, failure: Failure) -> Result<(), Failure> {
        let may_repeat = matches!(failure, Failure::Failed { retry: Retry::UntilTimeout, .. });
        if self.pause(may_repeat).await.is_some() {
            self.last = Some(failure);
            return Ok(());
        }
        Err(self.explain(failure))
    }

    fn explain(&mut self, failure: Failure) -> Failure {
        let is_timeout = matches!(failure, Failure::Failed { retry: Retry::TimedOut, .. });
        self.last.take().filter(|_| is_timeout).unwrap_or(failure)
    }

    /// Waits before a repetition if there is one and time is left.
    pub(crate) async fn pause(&mut self, may_repeat: bool) -> Option<()> {
        let pause = self.next_pause.min(self.remaining());
        if !may_repeat || pause.is_zero() {
            return None;
        }
        self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(pause).await;
        Some(())
    }
}

/// The settings of the connections of a pool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) ssl_mode: SslMode,
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) max_connections: usize,
}

/// The connections that are in use, by their runtime, on which a task drives each connection.
static ALL: Mutex<Vec<(Id, Settings, Weak<Connections>)>> = Mutex::new(Vec::new());

impl Settings {
    /// The connections with these settings, which all stores of a runtime share. Blocks.
    pub(crate) fn connections(self, runtime: &Handle) -> Result<Arc<Connections>, BoxError> {
        // A panic cannot occur while the lock is held.
        let mut all = lock(&ALL);
        all.retain(|(.., connections)| connections.strong_count() > 0);
        let id = runtime.id();
        let shared = all.iter().find(|(other, settings, _)| *other == id && *settings == self);
        if let Some(connections) = shared.and_then(|(.., connections)| connections.upgrade()) {
            return Ok(connections);
        }
        let connections = Connections::new(self.pool()?).map_err(Failure::into_source)?;
        all.push((id, self, Arc::downgrade(&connections)));
        Ok(connections)
    }

    fn pool(&self) -> Result<Pool, BoxError> {
        let mut config = self.config.clone();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let tls = tls::connector(&mut config, self.ssl_mode, self.root_certificates.as_deref())?;
        let recycling_method = RecyclingMethod::Fast; // a statement before each operation would double the round trips
        let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method });
        Ok(Pool::builder(manager).max_size(self.max_connections).build()?)
    }
}

/// A random number. No number occurs twice.
pub(crate) fn random_number() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(ErrorKind::Other, error))?;
    Ok(u128::from_be_bytes(bytes))
}
