//! A custom `MemoryTool` that wraps another tool and rewrites its replies.
//! Run it: `cargo run -p examples --example custom_tool`

#![allow(clippy::print_stdout, reason = "an example prints")]

use async_trait::async_trait;
use memory_tool::command::{
    CreateCommand, DeleteCommand, InsertCommand, RenameCommand, Reply, StrReplaceCommand, ViewCommand,
};
use memory_tool::{Engine, Error, InMemoryStore, MemoryTool, ToolDefinition};
use serde_json::json;

/// A tool that replies in German. It leaves the output of `view` unchanged, because Claude relies on its format.
#[derive(Debug)]
struct German<T>(T);
/// Rewrites a reply. The provided methods `call` and `execute` end in the methods below, so no reply is missed.
fn in_german(outcome: Result<Reply, Error>) -> Result<Reply, Error> {
    let reply = match outcome.map_err(error_in_german)? {
        Reply::Created { path } => format!("Datei angelegt: {path}"),
        Reply::Replaced { path, snippet } => format!("{path} wurde geändert und lautet an dieser Stelle:\n{snippet}"),
        Reply::Inserted { path } => format!("{path} wurde geändert."),
        Reply::Deleted { path } => format!("Gelöscht: {path}"),
        Reply::Renamed { old_path, new_path } => format!("{old_path} heißt nun {new_path}"),
        Reply::Cleared => "Der Speicher ist leer.".to_owned(),
        other => return Ok(other),
    };
    Ok(Reply::Text(reply))
}
/// Rewrites some errors. The others stay in English, and storage errors keep the causes that operators need.
fn error_in_german(error: Error) -> Error {
    match error {
        Error::NotFound { path, .. } => Error::other(format!("Fehler: {path} gibt es nicht.")),
        Error::AlreadyExists { path } => Error::other(format!("Fehler: {path} gibt es schon.")),
        Error::NoMatch { path, old_str } => Error::other(format!("Fehler: „{old_str}“ steht nicht in {path}.")),
        other => other,
    }
}

#[async_trait]
impl<T: MemoryTool> MemoryTool for German<T> {
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        in_german(self.0.view(command).await)
    }
    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        in_german(self.0.create(command).await)
    }
    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        in_german(self.0.str_replace(command).await)
    }
    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        in_german(self.0.insert(command).await)
    }
    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        in_german(self.0.delete(command).await)
    }
    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        in_german(self.0.rename(command).await)
    }
    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        in_german(self.0.clear_all_memory().await)
    }
    fn definition(&self) -> ToolDefinition {
        self.0.definition()
    }
}

#[tokio::main]
async fn main() {
    let tool = German(Engine::new(InMemoryStore::new()));
    for input in [
        json!({"command": "create", "path": "/memories/tee.md", "file_text": "Anna nimmt Milch."}),
        json!({"command": "str_replace", "path": "/memories/tee.md", "old_str": "Milch", "new_str": "keine Milch"}),
        json!({"command": "delete", "path": "/memories/kaffee.md"}),
        json!({"command": "view", "path": "/memories/../etc/passwd"}),
    ] {
        let answer = tool.call(input).await;
        println!("{}", answer.map_or_else(|error| error.to_string(), |reply| reply.to_string()));
    }
}
