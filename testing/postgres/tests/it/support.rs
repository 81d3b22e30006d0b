//! A server with a role and a database.

use memory_tool_core::{Engine, MemoryTool as _, OpenOptions, Store, StoreError, StoreExt as _, StorePath};
use memory_tool_postgres::{PostgresStore, PostgresStoreBuilder};
use memory_tool_test_servers::PostgresServer;
use serde_json::Value;

/// The role that owns the database of the same name.
pub(crate) const OWNER: &str = "keeper";

/// Creates the role and the database.
pub(crate) fn create_owner(server: &PostgresServer) {
    server.sql(&format!("CREATE ROLE {OWNER} LOGIN PASSWORD 'secret'")).unwrap();
    server.sql(&format!("CREATE DATABASE {OWNER} OWNER {OWNER}")).unwrap();
}

/// Starts a server with the role and the database.
pub(crate) fn server() -> PostgresServer {
    let server = PostgresServer::start().unwrap();
    create_owner(&server);
    server
}

pub(crate) fn builder(url: &str) -> PostgresStoreBuilder {
    PostgresStoreBuilder::from_url(url).unwrap()
}

pub(crate) async fn open(url: &str) -> PostgresStore {
    builder(url).open().await.unwrap()
}

pub(crate) fn read_only(url: &str) -> PostgresStoreBuilder {
    builder(url).options(OpenOptions::new().read_only())
}

pub(crate) fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

pub(crate) async fn write(store: &impl Store, file: &str, text: &str) -> Result<(), StoreError> {
    store.apply(memory_tool_core::Batch::new().write(path(file), text)).await
}

pub(crate) async fn text(store: &impl Store, file: &str) -> Option<String> {
    let file = store.read(file).await.unwrap().into_file()?;
    Some(String::from_utf8(file.content).unwrap())
}

/// The reply that a model gets.
pub(crate) async fn reply(store: &PostgresStore, input: Value) -> String {
    match Engine::new(store.clone()).call(input).await {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}
