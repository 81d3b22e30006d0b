//! `memory-tool mcp`: the server of the Model Context Protocol.

mod changes;
mod order;
mod page;
mod schema;
mod stdio;
mod tidy;

use std::process::Command;

use memory_tool_test_fixtures::session::{Place, program};
use serde_json::{Value, json};

/// A command that serves the store of a place with these options.
fn server(place: &Place, options: &[&str]) -> Command {
    let mut server = program();
    server.arg("mcp").arg("--store").arg(place.store()).args(options);
    server
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The first request of a client of a revision before 2026-07-28.
fn initialize(id: u64, revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request(id, "initialize", json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client}))
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// A request of a client of the revision 2026-07-28, which has no session.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, params)
}

fn call(id: u64, input: Value) -> Value {
    request(id, "tools/call", json!({"name": "memory", "arguments": input}))
}

fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {response}"))
}
