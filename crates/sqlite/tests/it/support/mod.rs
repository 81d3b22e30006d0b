//! A database in a temporary directory, and access to it as a model, a program and another process.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use memory_tool_core::{Batch, Engine, MemoryName, MemoryTool, Node, OpenError, Store, StoreError, StoreExt};
use memory_tool_sqlite::{OpenFailure, SqliteStore};
use memory_tool_test_fixtures::directory_in_ram;
pub(crate) use memory_tool_test_fixtures::path;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn name(text: &str) -> MemoryName {
    text.parse().unwrap()
}

pub(crate) struct TestDirectory {
    directory: TempDir,
}

impl TestDirectory {
    /// A directory on the disk. `in_ram` is for tests with many changes that need no flush.
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    /// A directory with a new database.
    pub(crate) async fn opened() -> (Self, SqliteStore) {
        let directory = Self::new();
        let store = directory.open().await;
        (directory, store)
    }

    pub(crate) fn in_ram() -> Self {
        Self { directory: directory_in_ram().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.path().join("memory.sqlite")
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        SqliteStore::open(self.database()).await.unwrap()
    }

    /// A connection of another program.
    pub(crate) fn connection(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }
}

/// Starts an ignored test in another process. It uses the database `database_of_the_test`.
pub(crate) fn start_test(test: &str, database: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let command = &mut Command::new(program);
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(DATABASE, database);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

const DATABASE: &str = "MEMORY_TOOL_TEST_DATABASE";

pub(crate) fn database_of_the_test() -> PathBuf {
    std::env::var_os(DATABASE).unwrap().into()
}

/// The reason why a database was not opened.
pub(crate) fn cause(error: &OpenError) -> &OpenFailure {
    error.source().and_then(|source| source.downcast_ref()).unwrap()
}

pub(crate) async fn write(store: &SqliteStore, at: &str, content: &str) -> Result<(), StoreError> {
    store.apply(Batch::new().write(path(at), content)).await
}

pub(crate) async fn read(store: &SqliteStore, at: &str) -> Option<String> {
    match store.read(&path(at)).await.unwrap() {
        Node::File(file) => Some(String::from_utf8(file.content).unwrap()),
        _ => None,
    }
}

/// The reply or error that the model reads.
pub(crate) async fn call(store: &SqliteStore, input: Value) -> String {
    match Engine::new(store.clone()).call(input).await {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}
