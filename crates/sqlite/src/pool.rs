//! [`ConnectionPool`]: idle connections of a database. The number of idle connections is limited for the whole process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::runtime::Handle;

/// The maximum number of idle connections to all databases. Each takes about 200 KB and three open files.
const MAX_IDLE: usize = 64;

/// The idle connections to all databases, each with the number of its database. The least recently used is first.
static ALL: Mutex<Vec<(u64, Connection)>> = Mutex::new(Vec::new());

/// The idle connections of one database.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    database: u64,
}

impl ConnectionPool {
    /// An empty pool of a new database.
    pub(crate) fn new() -> Self {
        static DATABASES: AtomicU64 = AtomicU64::new(0);
        Self { database: DATABASES.fetch_add(1, Ordering::Relaxed) }
    }

    /// Takes the most recently used connection.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut all = all();
        let last = all.iter().rposition(|(database, _)| *database == self.database)?;
        Some(all.remove(last).1)
    }

    /// Returns a connection to the pool. If there are too many, closes the least recently used one. Blocks.
    pub(crate) fn put(&self, connection: Connection) {
        let mut all = all();
        all.push((self.database, connection));
        let oldest = if all.len() > MAX_IDLE { Some(all.remove(0)) } else { None };
        drop(all);
        drop(oldest); // after releasing the lock, because closing takes time
    }
}

impl Drop for ConnectionPool {
    /// Closing the last connection to a file copies the log into it, which would block an async thread.
    fn drop(&mut self) {
        let own: Vec<_> = all().extract_if(.., |(database, _)| *database == self.database).collect();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(own));
        }
    }
}

fn all() -> MutexGuard<'static, Vec<(u64, Connection)>> {
    // A panic cannot occur while the lock is held.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn the_least_recently_used_connection_is_closed() {
        let (first, second) = (ConnectionPool::new(), ConnectionPool::new());
        first.put(connection());
        assert!(second.take().is_none());
        assert!(first.take().is_some_and(|connection| connection.is_autocommit()));
        assert!(first.take().is_none());
        first.put(connection());
        for _ in 0..MAX_IDLE {
            second.put(connection());
        }
        assert!(first.take().is_none());
        assert!(all().len() <= MAX_IDLE);
        let number = second.database;
        drop(second);
        assert!(all().iter().all(|(database, _)| *database != number));
    }
}
