//! `POST /v1/memory_stores/{id}/tool`: the six commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use memory_tool::Memory;
use memory_tool::api::{Content, ContentBlock, ImageSource, RejectedToolUse, ToolResult, ToolUse};
use memory_tool::command::CommandName;
use serde_json::Value;
use tracing::{Instrument as _, Span};

use crate::access::Caller;
use crate::http::error::{ApiError, log_failure, report_failure, sentence};
use crate::http::gate::{Excess, Running};
use crate::http::json::refuse_many_values;
use crate::http::offload::offload;
use crate::http::path::Path;
use crate::memories::failure::outcome_name;
use crate::memories::visit::{Door, Purpose, paths_in};
use crate::service::Service;

/// The calls that one request runs, and the bytes of its results. The Messages API accepts requests of up to 32 MB.
const MAX_CALLS: usize = 100;
const MAX_RESULTS: usize = 16 * 1024 * 1024;

/// Runs a `tool_use` block, its bare input, or all calls of a response of the Messages API, in order (`[X5]`).
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    Extension(running): Extension<Arc<Running>>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let door = Door::for_tool(&service.memories, &caller, &id).await?;
    let called = Called::parse(&body)?;
    drop(body); // it can be large
    let door = door.touching(called.paths());
    let (command, processors) = (called.command(), Arc::clone(&door.open.processors));
    let answering = answer(door, running, command, called);
    let results = match command {
        Some(CommandName::View) => offload(processors, answering).await?,
        // A client that goes away must not leave the later calls of its turn undone.
        Some(_) => tokio::spawn(answering.in_current_span()).await.map_err(ApiError::internal)??,
        None => tokio::spawn(offload(processors, answering).in_current_span()).await.map_err(ApiError::internal)??,
    };
    Ok(([(CONTENT_TYPE, "application/json")], results).into_response())
}

/// The calls in a body.
enum Called {
    One(Result<ToolUse, RejectedToolUse>),
    /// The blocks of a response of the Messages API.
    Response(Vec<Value>),
}

impl Called {
    fn parse(body: &[u8]) -> Result<Self, ApiError> {
        refuse_many_values(body)?;
        let Ok(mut value) = serde_json::from_slice::<Value>(body) else { return Ok(Self::One(ToolUse::parse(body))) };
        if value["type"] == "tool_use" || !value["content"].is_array() {
            return Ok(Self::One(ToolUse::from_value(value)));
        }
        let blocks = value["content"].take();
        match (value["stop_reason"].as_str(), blocks) {
            (None | Some("tool_use"), Value::Array(blocks)) => Ok(Self::Response(blocks)),
            (None | Some("end_turn" | "stop_sequence"), _) => Ok(Self::Response(Vec::new())),
            (Some(stop_reason), _) => {
                Err(ApiError::invalid(format!("the response is incomplete: stop_reason is {stop_reason:?}")))
            }
        }
    }

    /// The paths that the calls name.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let (input, blocks) = match self {
            Self::One(call) => (call.as_ref().ok().map(|call| &call.input), &[][..]),
            Self::Response(blocks) => (None, blocks.as_slice()),
        };
        input
            .into_iter()
            .chain(blocks.iter().map(|block| &block["input"]))
            .filter_map(Value::as_object)
            .flat_map(paths_in)
    }

    /// The command of a single call.
    fn command(&self) -> Option<CommandName> {
        if let Self::One(Ok(call)) = self { command(call) } else { None }
    }
}

fn command(call: &ToolUse) -> Option<CommandName> {
    call.input["command"].as_str()?.parse().ok()
}

/// The results of all calls in JSON.
async fn answer(
    door: Door,
    running: Arc<Running>,
    command: Option<CommandName>,
    called: Called,
) -> Result<Vec<u8>, ApiError> {
    let visit = door.enter(Purpose::Run(command)).await?;
    let mut turn = Turn { memory: visit.whole()?, running, results: Vec::new(), bytes: 0, outcomes: BTreeSet::new() };
    match called {
        Called::One(call) => turn.run(call).await,
        Called::Response(blocks) => {
            for block in blocks.into_iter().filter(|block| block["type"] == "tool_use") {
                turn.run(ToolUse::from_value(block)).await;
            }
        }
    }
    Span::current().record("outcome", turn.outcomes.into_iter().collect::<Vec<_>>().join(", "));
    // Growth would copy it.
    let mut json = Vec::with_capacity(turn.bytes + turn.bytes / 16 + 1_024);
    serde_json::to_writer(&mut json, &BTreeMap::from([("content", turn.results)])).map_err(ApiError::internal)?;
    Ok(json)
}

/// The calls of one request, and their results. A client can call for gigabytes with a few kilobytes.
struct Turn {
    memory: Memory,
    running: Arc<Running>,
    results: Vec<ToolResult>,
    /// The length of the results.
    bytes: usize,
    /// The outcomes for the log.
    outcomes: BTreeSet<&'static str>,
}

impl Turn {
    /// Adds the result of a call. Each call needs one.
    async fn run(&mut self, call: Result<ToolUse, RejectedToolUse>) {
        let result = match call {
            Ok(ToolUse { id, .. }) if self.results.len() >= MAX_CALLS => {
                refused(id, format!("This turn has more than {MAX_CALLS} calls, so this one did not run. Call again."))
            }
            Ok(call) => self.result(call).await,
            Err(rejected) => {
                self.outcomes.insert(rejected.error.kind().name());
                rejected.into()
            }
        };
        self.results.push(result);
    }

    async fn result(&mut self, call: ToolUse) -> ToolResult {
        let is_view = command(&call) == Some(CommandName::View);
        if is_view && self.bytes > MAX_RESULTS {
            return too_long(call.id);
        }
        let outcome = self.memory.tool().call(call.input).await;
        outcome.as_ref().err().into_iter().for_each(|error| report_failure(error, log_failure));
        self.outcomes.insert(outcome_name(&outcome));
        let result = ToolResult::new(call.id, &outcome);
        drop(outcome);
        self.bytes += length(&result.content);
        if is_view && self.bytes > MAX_RESULTS {
            return too_long(result.tool_use_id);
        }
        if let Err(busy) = self.running.count_reply(self.bytes, Excess::of_reply(is_view)) {
            self.bytes -= length(&result.content);
            return refused(result.tool_use_id, sentence(&busy.to_string()));
        }
        result
    }
}

fn length(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::Blocks(blocks) => blocks.iter().map(block_length).sum(),
    }
}

fn block_length(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::Image { source: ImageSource::Base64 { data, .. } } => data.len(),
        _ => 0,
    }
}

fn too_long(id: Option<String>) -> ToolResult {
    refused(id, "The results of this turn have more than 16 MiB. View this again in another turn.")
}

fn refused(id: Option<String>, message: impl AsRef<str>) -> ToolResult {
    ToolResult::error(id, &memory_tool::Error::other(format!("Error: {}", message.as_ref())))
}
