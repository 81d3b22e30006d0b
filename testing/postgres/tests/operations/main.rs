//! Operation of a store in PostgreSQL: roles, TLS, poolers and failures.

#![cfg(test)]
#![cfg(target_os = "linux")]

mod archives;
mod connections;
mod failures;
mod layer_cases;
mod opening;
mod poolers;
mod recent;
mod roles;
mod round_trips;

use std::time::Duration;

use memory_tool_core::{Engine, Error, ErrorKind, MemoryTool as _, OpenError, OpenOptions, Reply};
use memory_tool_postgres::PostgresStore;
use memory_tool_test_fixtures::linearizability::line_of;
use serde_json::{Value, json};

/// Enough for a server on a busy machine, and not long for a test that waits for it.
fn impatient() -> OpenOptions {
    OpenOptions::new().timeout(Duration::from_secs(1))
}

fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}

async fn run(store: &PostgresStore, command: Value) -> Result<Reply, Error> {
    Engine::new(store.clone()).call(command).await
}

async fn succeed(store: &PostgresStore, command: Value) -> String {
    let reply = run(store, command.clone()).await;
    reply.unwrap_or_else(|error| panic!("{command}: {}", operators_message(&error))).to_string()
}

/// Repeats a command until it succeeds: the session works again when the server does.
async fn succeed_again(store: &PostgresStore, command: Value) {
    let mut last = None;
    for _ in 0..100 {
        match run(store, command.clone()).await {
            Ok(_) => return,
            Err(error) => last = Some(operators_message(&error)),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{command} still fails: {last:?}");
}

/// Runs a command that must fail. The reply has only the kind of the failure. Returns the operator's message.
async fn fail(store: &PostgresStore, command: Value, kinds: &[ErrorKind]) -> String {
    let error = run(store, command.clone()).await.expect_err(&command.to_string());
    let message = operators_message(&error);
    assert!(kinds.contains(&error.kind()), "{command}: {:?}, {message}", error.kind());
    let reply = line_of(&Err(error));
    assert!(reply.contains("The memory storage") || reply.contains("outcome"), "{reply}");
    expect_no_secrets(&reply);
    message
}

/// The message with all its sources, without any password.
fn operators_message(error: &Error) -> String {
    with_sources(error)
}

fn message_of_opening(error: &OpenError) -> String {
    with_sources(error)
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        message += &format!(": {source}");
        next = source.source();
    }
    for text in [&message, &format!("{error:?}")] {
        assert!(!text.contains("secret-password"), "{text}");
    }
    message
}

/// A reply must not contain the password, the role, the database, or the host.
fn expect_no_secrets(reply: &str) {
    for secret in ["secret", "postgres", "127.0.0.1", "localhost", "/dev/shm", "/tmp"] {
        assert!(!reply.contains(secret), "{secret} is in {reply}");
    }
}
