//! [`ToolRunner`]: answers the memory calls in a response of the Messages API, whatever client received it.

use serde_json::{Value, json};

use crate::definition::TOOL_NAME;
use crate::error::Error;
use crate::tool::MemoryTool;
use crate::wire::{ToolResult, ToolUse};

/// Runs the memory calls of a response, and returns the message to send next.
///
/// It knows nothing of HTTP: a response goes in as JSON, a message comes out as JSON, so it fits any client.
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
///     {"type": "text", "text": "I'll look into my memory."},
///     {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}},
/// ]});
/// messages.push(json!({"role": "assistant", "content": response["content"]}));
/// messages.extend(runner.answer(&response).await); // or, if it is `None`, Claude is done
/// assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_1");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`run`](Self::run) does the same for programs that have other tools too, or that report why the storage failed:
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
/// 1. The calls are run one after another, in the order in which the model wrote them: a `view` after a `create` sees the file.
///    Their results come in that order.
/// 2. Every memory call is answered: a command that fails, an input that is no command and a failure of the storage are results
///    with `is_error`, in the words that the model may read.
/// 3. A failure of the storage is also reported in [`ToolRun::failures`], with its causes, for the operator.
/// 4. Calls of other tools are left to the caller, in [`ToolRun::others`]. All else in the content is passed over.
/// 5. A future that is dropped leaves each command done or not done, and those after it not begun.
#[derive(Clone, Debug)]
pub struct ToolRunner<T> {
    tool: T,
}

impl<T: MemoryTool> ToolRunner<T> {
    /// Runs the calls on `tool`, which may be an `Arc<dyn MemoryTool>`.
    pub fn new(tool: T) -> Self {
        Self { tool }
    }

    /// The tool.
    pub fn tool(&self) -> &T {
        &self.tool
    }

    /// Runs the memory calls of a whole response, and returns the user's message with their results, to send next.
    ///
    /// Returns `None` if there is nothing to run: the value holds no memory call, or is not a response, or its `stop_reason`
    /// is not `tool_use`. If a response stops for another reason, such as `max_tokens`, a call in it may be cut short and
    /// would store half a text. A response without a `stop_reason` is run.
    ///
    /// The message leaves out the causes of failures, and the calls of other tools, whose results the API expects in the
    /// same message. Use [`run`](Self::run) if you log failures or have other tools.
    pub async fn answer(&self, response: &Value) -> Option<Value> {
        let content = response["content"].as_array()?;
        let is_whole = response["stop_reason"].is_null() || response["stop_reason"] == "tool_use";
        if is_whole { self.run(content).await.to_message() } else { None }
    }

    /// Runs the memory calls among the blocks of a response's `content`, as they are in its JSON. A client that has types of
    /// its own serializes its blocks.
    ///
    /// Check the response's `stop_reason` first: unless it is `tool_use`, a call may be cut short.
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

/// What came of the memory calls of a response.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ToolRun {
    /// The answer to each memory call, in their order.
    pub results: Vec<ToolResult>,
    /// The failures among them whose causes the model does not read.
    pub failures: Vec<ToolFailure>,
    /// The `tool_use` blocks of other tools, as they were. Each wants a `tool_result` of the caller's in the same message.
    pub others: Vec<Value>,
}

impl ToolRun {
    /// The message to send next, where the response held memory calls: a user's, with the results. The results of
    /// [other tools](Self::others) are to be added to its `content`, as the API takes them in one message only.
    pub fn to_message(&self) -> Option<Value> {
        (!self.results.is_empty()).then(|| json!({"role": "user", "content": self.results}))
    }
}

/// A memory call that failed for a reason that is the operator's to know.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolFailure {
    /// The id of the `tool_use` block.
    pub tool_use_id: String,
    /// What happened, with its causes as its sources.
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
    async fn every_memory_call_is_answered_in_order_and_nothing_else() {
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
        let answers: Vec<_> =
            run.results.iter().map(|result| (result.tool_use_id.as_deref().unwrap(), result.is_error)).collect();
        let expected =
            [("toolu_1", false), ("toolu_3", false), ("toolu_4", true), ("toolu_5", true), ("toolu_6", true)];
        assert_eq!(answers, expected);
        assert_eq!(run.others, [other]);
        assert!(run.failures.is_empty(), "what the model did wrong is no failure");
        let message = run.to_message().unwrap();
        assert_eq!(message["role"], "user");
        assert_eq!(message["content"][0]["content"], "File created successfully at: /memories/a");
        assert_eq!(message["content"].as_array().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn a_response_without_memory_calls_wants_no_message() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let run = runner.run(&[json!({"type": "text", "text": "Done."})]).await;
        assert!(run.results.is_empty() && run.to_message().is_none());
    }

    #[tokio::test]
    async fn a_whole_response_is_answered_with_the_next_message() {
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
    async fn what_holds_no_memory_call_is_not_answered() {
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
    async fn a_response_that_may_be_cut_short_is_not_run() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        for stop_reason in ["max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", "a new one"] {
            let response = json!({"stop_reason": stop_reason, "content": [call("t", create("/memories/a"))]});
            assert_eq!(runner.answer(&response).await, None, "{stop_reason}");
        }
        let view = json!({"command": "view", "path": "/memories/a"});
        assert!(runner.tool().call(view).await.is_err(), "no call was run");
    }

    /// A store that fails, in words that are for the operator alone.
    #[derive(Debug)]
    struct Failing;

    fn failure() -> StoreError {
        StoreError::failure(FailureKind::AccessDenied, "reading", "secret-bucket: 403")
    }

    #[async_trait]
    impl Store for Failing {
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
    async fn a_failure_of_the_storage_is_for_the_model_and_with_its_cause_for_the_operator() {
        let runner = ToolRunner::new(Engine::new(Failing));
        let run = runner.run(&[call("toolu_1", create("/memories/a")), call("toolu_2", create("/memories/b"))]).await;
        assert!(run.results.iter().all(|result| result.is_error));
        assert!(!run.to_message().unwrap().to_string().contains("secret"));
        let ids: Vec<_> = run.failures.iter().map(|failure| failure.tool_use_id.as_str()).collect();
        assert_eq!(ids, ["toolu_1", "toolu_2"]);
        assert!(format!("{:?}", run.failures[0].error).contains("secret-bucket: 403"));
    }
}
