//! [`ToolRunner`]: runs the memory calls in a response of the Messages API.

use serde_json::{Value, json};

use crate::definition::TOOL_NAME;
use crate::error::Error;
use crate::tool::MemoryTool;
use crate::wire::{ToolResult, ToolUse};

/// Runs the memory calls in a response, and returns the message to send next.
///
/// Responses and messages are JSON values, so the runner works with any HTTP client.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, ToolRunner};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
/// let mut messages = vec![json!({"role": "user", "content": "What do you know of me?"})];
/// // The API's response to these messages, with `runner.tool().definition()` among the tools.
/// let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "text", "text": "I'll check my memory."},
///     {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}},
/// ]});
/// messages.push(json!({"role": "assistant", "content": response["content"]}));
/// messages.extend(runner.answer(&response).await); // `None` if Claude is done
/// assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_1");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Use [`run`](Self::run) if the program also has other tools, or logs storage failures:
///
/// ```
/// # use memory_tool_core::{Engine, InMemoryStore, ToolRunner};
/// # use serde_json::json;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
/// # let response = json!({"content": [
/// #     {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}},
/// #     {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}},
/// # ]});
/// let run = runner.run(response["content"].as_array().map_or(&[][..], Vec::as_slice)).await;
/// for failure in &run.failures {
///     eprintln!("{}: {:?}", failure.tool_use_id, failure.error); // for the operator, with its causes
/// }
/// let mut results: Vec<_> = run.results.iter().map(|result| json!(result)).collect();
/// for call in &run.others {
///     results.push(json!({"type": "tool_result", "tool_use_id": call["id"], "content": "12:30"}));
/// }
/// let message = json!({"role": "user", "content": results});
/// # assert_eq!(message["content"][1]["tool_use_id"], "toolu_2");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Behavior
/// 1. The calls run sequentially, in the order of the response. The results have the same order.
/// 2. Every memory call has a result. Failed commands, invalid inputs and storage failures are results with `is_error`,
///    and their messages are safe to show to the model.
/// 3. Storage failures and their causes are also reported in [`ToolRun::failures`], for the operator.
/// 4. Calls of other tools are returned in [`ToolRun::others`]. Other content blocks are ignored.
/// 5. If the future is dropped, the current command is either complete or has no effect, and later commands do not run.
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

    /// Runs the memory calls in a response, and returns the user message with their results.
    ///
    /// Returns `None` if the value contains no memory call, is not a response, or has a `stop_reason` other than
    /// `tool_use`. After another stop reason, such as `max_tokens`, the input of a call may be truncated. The calls run
    /// if `stop_reason` is missing.
    ///
    /// The message contains no causes of failures and no results of other tools, which the API expects in the same
    /// message. Use [`run`](Self::run) if you log failures or have other tools.
    pub async fn answer(&self, response: &Value) -> Option<Value> {
        let content = response["content"].as_array()?;
        let is_whole = response["stop_reason"].is_null() || response["stop_reason"] == "tool_use";
        if is_whole { self.run(content).await.to_message() } else { None }
    }

    /// Runs the memory calls among the blocks of the `content` of a response.
    ///
    /// Check first that the `stop_reason` of the response is `tool_use`. Otherwise the input of a call may be
    /// truncated.
    pub async fn run(&self, content: &[Value]) -> ToolRun {
        let mut run = ToolRun::default();
        for block in content.iter().filter(|block| block["type"] == "tool_use") {
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

impl ToolRun {
    /// The user message with the results, or `None` if there were no memory calls. Add the results of
    /// [other tools](Self::others) to its `content`, because the API expects all results in one message.
    pub fn to_message(&self) -> Option<Value> {
        (!self.results.is_empty()).then(|| json!({"role": "user", "content": self.results}))
    }
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
    use crate::batch::Batch;
    use crate::engine::Engine;
    use crate::in_memory::InMemoryStore;
    use crate::node::{Node, StoredFile};
    use crate::path::MemoryPath;
    use crate::record::RecordName;
    use crate::store::{ReadOptions, Store};
    use crate::store_error::{FailureKind, StoreError};

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
        let message = run.to_message().unwrap();
        assert_eq!(message["role"], "user");
        assert_eq!(message["content"][0]["content"], "File created successfully at: /memories/a");
        assert_eq!(message["content"].as_array().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn a_response_without_memory_calls_has_no_message() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let run = runner.run(&[json!({"type": "text", "text": "Done."})]).await;
        assert!(run.results.is_empty() && run.to_message().is_none());
    }

    #[tokio::test]
    async fn answer_returns_the_next_message() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let view = json!({"command": "view", "path": "/memories/a"});
        let response = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "text", "text": "First I make a note."},
            call("toolu_1", create("/memories/a")),
            {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "ls"}},
            call("toolu_3", view.clone()),
        ]});
        let results = [
            json!({"type": "tool_result", "tool_use_id": "toolu_1",
                "content": "File created successfully at: /memories/a"}),
            json!({"type": "tool_result", "tool_use_id": "toolu_3",
                "content": "Here's the content of /memories/a with line numbers:\n     1\ttext"}),
        ];
        assert_eq!(runner.answer(&response).await, Some(json!({"role": "user", "content": results})));
        for without_reason in
            [json!({"content": [call("t", view.clone())]}), json!({"content": [call("t", view)], "stop_reason": null})]
        {
            assert!(runner.answer(&without_reason).await.is_some(), "{without_reason}");
        }
    }

    #[tokio::test]
    async fn answer_returns_none_without_a_memory_call() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let bash = json!({"type": "tool_use", "id": "t", "name": "bash", "input": {}});
        for response in [
            json!(null),
            json!(7),
            json!("tool_use"),
            json!([call("t", create("/memories/a"))]),
            json!({}),
            json!({"content": null}),
            json!({"content": "tool_use"}),
            json!({"content": {"type": "tool_use"}}),
            json!({"content": []}),
            json!({"content": [7, null, "memory", {"type": "text", "text": "Done."}, bash]}),
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ] {
            assert_eq!(runner.answer(&response).await, None, "{response}");
        }
    }

    #[tokio::test]
    async fn a_response_that_may_be_truncated_is_not_run() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        for stop_reason in ["max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", "a new one"] {
            let response = json!({"stop_reason": stop_reason, "content": [call("t", create("/memories/a"))]});
            assert_eq!(runner.answer(&response).await, None, "{stop_reason}");
        }
        let view = json!({"command": "view", "path": "/memories/a"});
        assert!(runner.tool().call(view).await.is_err(), "no call was run");
    }

    /// A store that fails with a message for the operator.
    #[derive(Debug)]
    struct FailingStore;

    fn failure() -> StoreError {
        StoreError::failure(FailureKind::AccessDenied, "reading", "secret-bucket: 403")
    }

    #[async_trait]
    impl Store for FailingStore {
        async fn read_opts(&self, _: &MemoryPath, _: ReadOptions) -> Result<Node, StoreError> {
            Err(failure())
        }

        async fn read_record(&self, _: &RecordName) -> Result<Option<StoredFile>, StoreError> {
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
        assert!(!run.to_message().unwrap().to_string().contains("secret"));
        let ids: Vec<_> = run.failures.iter().map(|failure| failure.tool_use_id.as_str()).collect();
        assert_eq!(ids, ["toolu_1", "toolu_2"]);
        assert!(format!("{:?}", run.failures[0].error).contains("secret-bucket: 403"));
    }
}
