//! [`ToolRunner`]: runs the tool calls in a response of the Messages API.

use serde_json::{Value, json};

use crate::api::wire::{ToolResult, ToolUse};
use crate::store::quote::quote;
use crate::tool::MemoryTool;
use crate::tool::content::Content;
use crate::tool::definition::TOOL_NAME;
use crate::tool::error::{Error, InputError};

/// Runs the tool calls in a response, and returns the message to send next.
///
/// Responses and messages are JSON values, so the runner works with any HTTP client.
///
/// ```
/// use memory_tool_core::{Answer, Engine, InMemoryStore, ToolRunner};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
/// let mut messages = vec![json!({"role": "user", "content": "What do you know of me?"})];
/// // The API's response to these messages, with `runner.tool().definition()` among the tools.
/// let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "text", "text": "I'll check my memory and the time."},
///     {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}},
///     {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}},
/// ]});
/// messages.push(json!({"role": "assistant", "content": response["content"]}));
/// // The closure runs the calls of the program's other tools. Without any, call `answer`.
/// match runner.answer_with(&response, |call| async move { Ok(format!("{}: 12:30", call["name"]).into()) }).await {
///     Answer::ToolResults { message, failures, .. } => {
///         for failure in failures {
///             eprintln!("{}: {:?}", failure.tool_use_id, failure.error); // for the operator, with its causes
///         }
///         messages.push(message); // and send the next request
///     }
///     Answer::Done => println!("Claude is done"),
///     Answer::Stopped { stop_reason, .. } => eprintln!("the response is incomplete: {stop_reason}"),
///     Answer::NotAResponse { reason, .. } => eprintln!("the request failed: {reason}"),
///     _ => {}
/// }
/// assert_eq!(messages[2]["content"][1]["content"], "\"clock\": 12:30");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Behavior
/// 1. The calls run sequentially, in the order of the response (`[X5]`). The results have the same order.
/// 2. Every call has a result, since the API refuses a message without one of them. Failed commands, invalid inputs and
///    storage failures are results with `is_error`, and their messages are safe to show to the model.
/// 3. Storage failures and their causes are also reported in [`ToolRun::failures`], for the operator.
/// 4. If the future is dropped, the current command is either complete or has no effect, and later commands do not run.
#[derive(Clone, Debug)]
pub struct ToolRunner<T> {
    tool: T,
}

impl<T: MemoryTool> ToolRunner<T> {
    /// Creates a runner for `tool`, such as an `Arc<dyn MemoryTool>`.
    pub fn new(tool: T) -> Self {
        Self { tool }
    }

    /// The tool.
    pub fn tool(&self) -> &T {
        &self.tool
    }

    /// Runs the calls in a response of the API, for a program whose only tool is the memory. The result of a call of
    /// another tool is an error.
    pub async fn answer(&self, response: &Value) -> Answer {
        let unknown = |call: Value| async move {
            let name = call["name"].as_str().unwrap_or_default().to_owned();
            Err(Error::Input(InputError::UnknownTool { name }).to_string())
        };
        self.answer_with(response, unknown).await
    }

    /// Runs the calls in a response of the API. `other` gets each `tool_use` block of another tool, and returns the
    /// content of its result, or an error message for the model.
    pub async fn answer_with<F, R>(&self, response: &Value, other: F) -> Answer
    where
        F: Fn(Value) -> R + Send,
        R: Future<Output = Result<Content, String>> + Send,
    {
        let Some(content) = response["content"].as_array() else { return Answer::not_a_response(response) };
        match response["stop_reason"].as_str() {
            None | Some("tool_use") => {}
            Some("end_turn" | "stop_sequence") => return Answer::Done,
            Some(other) => return Answer::Stopped { stop_reason: other.to_owned() },
        }
        let mut run = ToolRun::default();
        for block in calls(content) {
            if block["name"] == TOOL_NAME {
                self.run_call(block, &mut run).await;
            } else {
                let (content, is_error) = match other(block.clone()).await {
                    Ok(content) => (content, false),
                    Err(message) => (Content::Text(message), true),
                };
                let tool_use_id = block["id"].as_str().map(str::to_owned);
                run.results.push(ToolResult { tool_use_id, content, is_error });
            }
        }
        if run.results.is_empty() {
            return Answer::Done;
        }
        let message = json!({"role": "user", "content": run.results});
        Answer::ToolResults { message, failures: run.failures }
    }

    /// Runs the memory calls among the blocks of the `content` of a response.
    ///
    /// Check first that the `stop_reason` of the response is `tool_use`. Otherwise the input of a call may be
    /// truncated.
    pub async fn run(&self, content: &[Value]) -> ToolRun {
        let mut run = ToolRun::default();
        for block in calls(content) {
            if block["name"] == TOOL_NAME {
                self.run_call(block, &mut run).await;
            } else {
                run.others.push(block.clone());
            }
        }
        run
    }

    async fn run_call(&self, block: &Value, run: &mut ToolRun) {
        let (id, outcome) = match ToolUse::from_value(block.clone()) {
            Ok(call) => (call.id, self.tool.call(call.input).await),
            Err(rejected) => (rejected.id, Err(rejected.error)),
        };
        run.results.push(ToolResult::new(id.clone(), &outcome));
        if let Err(error @ (Error::Storage { .. } | Error::Other { source: Some(_), .. })) = outcome {
            run.failures.push(ToolFailure { tool_use_id: id.unwrap_or_default(), error });
        }
    }
}

fn calls(content: &[Value]) -> impl Iterator<Item = &Value> {
    content.iter().filter(|block| block["type"] == "tool_use")
}

/// The result of [`ToolRunner::answer`].
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub enum Answer {
    /// Claude called tools. Send the message in the next request.
    #[non_exhaustive]
    ToolResults {
        /// The user message with the results of all calls, in the order of the response.
        message: Value,
        /// The storage failures, with causes that are not in the results.
        failures: Vec<ToolFailure>,
    },
    /// Claude is done: the response contains no call.
    Done,
    /// The response stopped for another reason, such as `max_tokens`, `refusal` or `pause_turn`. No call ran, because
    /// its input may be truncated.
    #[non_exhaustive]
    Stopped {
        /// The reason that the response states.
        stop_reason: String,
    },
    /// The value is not a response, such as the body of an API error.
    #[non_exhaustive]
    NotAResponse {
        /// The API's error, or the missing part. It is for the operator.
        reason: String,
    },
}

impl Answer {
    /// The message with the results, or `None` for any other answer.
    pub fn into_message(self) -> Option<Value> {
        match self {
            Self::ToolResults { message, .. } => Some(message),
            Self::Done | Self::Stopped { .. } | Self::NotAResponse { .. } => None,
        }
    }

    fn not_a_response(value: &Value) -> Self {
        let error = &value["error"];
        let reason = match (error["type"].as_str(), error["message"].as_str()) {
            (Some(kind), Some(message)) => quote(&format!("{kind}: {message}")),
            _ => "the value has no array `content`".to_owned(),
        };
        Self::NotAResponse { reason }
    }
}

/// The results of the memory calls in a response.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ToolRun {
    /// The result of each memory call, in the order of the response.
    pub results: Vec<ToolResult>,
    /// The storage failures, with causes that are not in the results.
    pub failures: Vec<ToolFailure>,
    /// The `tool_use` blocks of other tools, unchanged. The caller must add a `tool_result` for each to the same
    /// message.
    pub others: Vec<Value>,
}

/// A memory call that failed because of the storage.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolFailure {
    /// The id of the `tool_use` block.
    pub tool_use_id: String,
    /// The error, with the causes as its sources.
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::store::batch::Batch;
    use crate::store::error::{ErrorKind, StoreError};
    use crate::store::in_memory::InMemoryStore;
    use crate::store::node::Node;
    use crate::store::store_path::StorePath;
    use crate::store::{ReadOptions, Store};
    use crate::tool::engine::Engine;

    fn call(id: &str, input: Value) -> Value {
        json!({"type": "tool_use", "id": id, "name": "memory", "input": input})
    }

    fn create(path: &str) -> Value {
        json!({"command": "create", "path": path, "file_text": "text"})
    }

    #[tokio::test]
    async fn every_memory_call_has_a_result_in_order() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let other = json!({"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "ls"}});
        let run = runner
            .run(&[
                json!({"type": "thinking", "thinking": "memory", "signature": "x"}),
                json!({"type": "text", "text": "tool_use"}),
                call("toolu_1", create("/memories/a")),
                other.clone(),
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "memory", "input": {}}),
                call("toolu_3", json!({"command": "view", "path": "/memories/a"})),
                call("toolu_4", json!({"command": "view", "path": "/memories/../a"})),
                json!({"type": "tool_use", "id": "toolu_5", "name": "memory"}),
                call("toolu_6", json!({"command": "chmod"})),
                json!("tool_use"),
            ])
            .await;
        let outcomes: Vec<_> =
            run.results.iter().map(|result| (result.tool_use_id.as_deref().unwrap(), result.is_error)).collect();
        let expected =
            [("toolu_1", false), ("toolu_3", false), ("toolu_4", true), ("toolu_5", true), ("toolu_6", true)];
        assert_eq!(outcomes, expected);
        assert_eq!(run.others, [other]);
        assert!(run.failures.is_empty(), "mistakes of the model are not failures");
    }

    #[tokio::test]
    async fn answer_returns_the_next_message() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let view = json!({"command": "view", "path": "/memories/a"});
        let response = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "text", "text": "First I make a note."},
            call("toolu_1", create("/memories/a")),
            call("toolu_2", view.clone()),
        ]});
        let results = [
            json!({"type": "tool_result", "tool_use_id": "toolu_1",
                "content": "File created successfully at: /memories/a"}),
            json!({"type": "tool_result", "tool_use_id": "toolu_2",
                "content": "Here's the content of /memories/a with line numbers:\n     1\ttext"}),
        ];
        let message = runner.answer(&response).await.into_message();
        assert_eq!(message, Some(json!({"role": "user", "content": results})));
        for without_reason in
            [json!({"content": [call("t", view.clone())]}), json!({"content": [call("t", view)], "stop_reason": null})]
        {
            assert!(runner.answer(&without_reason).await.into_message().is_some(), "{without_reason}");
        }
    }

    #[tokio::test]
    async fn every_call_of_another_tool_has_a_result_too() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let other =
            |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {"zone": "UTC"}});
        let response = json!({"stop_reason": "tool_use", "content": [
            other("toolu_1", "clock"), call("toolu_2", create("/memories/a")), other("toolu_3", "bash")]});
        let run_other = |call: Value| async move {
            if call["name"] == "clock" {
                Ok(format!("12:30 {}", call["input"]["zone"]).into())
            } else {
                Err("no".to_owned())
            }
        };
        let message = runner.answer_with(&response, run_other).await.into_message().unwrap();
        assert_eq!(
            message["content"],
            json!([
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12:30 \"UTC\""},
                {
                    "type": "tool_result", "tool_use_id": "toolu_2",
                    "content": "File created successfully at: /memories/a",
                },
                {"type": "tool_result", "tool_use_id": "toolu_3", "content": "no", "is_error": true},
            ])
        );
        let response = json!({"stop_reason": "tool_use", "content": [other("toolu_1", "clock")]});
        let message = runner.answer(&response).await.into_message().unwrap();
        let unknown = "Error: Unknown tool: clock. The only tool here is memory.";
        assert_eq!(
            message["content"][0],
            json!(
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": unknown, "is_error": true})
        );
    }

    #[tokio::test]
    async fn other_answers_are_kept_apart() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let text = json!([7, null, "memory", {"type": "text", "text": "Done."}]);
        for done in [
            json!({"content": []}),
            json!({"content": text, "stop_reason": "tool_use"}),
            json!({"content": text, "stop_reason": "end_turn"}),
            json!({"content": text, "stop_reason": "stop_sequence"}),
        ] {
            assert!(matches!(runner.answer(&done).await, Answer::Done), "{done}");
        }
        for reason in ["max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", "a new one"] {
            let response = json!({"stop_reason": reason, "content": [call("t", create("/memories/a"))]});
            let answer = runner.answer(&response).await;
            assert!(matches!(answer, Answer::Stopped { stop_reason } if stop_reason == reason), "{reason}");
        }
        let view = json!({"command": "view", "path": "/memories/a"});
        assert!(runner.tool().call(view).await.is_err(), "no call was run");
        let no_content = "the value has no array `content`";
        for (value, expected) in [
            (json!(null), no_content),
            (json!("tool_use"), no_content),
            (json!([call("t", create("/memories/a"))]), no_content),
            (json!({"content": "tool_use"}), no_content),
            (json!({"content": {"type": "tool_use"}}), no_content),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "overloaded_error: Overloaded",
            ),
        ] {
            let answer = runner.answer(&value).await;
            assert!(matches!(&answer, Answer::NotAResponse { reason } if reason == expected), "{answer:?}");
        }
    }

    /// A store that fails with a message for the operator.
    #[derive(Debug)]
    struct FailingStore;

    fn failure() -> StoreError {
        StoreError::failure(ErrorKind::AccessDenied, "reading", "secret-bucket: 403")
    }

    #[async_trait]
    impl Store for FailingStore {
        async fn read_opts(&self, _: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            Err(failure())
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            Err(failure())
        }
    }

    #[tokio::test]
    async fn the_cause_of_a_storage_failure_is_only_in_the_failures() {
        let runner = ToolRunner::new(Engine::new(FailingStore));
        let run = runner.run(&[call("toolu_1", create("/memories/a")), call("toolu_2", create("/memories/b"))]).await;
        assert!(run.results.iter().all(|result| result.is_error));
        assert!(!json!(run.results).to_string().contains("secret"));
        let ids: Vec<_> = run.failures.iter().map(|failure| failure.tool_use_id.as_str()).collect();
        assert_eq!(ids, ["toolu_1", "toolu_2"]);
        assert!(format!("{:?}", run.failures[0].error).contains("secret-bucket: 403"));
    }
}
