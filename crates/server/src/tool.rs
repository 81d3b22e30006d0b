//! `POST /v1/memory_stores/{id}/tool`: the six commands.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use memory_tool::api::{RejectedToolUse, ToolResult, ToolUse};
use memory_tool::command::CommandName;
use memory_tool::store::MemoryName;
use memory_tool::{Answer, Memory, MemoryTool as _};
use serde_json::{Value, json};

use crate::access::{Caller, Right};
use crate::api::{exists, refuse_archived};
use crate::error::{ApiError, log_failure};
use crate::memories::OpenMemory;
use crate::path::Path;
use crate::service::Service;

/// Runs a `tool_use` block, its bare input, or all calls of a response of the Messages API, in order (`[X5]`).
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let name: MemoryName = id.parse().map_err(|_| ApiError::no_such_memory(&id))?;
    let open = open(&service, &caller, &name).await?;
    let body: Result<Value, _> = serde_json::from_slice(&body).map_err(|_| body);
    let command = body.as_ref().ok().and_then(command);
    let running = run(open, caller, command, body);
    if command == Some(CommandName::View) {
        return running.await.map(Json);
    }
    // A client that goes away must not leave the later calls of its turn undone.
    tokio::spawn(running).await.map_err(ApiError::internal)?.map(Json)
}

/// Runs the calls in a body, or reports that it is not JSON.
async fn run(
    open: Arc<OpenMemory>,
    caller: Caller,
    command: Option<CommandName>,
    body: Result<Value, Bytes>,
) -> Result<Value, ApiError> {
    let memory = open.by(&caller);
    let _turn = open.queue.enter(command).await;
    admit(&open, caller.creates(), command).await?;
    match body {
        Ok(response) if response["content"].is_array() && response["type"] != "tool_use" => {
            match memory.runner().answer(&response).await {
                Answer::ToolResults { message, failures, .. } => {
                    failures.iter().for_each(|failure| report(&failure.error));
                    Ok(json!({"content": message["content"]}))
                }
                Answer::Done => Ok(json!({"content": []})),
                Answer::Stopped { stop_reason, .. } => {
                    Err(ApiError::invalid(format!("the response is incomplete: stop_reason is {stop_reason:?}")))
                }
                _ => Err(ApiError::invalid("the body is not a response of the Messages API")),
            }
        }
        Ok(call) => Ok(json!({"content": [result(&memory, ToolUse::from_value(call)).await]})),
        Err(invalid) => Ok(json!({"content": [result(&memory, ToolUse::parse(&invalid)).await]})),
    }
}

/// Opens a memory for the commands of a caller, or creates it if the caller may.
pub(crate) async fn open(service: &Service, caller: &Caller, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
    caller.check(Right::Tool, Some(name))?;
    if caller.creates() { service.memories.create(name).await } else { service.memories.open(name).await }
}

/// Refuses a command of a memory that does not exist, and a change of an archived one, in the turn of the command.
pub(crate) async fn admit(open: &Arc<OpenMemory>, creates: bool, command: Option<CommandName>) -> Result<(), ApiError> {
    // Something can remain in the storage of a memory that was deleted.
    if !creates && !exists(open).await? {
        return Err(ApiError::no_such_memory(open.name.as_str()));
    }
    refuse_archived(open, command).await
}

/// The command of a single call.
fn command(body: &Value) -> Option<CommandName> {
    let input = if body["type"] == "tool_use" { &body["input"] } else { body };
    input["command"].as_str()?.parse().ok()
}

async fn result(memory: &Memory, call: Result<ToolUse, RejectedToolUse>) -> ToolResult {
    match call {
        Ok(call) => {
            let outcome = memory.tool().call(call.input).await;
            outcome.as_ref().err().into_iter().for_each(report);
            ToolResult::new(call.id, &outcome)
        }
        Err(rejected) => rejected.into(),
    }
}

/// Logs a failure of the storage. Other errors are of the client.
fn report(error: &memory_tool::Error) {
    if std::error::Error::source(error).is_some() {
        log_failure(error);
    }
}
