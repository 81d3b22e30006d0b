//! [`ToolRunner`]: answers the memory calls in a response of the Messages API, whatever client received it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::definition::TOOL_NAME;
use crate::error::Error;
use crate::tool::MemoryTool;
use crate::wire::{ToolResult, ToolUse};

/// Runs the memory calls of a response, and gives what to send back.
///
/// It knows nothing of HTTP: the content of a response goes in, `tool_result` blocks come out, so it fits any client.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, ToolRunner};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
/// // What the API answered to a request with `runner.tool().definition()` among its tools.
/// let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "text", "text": "I'll look into my memory."},
///     {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}},
/// ]});
/// let run = runner.run(response["content"].as_array().map_or(&[][..], Vec::as_slice)).await;
/// for failure in &run.failures {
///     eprintln!("{}: {:?}", failure.tool_use_id, failure.error); // for the operator, with its causes
/// }
/// let mut messages = vec![json!({"role": "user", "content": "What do you know of me?"})];
/// messages.push(json!({"role": "assistant", "content": response["content"]}));
/// messages.extend(run.to_message());
/// assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_1");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Behavior
/// 1. The calls are run one after another, in the order in which the model wrote them: a `view` after a `create` sees the file.
///    Their results come in that order.
/// 2. Every memory call is answered: a command that fails, an input that is no command and a failure of the storage are results
///    with `is_error`, in the words that the model may read.
/// 3. A failure of the storage is also told in [`ToolRun::failures`], with its causes, for the operator.
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

    /// Runs the memory calls among the blocks of a response's `content`, as they are in its JSON.
    pub async fn run(&self, content: &[Value]) -> ToolRun {
        let mut run = ToolRun::default();
        for block in content.iter().filter(|block| block["type"] == "tool_use") {
            if block["name"] == TOOL_NAME {
                self.answer(
                    ToolUse::from_value(block.clone()).map_err(|rejected| (rejected.id, rejected.error)),
                    &mut run,
                )
                .await;
            } else {
                run.others.push(block.clone());
            }
        }
        run
    }

    /// The same for typed blocks, for a client that has types of its own: the `tool_use` blocks of its response, converted.
    pub async fn run_blocks(&self, blocks: impl IntoIterator<Item = ToolUseBlock> + Send) -> ToolRun {
        let content: Vec<_> = blocks.into_iter().map(|block| json!(block)).collect();
        self.run(&content).await
    }

    async fn answer(&self, call: Result<ToolUse, (Option<String>, Error)>, run: &mut ToolRun) {
        let (id, outcome) = match call {
            Ok(call) => (call.id, self.tool.call(call.input).await),
            Err((id, error)) => (id, Err(error)),
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

/// A `tool_use` block of a response, of this tool or another.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tool_use")]
#[non_exhaustive]
pub struct ToolUseBlock {
    /// Its id, which the result names.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// What the model sends to the tool.
    pub input: Value,
}

impl ToolUseBlock {
    /// A call of the tool `name`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self { id: id.into(), name: name.into(), input }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::engine::Engine;
    use crate::error::{FailureKind, StoreError};
    use crate::in_memory::InMemoryStore;
    use crate::path::MemoryPath;
    use crate::store::{Batch, FileEntry, Node, Store};

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
    async fn typed_blocks_are_run_alike() {
        let runner = ToolRunner::new(Engine::new(InMemoryStore::new()));
        let blocks = [
            ToolUseBlock::new("toolu_1", "memory", create("/memories/a")),
            ToolUseBlock::new("toolu_2", "bash", json!({})),
        ];
        let run = runner.run_blocks(blocks.clone()).await;
        assert_eq!(run.results.len(), 1);
        assert_eq!(run.others, [json!(blocks[1])]);
        let parsed: ToolUseBlock = serde_json::from_value(call("toolu_1", create("/memories/a"))).unwrap();
        assert_eq!(parsed, blocks[0]);
    }

    /// A store that fails, in words that are for the operator alone.
    #[derive(Debug)]
    struct Failing;

    fn failure() -> StoreError {
        StoreError::failure(FailureKind::AccessDenied, "reading", "secret-bucket: 403")
    }

    #[async_trait]
    impl Store for Failing {
        async fn read(&self, _: &MemoryPath) -> Result<Node, StoreError> {
            Err(failure())
        }

        async fn list(&self, _: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
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
