//! Shared code of the tests on PostgreSQL: a [`Database`] on a server that starts on first use.
//!
//! The tests need Linux with the packages `postgresql` and `pgbouncer`. They fail without them.

#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memory_tool_core::{OpenError, OpenOptions};
use memory_tool_postgres::{PostgresStore, PostgresStoreBuilder};
use memory_tool_test_servers::PostgresServer;

/// The environment variable with the URL of the store that a process serves.
const URL: &str = "MEMORY_TOOL_TEST_URL";

/// The timeout of operations. On a busy machine, the server may not run for longer than the default.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A database with a role that owns it. Replies must contain neither name.
#[derive(Clone, Debug)]
pub struct Database {
    name: String,
    role: String,
}

impl Database {
    /// Creates a database and a role of the same name on the server.
    pub fn new(server: &PostgresServer) -> Self {
        Self::with_options(server, "")
    }

    /// Creates a database with more options of `CREATE DATABASE`.
    pub fn with_options(server: &PostgresServer, options: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (name, role) = (format!("secret_database_{number}"), format!("secret_role_{number}"));
        server.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret-password'")).unwrap();
        server.sql(&format!("CREATE DATABASE {name} OWNER {role} {options}")).unwrap();
        Self { name, role }
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The role that owns the database. Its password is `secret-password`.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The URL on the server's Unix socket.
    pub fn url(&self, server: &PostgresServer) -> String {
        server.url(&self.role, &self.name)
    }
}

/// The server that the tests of this process share. It never flushes, so no test may kill it.
pub fn server() -> &'static PostgresServer {
    static SERVER: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start().unwrap());
    &SERVER
}

/// Opens the store at a URL, with the timeout of tests.
///
/// # Errors
/// The errors of the store.
pub async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    open_with(url, OpenOptions::new().timeout(TIMEOUT)).await
}

/// Opens the store at a URL.
///
/// # Errors
/// The errors of the store.
pub async fn open_with(url: &str, options: OpenOptions) -> Result<PostgresStore, OpenError> {
    builder(url).options(options).open().await
}

/// Returns a builder of the store at a URL.
pub fn builder(url: &str) -> PostgresStoreBuilder {
    PostgresStoreBuilder::from_url(url).unwrap()
}

/// Passes the URL of a store to a process.
pub fn name_store(process: &mut Command, url: &str) {
    process.env(URL, url);
}

/// The URL of the store that this process serves, if a test started it.
pub fn named_store() -> Option<String> {
    std::env::var(URL).ok()
}
