//! [`ConnectionPool`]: idle connections for the next use, few in a process however many databases it has open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::runtime::Handle;

/// How many connections wait in this process, of all databases together. Each takes some 200 KB and three open files.
const MOST: usize = 64;

/// Those of all databases, each with the number of its own, the least recently used first.
static ALL: Mutex<Vec<(u64, Connection)>> = Mutex::new(Vec::new());

/// The idle connections of one database.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    database: u64,
}

impl ConnectionPool {
    /// None yet, of one more database.
    pub(crate) fn new() -> Self {
        static DATABASES: AtomicU64 = AtomicU64::new(0);
        Self { database: DATABASES.fetch_add(1, Ordering::Relaxed) }
    }

    /// The one that was used last, if there is one.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut all = all();
        let last = all.iter().rposition(|(database, _)| *database == self.database)?;
        Some(all.remove(last).1)
    }

    /// Keeps a connection for later. Where there are too many, the one that was not used for longest is closed. Blocks.
    pub(crate) fn put(&self, connection: Connection) {
        let mut all = all();
        all.push((self.database, connection));
        let oldest = if all.len() > MOST { Some(all.remove(0)) } else { None };
        drop(all);
        drop(oldest); // with the lock released, since closing takes time
    }
}

impl Drop for ConnectionPool {
    /// Closing the last connection to a file copies its log into it, which takes time that an async thread does not have.
    fn drop(&mut self) {
        let own: Vec<_> = all().extract_if(.., |(database, _)| *database == self.database).collect();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(own));
        }
    }
}

fn all() -> MutexGuard<'static, Vec<(u64, Connection)>> {
    // Nothing panics while it holds the lock.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn a_database_gets_back_its_own_until_others_have_crowded_them_out() {
        let (first, second) = (ConnectionPool::new(), ConnectionPool::new());
        first.put(connection());
        assert!(second.take().is_none());
        assert!(first.take().is_some_and(|connection| connection.is_autocommit()));
        assert!(first.take().is_none());
        first.put(connection());
        for _ in 0..MOST {
            second.put(connection());
        }
        assert!(first.take().is_none());
        assert!(all().len() <= MOST);
        let number = second.database;
        drop(second);
        assert!(all().iter().all(|(database, _)| *database != number));
    }
}
