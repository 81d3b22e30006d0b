//! [`Connections`]: the connections of the HTTP server, which are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::mcp::lock;

/// The limit that keeps clients from exhausting the RAM and the file descriptors.
const MAX_CONNECTIONS: usize = 256;

/// The time to answer a request. After it, the client does not read the response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The delay between two looks for room while all connections are in use.
const DELAY: Duration = Duration::from_millis(100);

/// The connections. At the limit, a new connection takes the place of the one that has waited longest for a request, or
/// else of the oldest stream of notifications. Their clients connect again.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Debug)]
struct Open {
    activity: Activity,
    since: Instant,
    close: Arc<Notify>,
}

/// The activities of connections. The first ones are closed first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Activity {
    /// It waits for a request, or for the rest of one.
    Waiting,
    /// It sends notifications until the client closes it.
    Notifying,
    /// It responds to a request. It is closed only if that takes too long.
    Answering,
}

impl Connections {
    /// Registers a connection once there is room for it.
    pub(super) async fn add(self: &Arc<Self>, id: u64) -> Connection {
        let close = Arc::new(Notify::new());
        while !self.make_room() {
            sleep(DELAY).await;
        }
        let open = Open { activity: Activity::Waiting, since: Instant::now(), close: Arc::clone(&close) };
        lock(&self.open).insert(id, open);
        Connection { id, all: Arc::clone(self), close }
    }

    fn make_room(&self) -> bool {
        let mut open = lock(&self.open);
        if open.len() < MAX_CONNECTIONS {
            return true;
        }
        let is_idle = |open: &Open| open.activity != Activity::Answering || open.since.elapsed() > ANSWER_TIMEOUT;
        let idle = open.iter().filter(|(_, open)| is_idle(open));
        let longest = idle.min_by_key(|(id, open)| (open.activity, open.since, **id)).map(|(id, _)| *id);
        match longest.and_then(|id| open.remove(&id)) {
            Some(closed) => {
                closed.close.notify_one();
                true
            }
            None => false,
        }
    }

    fn set(&self, id: u64, activity: Activity) {
        if let Some(open) = lock(&self.open).get_mut(&id) {
            open.activity = activity;
            open.since = Instant::now();
        }
    }
}

/// A connection. It is unregistered on drop.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    all: Arc<Connections>,
    close: Arc<Notify>,
}

impl Connection {
    /// Completes when the connection must be closed.
    pub(super) async fn evicted(&self) {
        self.close.notified().await;
    }

    /// Changes what the connection does, until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>, activity: Activity) -> Busy {
        self.all.set(self.id, activity);
        Busy(Arc::clone(self))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.open).remove(&self.id);
    }
}

/// The time of a connection in which it does something. It waits again on drop.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.all.set(self.0.id, Activity::Waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_closed(connection: &Connection) -> bool {
        tokio::time::timeout(Duration::ZERO, connection.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_longest_idle_one() {
        let connections = Arc::new(Connections::default());
        let add = async |id| Arc::new(connections.add(id).await);
        let mut all = Vec::new();
        for id in 0..MAX_CONNECTIONS as u64 {
            all.push(add(id).await);
        }
        let _answering = all[0].begin(Activity::Answering);
        let _notifying = all[1].begin(Activity::Notifying);
        // This one waits again.
        drop(all[2].begin(Activity::Answering));
        let newest = add(1_000).await;
        assert!(is_closed(&all[3]).await);
        for index in [0, 1, 2, 4] {
            assert!(!is_closed(&all[index]).await, "{index}");
        }
        // Streams of notifications are closed next.
        let others = all[4..].iter().chain([&all[2], &newest]);
        let mut busy: Vec<_> = others.map(|connection| connection.begin(Activity::Answering)).collect();
        let newest = add(1_001).await;
        assert!(is_closed(&all[1]).await && !is_closed(&all[0]).await);
        // Requests get responses, unless that takes too long.
        busy.push(newest.begin(Activity::Answering));
        assert!(!connections.make_room());
        lock(&connections.open).get_mut(&0).unwrap().since -= 2 * ANSWER_TIMEOUT;
        let _newest = add(1_002).await;
        assert!(is_closed(&all[0]).await);
        assert_eq!(lock(&connections.open).len(), MAX_CONNECTIONS);
    }
}
