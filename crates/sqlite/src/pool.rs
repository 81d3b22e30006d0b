//! [`ConnectionPool`]: idle connections of a database. The number of idle connections is limited for the whole process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_tool_core::lock;
use tokio::runtime::Handle;

use crate::caching::CachingConnection;

/// The maximum number of idle connections to all databases. Each takes about 200 KB, up to 512 KB for
/// remembered files, and four open files.
const MAX_IDLE: usize = 64;

/// The idle connections to all databases, each with the number of its database. The least recently used is first.
static ALL: Mutex<Vec<(u64, CachingConnection)>> = Mutex::new(Vec::new());

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
    pub(crate) fn take(&self) -> Option<CachingConnection> {
        self.take_if(|_| Some(())).map(|(connection, ())| connection)
    }

    /// Takes the most recently used connection for which `find`, which must not block, finds something.
    pub(crate) fn take_if<T>(&self, find: impl Fn(&CachingConnection) -> Option<T>) -> Option<(CachingConnection, T)> {
        let mut all = lock(&ALL);
        let mut own = all.iter().enumerate().rev().filter(|(_, (database, _))| *database == self.database);
        let (last, found) = own.find_map(|(index, (_, connection))| Some((index, find(connection)?)))?;
        Some((all.remove(last).1, found))
    }

    /// Returns a connection to the pool without closing others, which would block. The next `put` closes them.
    pub(crate) fn put_back(&self, connection: CachingConnection) {
        lock(&ALL).push((self.database, connection));
    }

    /// Returns a connection to the pool. If there are too many, closes the least recently used ones. Blocks.
    pub(crate) fn put(&self, connection: CachingConnection) {
        let mut all = lock(&ALL);
        all.push((self.database, connection));
        let excess = all.len().saturating_sub(MAX_IDLE);
        let oldest: Vec<_> = all.drain(..excess).collect();
        drop(all);
        drop(oldest); // after releasing the lock, because closing takes time
    }
}

/// Closes the idle connections to files that were removed or replaced. Blocks.
pub(crate) fn close_displaced() {
    let displaced: Vec<_> = lock(&ALL).extract_if(.., |(_, connection)| !connection.is_in_place()).collect();
    drop(displaced);
}

impl Drop for ConnectionPool {
    /// Closing the last connection to a file copies the log into it, which would block an async thread.
    fn drop(&mut self) {
        let own: Vec<_> = lock(&ALL).extract_if(.., |(database, _)| *database == self.database).collect();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_files::OpenFiles;

    fn connection() -> CachingConnection {
        CachingConnection::new(rusqlite::Connection::open_in_memory().unwrap(), OpenFiles::of("none".as_ref()))
    }

    #[test]
    fn the_least_recently_used_connection_is_closed() {
        let (first, second) = (ConnectionPool::new(), ConnectionPool::new());
        first.put(connection());
        assert!(second.take().is_none());
        assert!(first.take().is_some_and(|mut connection| connection.connection().is_autocommit()));
        assert!(first.take().is_none());
        first.put(connection());
        for _ in 0..MAX_IDLE {
            second.put(connection());
        }
        assert!(first.take().is_none());
        assert!(lock(&ALL).len() <= MAX_IDLE);
        let number = second.database;
        drop(second);
        assert!(lock(&ALL).iter().all(|(database, _)| *database != number));
    }
}
