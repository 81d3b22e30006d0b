//! [`FileSnapshot`]: reads a database without writing to it or creating files beside it.
//!
//! SQLite reads a database in write-ahead mode through the log (`-wal`) and an index of the log in shared memory
//! (`-shm`). Even a read-only connection creates both files if they are missing. On a read-only disk this fails;
//! elsewhere it leaves files.
//!
//! | files beside the database | access | concurrent writers |
//! |---|---|---|
//! | `-wal` and `-shm` | with SQLite's locks and a read-only `-shm` | safe |
//! | a non-empty `-wal`, no `-shm` | without locks, with an index in RAM | detected |
//! | a `-wal` without a frame, or no `-wal` | as an immutable file | detected |
//! | a non-empty `-journal` | refused, because a change must be undone first | |
//!
//! In the second and third case, no program has the database open, or one writes its first frame. A program that
//! changes the database during the read changes or creates one of the files. Therefore the files are compared before
//! and after the read, and if they differ, the result is dropped.

use std::path::{Path, PathBuf};

use memory_tool_core::ErrorKind;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::failure::{ConnectError, OpenFailure};
use crate::sidecar::{FileStamp, JOURNAL, LOG, SHARED_MEMORY, beside, file_stamp, resolve_links};

/// The bytes of a log before its first frame. A killed writer can leave such a log. SQLite 3.54.1 refuses it with a
/// read-only `-shm`, after ten seconds, because it takes the salt of the log from a frame.
const LOG_HEADER_BYTES: u64 = 32;

/// The SQLite VFS without locks.
const WITHOUT_LOCKS: &str = if cfg!(windows) { "win32-none" } else { "unix-none" };

/// The state of a database file and the files beside it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct FileSnapshot {
    path: PathBuf,
    database: Option<FileStamp>,
    log: Option<FileStamp>,
    has_shared_memory: bool,
}

enum AccessMethod {
    Shared,
    WithoutLocks,
    Immutable,
}

impl FileSnapshot {
    /// Reads the current state of the files.
    pub(crate) fn of(database: &Path) -> Result<Self, ConnectError> {
        let path = resolve_links(database)?;
        if file_stamp(&beside(&path, JOURNAL))?.is_some_and(|journal| journal.size > 0) {
            let source = "a change was interrupted; open the database for writing once to undo it".into();
            return Err(OpenFailure::Failed { kind: ErrorKind::AccessDenied, source }.into());
        }
        Ok(Self {
            database: file_stamp(&path)?,
            log: file_stamp(&beside(&path, LOG))?,
            has_shared_memory: file_stamp(&beside(&path, SHARED_MEMORY))?.is_some(),
            path,
        })
    }

    fn access_method(&self) -> AccessMethod {
        match &self.log {
            Some(log) if log.size == LOG_HEADER_BYTES => AccessMethod::Immutable,
            Some(_) if self.has_shared_memory => AccessMethod::Shared,
            Some(log) if log.size > 0 => AccessMethod::WithoutLocks,
            _ => AccessMethod::Immutable,
        }
    }

    /// Opens a connection that writes nothing.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self.access_method() {
            AccessMethod::Shared => Connection::open_with_flags(self.url("readonly_shm=1"), flags)?,
            AccessMethod::Immutable => Connection::open_with_flags(self.url("immutable=1"), flags)?,
            AccessMethod::WithoutLocks => {
                let connection = Connection::open_with_flags_and_vfs(self.url(""), flags, WITHOUT_LOCKS)?;
                // Without this, SQLite would need the shared memory.
                connection.query_one("PRAGMA locking_mode = EXCLUSIVE", (), |_| Ok(()))?;
                connection
            }
        };
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    }

    /// Whether a result is valid regardless of concurrent writers.
    pub(crate) fn is_conclusive<T, E>(&self, result: &Result<T, E>) -> bool {
        result.is_ok() && matches!(self.access_method(), AccessMethod::Shared)
    }

    fn url(&self, query: &str) -> String {
        let mut url = "file:".to_owned();
        if cfg!(windows) {
            url.push('/');
        }
        for byte in self.path.as_os_str().as_encoded_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b':' => {
                    url.push(char::from(*byte));
                }
                b'\\' if cfg!(windows) => url.push('/'),
                _ => url.push_str(&format!("%{byte:02x}")),
            }
        }
        url + "?" + query
    }
}
