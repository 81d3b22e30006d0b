//! [`CachingConnection`]: a connection that remembers the nodes it has read.
//!
//! A remembered node is returned on the calling thread, which saves the hop to a thread that may wait. The check that
//! it is current must therefore never wait for a disk:
//!
//! 1. The status of the open write-ahead log is unchanged. Otherwise another program may be writing, and a check could
//!    wait for it or read pages: the caller falls back to a blocking thread.
//! 2. `PRAGMA data_version` is unchanged, so no other connection of any process has committed a change. SQLite takes a
//!    lock without waiting and compares its copy of the log's index header with the shared memory. It needs the first
//!    page of the database, which stays in the connection's cache until another connection commits.
//!
//! The second check decides alone whether a node is current. The first only keeps the second from waiting. If a
//! commit falls between the two or does not alter the status, SQLite reads the first page in place.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Batch, Change, MemoryName, Node, Precondition, ReadOptions, Stat, StorePath, StoreState as _};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use crate::failure::Failure;
use crate::files::{Files, Memory};
use crate::open_files::OpenFiles;
use crate::schema::CheckedSchema;
use crate::sidecar::{self, FileStamp};

/// The largest node to remember, in bytes. For larger ones, the hop to another thread takes a small part of the time.
const MAX_NODE: usize = 64 << 10;

/// The size of all remembered nodes of a connection in bytes.
const MAX_NODES: usize = 512 << 10;

/// The number of paths whose states are remembered because reads required them.
const MAX_REQUIRED: usize = 100;

/// The estimated size of a node without contents in bytes, which also limits the number of nodes.
const NODE_OVERHEAD: usize = 1 << 10;

/// The estimated size of an entry of a directory in bytes.
const ENTRY_SIZE: usize = 256;

/// A batch with more changes than this makes a connection forget the whole memory, instead of comparing all paths.
const MAX_COMPARED_CHANGES: usize = 16;

/// A memory and a path in it.
pub(crate) type Key = (MemoryName, StorePath);

/// A connection, and the nodes that it has read since another connection last committed a change.
pub(crate) struct CachingConnection {
    nodes: HashMap<Key, Arc<Node>>,
    size: usize,
    /// The states of paths that reads required, at the same version.
    required: HashMap<Key, Stat>,
    /// The version of the database at which the nodes were read. Only changes of other connections alter it.
    data_version: i64,
    /// The status of the log before the version was last checked.
    checked: Option<FileStamp>,
    /// Closed before the connection, which may remove the log.
    log: Option<File>,
    schema: CheckedSchema,
    connection: Connection,
    /// Dropped after the connection.
    files: Arc<OpenFiles>,
}

impl Drop for CachingConnection {
    /// Keeps SQLite from copying the log of a removed file into its successor.
    fn drop(&mut self) {
        if !self.is_in_place() {
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true); // cannot fail
        }
    }
}

impl CachingConnection {
    /// Wraps a connection to these files.
    pub(crate) fn new(connection: Connection, files: Arc<OpenFiles>) -> Self {
        let schema = CheckedSchema::default();
        Self {
            nodes: HashMap::new(),
            size: 0,
            required: HashMap::new(),
            data_version: 0,
            checked: None,
            log: None,
            schema,
            connection,
            files,
        }
    }

    /// Whether the open files are still at their paths. Blocks.
    pub(crate) fn is_in_place(&self) -> bool {
        self.files.are_in_place()
    }

    /// The connection, for opening.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Runs `work`, which only reads, in one snapshot. Blocks.
    pub(crate) fn in_snapshot<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        in_snapshot(&mut self.connection, &mut self.schema, work)
    }

    /// A remembered node, if the preconditions are known to have held when it was read. It may be outdated.
    pub(crate) fn remembered(&self, memory: &Memory, path: &StorePath, options: &ReadOptions) -> Option<Arc<Node>> {
        let node = self.nodes.get(&key(memory, path))?;
        let holds = |(path, required): &(StorePath, Precondition)| {
            self.required.get(&key(memory, path)).is_some_and(|found| required.check(path, found).is_ok())
        };
        options.preconditions().iter().all(holds).then(|| Arc::clone(node))
    }

    /// Whether the remembered nodes are known to be current. Never waits; see the documentation of the module.
    pub(crate) fn is_current(&self) -> bool {
        if self.checked.is_none() || self.log_stamp() != self.checked {
            return false;
        }
        self.connection.busy_timeout(Duration::ZERO).is_ok()
            && self.current_version().is_ok_and(|version| version == self.data_version)
    }

    fn current_version(&self) -> rusqlite::Result<i64> {
        self.connection.prepare_cached(DATA_VERSION)?.query_row((), |row| row.get(0))
    }

    /// Reads a path under the preconditions in one snapshot, and remembers the node unless it is large. Blocks.
    pub(crate) fn read(&mut self, memory: &Memory, path: &StorePath, options: &ReadOptions) -> Result<Node, Failure> {
        let log = self.open_log(); // before the snapshot, so that a later commit alters the status
        let mut statement = self.connection.prepare_cached(DATA_VERSION)?;
        let mut version = statement.query(())?;
        let Some(row) = version.next()? else { return Err(rusqlite::Error::QueryReturnedNoRows.into()) };
        let current = row.get(0)?;
        // While the statement has a row, its transaction is open, so other statements read the same snapshot.
        if current != self.data_version {
            self.schema.check(&self.connection)?; // only another connection can have changed it
            self.nodes.clear();
            self.size = 0;
            self.required.clear();
            self.data_version = current;
        }
        self.checked = log;
        let files = Files { connection: &self.connection, memory };
        for (path, precondition) in options.preconditions() {
            let found = files.stat(path)?;
            precondition.check(path, &found)?;
            if self.required.len() >= MAX_REQUIRED {
                self.required.clear();
            }
            self.required.insert(key(memory, path), found);
        }
        let node = files.read(path)?;
        drop(version);
        drop(statement);
        self.remember(key(memory, path), &node);
        Ok(node)
    }

    fn remember(&mut self, key: Key, node: &Node) {
        let size = size(node);
        if size > MAX_NODE {
            return;
        }
        if self.size + size > MAX_NODES {
            self.nodes.clear();
            self.size = 0;
        }
        if self.nodes.insert(key, Arc::new(node.clone())).is_none() {
            self.size += size;
        }
    }

    /// Applies a batch in one transaction, which is rolled back on an error. Forgets the nodes that it may change,
    /// because the data version covers only other connections.
    ///
    /// A remembered file that the batch writes is read again, because an agent often views what it has edited.
    pub(crate) fn apply(
        &mut self,
        memory: &Memory,
        batch: Batch,
        apply: fn(&Connection, &Memory, Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let written = match batch.changes() {
            [Change::Write { path, .. }] if self.nodes.contains_key(&key(memory, path)) => Some(path.clone()),
            _ => None,
        };
        self.forget(memory, batch.changes());
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.schema.check(&transaction)?;
        apply(&transaction, memory, batch)?;
        transaction.commit().map_err(Failure::of_commit)?;
        if !self.is_in_place() {
            return Err(Failure::displaced());
        }
        if let Some(path) = written {
            // The batch is applied; if this failed, the next read fails, too.
            let _ = self.read(memory, &path, &ReadOptions::new());
        }
        Ok(())
    }

    fn forget(&mut self, memory: &Memory, changes: &[Change]) {
        let is_affected = |path: &StorePath| {
            changes.len() > MAX_COMPARED_CHANGES
                || changes.iter().flat_map(Change::paths).any(|changed| changed.overlaps(path))
        };
        let is_kept = |(name, path): &Key| *name != memory.name || !is_affected(path);
        self.nodes.retain(|key, _| is_kept(key));
        self.required.retain(|key, _| is_kept(key));
        self.size = self.nodes.values().map(|node| size(node)).sum();
    }

    /// Opens the log unless it is open, and returns its status. Blocks.
    fn open_log(&mut self) -> Option<FileStamp> {
        if self.log.is_none() && sidecar::metadata(self.files.log()).ok()??.is_file() {
            self.log = File::open(self.files.log()).ok();
        }
        self.log_stamp()
    }

    /// The status of the open log. The operating system keeps it in memory.
    fn log_stamp(&self) -> Option<FileStamp> {
        self.log.as_ref()?.metadata().ok().map(|found| FileStamp::of(&found))
    }
}

/// Runs `work`, which only reads, in one snapshot with a checked schema. Blocks.
pub(crate) fn in_snapshot<T>(
    connection: &mut Connection,
    schema: &mut CheckedSchema,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = connection.transaction()?;
    schema.check(&transaction)?;
    work(&transaction)
}

const DATA_VERSION: &str = "PRAGMA data_version";

pub(crate) fn key(memory: &Memory, path: &StorePath) -> Key {
    (memory.name.clone(), path.clone())
}

/// The estimated size of a node in bytes.
fn size(node: &Node) -> usize {
    NODE_OVERHEAD
        + match node {
            Node::Absent => 0,
            Node::Directory(listing) => listing.files.len().saturating_mul(ENTRY_SIZE),
            Node::File(file) => file.content.len(),
        }
}
