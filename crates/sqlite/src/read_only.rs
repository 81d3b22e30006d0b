//! [`Sight`]: how a database is read without writing anything, neither to it nor beside it.
//!
//! SQLite reads a database with a write-ahead log by way of the log (`-wal`) and of an index of it in shared memory (`-shm`).
//! Even a read-only connection creates both if they are missing, so it fails on a read-only disk and leaves files elsewhere.
//!
//! | beside the database | it is read | a concurrent writer |
//! |---|---|---|
//! | `-wal` and `-shm` | with SQLite's locks, by way of the `-shm`, which is opened read-only | does no harm |
//! | a `-wal` with content, no `-shm` | without locks, with an index of the log in RAM | is detected |
//! | no `-wal`, or an empty one | as an immutable file | is detected |
//! | a `-journal` with content | not at all: a change has to be undone first | |
//!
//! No program has the database open in the second and third case, but one may open it during the read. It then changes one of
//! the files or creates one. So the files are compared with what they were before, and if they differ, the result is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory_tool_core::FailureKind;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::failure::{NotOpened, OpenFailure};
use crate::neighbours::{JOURNAL, LOG, SHARED_MEMORY, beside, look, without_links};

/// The file system of SQLite that takes no locks.
const WITHOUT_LOCKS: &str = if cfg!(windows) { "win32-none" } else { "unix-none" };

/// A database file and those beside it, as they were at one moment.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Sight {
    path: PathBuf,
    database: Option<Stamp>,
    log: Option<Stamp>,
    has_shared_memory: bool,
}

/// What tells that a file was changed or replaced.
#[derive(Debug, Eq, PartialEq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    /// Its number on the disk. Not the time of the last change of any kind: as root, SQLite sets the owner of the log.
    number: u64,
}

/// How a database is read.
enum Way {
    Shared,
    WithoutLocks,
    Immutable,
}

impl Sight {
    /// Looks at the files.
    pub(crate) fn of(database: &Path) -> Result<Self, NotOpened> {
        let path = without_links(database)?; // SQLite's other files lie beside the file, not beside a link to it
        if stamp(&beside(&path, JOURNAL))?.is_some_and(|journal| journal.size > 0) {
            let source = "a change was interrupted; open the database for writing once to undo it".into();
            return Err(OpenFailure::Failed { kind: FailureKind::AccessDenied, source }.into());
        }
        Ok(Self {
            database: stamp(&path)?,
            log: stamp(&beside(&path, LOG))?,
            has_shared_memory: stamp(&beside(&path, SHARED_MEMORY))?.is_some(),
            path,
        })
    }

    fn way(&self) -> Way {
        match &self.log {
            Some(_) if self.has_shared_memory => Way::Shared,
            Some(log) if log.size > 0 => Way::WithoutLocks,
            _ => Way::Immutable,
        }
    }

    /// Opens a connection that writes nothing.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self.way() {
            Way::Shared => Connection::open_with_flags(self.url("readonly_shm=1"), flags)?,
            Way::Immutable => Connection::open_with_flags(self.url("immutable=1"), flags)?,
            Way::WithoutLocks => {
                let connection = Connection::open_with_flags_and_vfs(self.url(""), flags, WITHOUT_LOCKS)?;
                connection.query_one("PRAGMA locking_mode = EXCLUSIVE", (), |_| Ok(()))?; // or it needs the shared memory
                connection
            }
        };
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    }

    /// Whether a result holds whatever other programs did since.
    pub(crate) fn allows<T, E>(&self, result: &Result<T, E>) -> bool {
        result.is_ok() && matches!(self.way(), Way::Shared)
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

/// What the file is like, if there is one.
fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    let found = look(path)?;
    Ok(found.map(|found| Stamp { size: found.len(), modified: found.modified().ok(), number: number(&found) }))
}

#[cfg(unix)]
fn number(found: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    found.ino()
}

#[cfg(not(unix))]
fn number(_: &fs::Metadata) -> u64 {
    0
}
