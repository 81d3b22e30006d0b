//! [`Connections`]: the connections of the server, which are limited.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use memory_tool::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use crate::http::listener::BoxedStream;

/// The time to answer a request. After it, the client does not read the response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The time after which a client that reads nothing loses its connection.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay between two looks for room while all connections are in use.
const DELAY: Duration = Duration::from_millis(100);

/// The connections. At the limit, a new connection takes the place of the one that has waited longest for a request, or
/// else of the oldest stream of notifications. Their clients connect again.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Open {
    /// The requests of the connection, by activity. HTTP/2 has several at the same time.
    requests: [usize; 3],
    since: Instant,
    close: Arc<Notify>,
}

impl Open {
    /// `None` is a connection that waits for a request, or for the rest of one.
    fn activity(&self) -> Option<Activity> {
        let all = [Activity::Answering, Activity::Receiving, Activity::Notifying];
        all.into_iter().find(|activity| self.requests[*activity as usize] > 0)
    }
}

/// The activities of requests. Connections that wait are closed first, and then in this order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Activity {
    /// It sends notifications until the client closes it.
    Notifying,
    /// It waits for the body of a request with a valid token.
    Receiving,
    /// It gets a response. The connection is closed only if that takes too long.
    Answering,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default(), next: AtomicU64::default() })
    }

    /// Registers a connection once there is room for it.
    pub(crate) async fn add(self: &Arc<Self>) -> Arc<Connection> {
        while lock(&self.open).len() >= self.max && !self.evict() {
            sleep(DELAY).await;
        }
        let (id, close) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::default());
        let open = Open { requests: [0; 3], since: Instant::now(), close: Arc::clone(&close) };
        lock(&self.open).insert(id, open);
        Arc::new(Connection { id, all: Arc::clone(self), close })
    }

    /// Closes an idle connection. Returns whether there was one.
    pub(crate) fn evict(&self) -> bool {
        let mut open = lock(&self.open);
        let is_idle =
            |open: &Open| open.activity() != Some(Activity::Answering) || open.since.elapsed() > ANSWER_TIMEOUT;
        let idle = open.iter().filter(|(_, open)| is_idle(open));
        let longest = idle.min_by_key(|(id, open)| (open.activity(), open.since, **id)).map(|(id, _)| *id);
        let closed = longest.and_then(|id| open.remove(&id));
        closed.inspect(|closed| closed.close.notify_one()).is_some()
    }

    /// Replaces a request of a connection by another one.
    fn replace(&self, id: u64, old: Option<Activity>, new: Option<Activity>) {
        if let Some(open) = lock(&self.open).get_mut(&id) {
            old.into_iter().for_each(|old| open.requests[old as usize] -= 1);
            new.into_iter().for_each(|new| open.requests[new as usize] += 1);
            open.since = Instant::now();
        }
    }
}

/// A connection. It is unregistered on drop.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    all: Arc<Connections>,
    close: Arc<Notify>,
}

impl Connection {
    /// Completes when the connection must be closed.
    pub(crate) async fn evicted(&self) {
        self.close.notified().await;
    }

    /// Counts a request with this activity, until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>, activity: Activity) -> Busy {
        self.all.replace(self.id, None, Some(activity));
        Busy { connection: Arc::clone(self), activity: Mutex::new(activity) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.open).remove(&self.id);
    }
}

/// A request of a connection, which ends on drop.
#[derive(Debug)]
pub(crate) struct Busy {
    connection: Arc<Connection>,
    activity: Mutex<Activity>,
}

impl Busy {
    /// The number of the connection.
    #[cfg(feature = "mcp")]
    pub(crate) fn connection(&self) -> u64 {
        self.connection.id
    }

    pub(crate) fn change(&self, new: Activity) {
        let mut activity = lock(&self.activity);
        self.connection.all.replace(self.connection.id, Some(*activity), Some(new));
        *activity = new;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let activity = *lock(&self.activity);
        self.connection.all.replace(self.connection.id, Some(activity), None);
    }
}

/// The bytes of a connection. Writes fail if the client reads nothing for [`READ_TIMEOUT`].
pub(crate) struct Read {
    stream: BoxedStream,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Read {
    pub(crate) fn new(stream: BoxedStream) -> Self {
        Self { stream, waiting: None }
    }

    fn timed<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(READ_TIMEOUT)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Read {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, into)
    }
}

impl AsyncWrite for Read {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write_vectored(context, parts);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.as_mut().poll_flush(context);
        self.timed(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.stream.as_mut().poll_shutdown(context);
        self.timed(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn is_closed(connection: &Connection) -> bool {
        tokio::time::timeout(Duration::ZERO, connection.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_longest_idle_one() {
        let connections = Connections::new(10);
        let mut all = Vec::new();
        for _ in 0..10 {
            all.push(connections.add().await);
        }
        let _answering = all[0].begin(Activity::Answering);
        let _notifying = all[1].begin(Activity::Notifying);
        // This one waits again.
        drop(all[2].begin(Activity::Answering));
        let newest = connections.add().await;
        assert!(is_closed(&all[3]).await);
        for index in [0, 1, 2, 4] {
            assert!(!is_closed(&all[index]).await, "{index}");
        }
        // Streams of notifications are closed next.
        let others = all[4..].iter().chain([&all[2], &newest]);
        let mut busy: Vec<_> = others.map(|connection| connection.begin(Activity::Answering)).collect();
        let newest = connections.add().await;
        assert!(is_closed(&all[1]).await && !is_closed(&all[0]).await);
        // A connection of HTTP/2 waits once its last request has ended.
        let shared = &all[4];
        busy.retain(|busy| busy.connection.id != shared.id);
        drop(shared.begin(Activity::Answering));
        let last = shared.begin(Activity::Answering);
        drop(shared.begin(Activity::Notifying));
        assert!(lock(&connections.open)[&shared.id].activity() == Some(Activity::Answering));
        busy.push(last);
        // Requests get responses, unless that takes too long.
        busy.push(newest.begin(Activity::Answering));
        assert!(!connections.evict());
        lock(&connections.open).get_mut(&0).unwrap().since -= 2 * ANSWER_TIMEOUT;
        let _newest = connections.add().await;
        assert!(is_closed(&all[0]).await);
        assert_eq!(lock(&connections.open).len(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_loses_its_connection() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut connection = Read::new(Box::pin(near));
        let writing = tokio::spawn(async move { connection.write_all(&[0; 1_000]).await });
        // Slow clients keep theirs.
        for _ in 0..10 {
            sleep(READ_TIMEOUT / 2).await;
            assert!(!writing.is_finished());
            far.read_exact(&mut [0; 16]).await.unwrap();
        }
        sleep(2 * READ_TIMEOUT).await;
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
