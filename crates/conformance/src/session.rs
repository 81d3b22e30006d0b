//! [`Session`]: a connection to a tool or program. [`Client`] and [`Answer`]: how cases use one.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_core::{MemoryPath, MemoryTool, Store, lock};
use serde_json::{Value, json};

use crate::case::{Basis, Capability};
use crate::clause::Clause;
use crate::failure::{CaseError, Failure, excerpt, expect_all_of, expect_text};
use crate::serve::respond;

/// Texts by which raw operating-system errors are recognized (`[W5]`).
const RAW_ERRORS: [&str; 4] = ["os error", "Errno", "ENOENT", "ENAMETOOLONG"];

/// A connection that sends lines and receives responses.
#[async_trait]
pub(crate) trait Session: Send + Sync {
    /// Sends lines without waiting for the responses, and returns the `tool_result` blocks in order (`[X5]`). If they
    /// are the last lines, the last one lacks its line feed, and the input ends.
    async fn exchange(&self, lines: &[&[u8]], are_last: bool) -> Result<Vec<Value>, CaseError>;

    /// Kills the program as `kill -9` does.
    async fn kill(&self) -> Result<(), CaseError>;

    /// The name of the pipe to which the program responds, such as `pipe:[7]`.
    fn output(&self) -> Option<&str> {
        None
    }

    /// Stops the program, where the system can.
    fn pause(&self) {}

    /// Lets a stopped program continue.
    fn resume(&self) {}
}

/// A session with a tool in this process.
pub(crate) struct InProcess {
    pub(crate) tool: Arc<dyn MemoryTool>,
    /// The store of the tool, for the calls that no command can express.
    pub(crate) store: Option<Arc<dyn Store>>,
}

#[async_trait]
impl Session for InProcess {
    /// A runner in this process awaits each call.
    async fn exchange(&self, lines: &[&[u8]], _: bool) -> Result<Vec<Value>, CaseError> {
        let mut results = Vec::with_capacity(lines.len());
        for line in lines {
            results.push(json!(respond(&*self.tool, self.store.as_deref(), line).await));
        }
        Ok(results)
    }

    async fn kill(&self) -> Result<(), CaseError> {
        Err(CaseError::unsupported(Capability::Processes, "a session in this process cannot be killed"))
    }
}

pub(crate) fn sorted_lines(mut paths: Vec<MemoryPath>) -> String {
    paths.sort();
    paths.iter().map(|path| path.as_str()).collect::<Vec<_>>().join("\n")
}

/// The first reply of a case that leaks something. It fails the case without ending it, because other checks follow.
#[derive(Clone, Default)]
pub(crate) struct FirstLeak(Arc<Mutex<Option<CaseError>>>);

impl FirstLeak {
    pub(crate) fn take(&self) -> Option<CaseError> {
        lock(&self.0).take()
    }

    fn note(&self, outcome: Result<(), CaseError>) {
        if let Err(leak) = outcome {
            lock(&self.0).get_or_insert(leak);
        }
    }
}

/// A session, and the strings that its replies must not contain.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) secrets: Arc<[String]>,
    pub(crate) first_leak: FirstLeak,
}

impl Client {
    /// Sends a line of JSON.
    pub(crate) async fn send_line(&self, line: &str) -> Result<Answer, CaseError> {
        self.exchange(line.as_bytes(), line.to_owned(), false).await
    }

    /// Sends a line of any bytes.
    pub(crate) async fn send_bytes(&self, line: &[u8]) -> Result<Answer, CaseError> {
        self.exchange(line, line.escape_ascii().to_string(), false).await
    }

    /// Sends a last line without a line feed. No other call may follow.
    pub(crate) async fn send_last(&self, line: &[u8]) -> Result<Answer, CaseError> {
        self.exchange(line, format!("{} without a line feed, as the last line", line.escape_ascii()), true).await
    }

    async fn exchange(&self, line: &[u8], shown: String, is_last: bool) -> Result<Answer, CaseError> {
        let results = self.session.exchange(&[line], is_last).await.map_err(|stop| stop.in_step(excerpt(&shown, 0)))?;
        let answer = Answer { line: shown, result: results.into_iter().next().unwrap_or_default() };
        self.first_leak.note(self.expect_no_leak(&answer));
        Ok(answer)
    }

    /// Sends lines of JSON without waiting for the responses, and does not check them.
    pub(crate) async fn exchange_together(&self, lines: Vec<String>) -> Result<Vec<Answer>, CaseError> {
        let bytes: Vec<_> = lines.iter().map(String::as_bytes).collect();
        let shown = |stop: CaseError| stop.in_step(excerpt(&lines.join("\n"), 0));
        let results = self.session.exchange(&bytes, false).await.map_err(shown)?;
        Ok(lines.into_iter().zip(results).map(|(line, result)| Answer { line, result }).collect())
    }

    /// Checks that a response contains no secret of the fixture, and no raw operating-system error (`[W5]`).
    pub(crate) fn expect_no_leak(&self, answer: &Answer) -> Result<(), CaseError> {
        let Some(text) = answer.result["content"].as_str() else { return Ok(()) };
        let leaks = |part: &&str| text.contains(*part);
        let leak = if let Some(secret) = self.secrets.iter().map(String::as_str).find(leaks) {
            format!("the reply leaks where the memory is stored: it contains {secret:?}")
        } else if let Some(raw) = RAW_ERRORS.into_iter().filter(|_| answer.is_error()).find(leaks) {
            format!("the reply leaks an error of the operating system: it contains {raw:?}")
        } else {
            return Ok(());
        };
        Err(answer.explain(Failure::new(leak).of_check(Clause::find("W5"), Some(Basis::Project)).into()))
    }

    /// Sends a bare command.
    pub(crate) async fn send(&self, input: Value) -> Result<Answer, CaseError> {
        self.send_line(&input.to_string()).await
    }

    pub(crate) async fn create(&self, path: impl Display, text: impl Into<Value>) -> Result<Answer, CaseError> {
        self.send(create(path, text)).await
    }

    pub(crate) async fn view(&self, path: impl Display) -> Result<Answer, CaseError> {
        self.send(view(path)).await
    }

    pub(crate) async fn insert(
        &self,
        path: impl Display,
        line: usize,
        text: impl Into<Value>,
    ) -> Result<Answer, CaseError> {
        self.send(insert(path, line, text)).await
    }

    pub(crate) async fn str_replace(&self, path: impl Display, old: &str, new: &str) -> Result<Answer, CaseError> {
        self.send(str_replace(path, old, new)).await
    }

    pub(crate) async fn delete(&self, path: impl Display) -> Result<Answer, CaseError> {
        self.send(delete(path)).await
    }

    pub(crate) async fn rename(&self, from: impl Display, to: impl Display) -> Result<Answer, CaseError> {
        self.send(rename(from, to)).await
    }

    /// Creates a file, which must succeed.
    pub(crate) async fn must_create(&self, path: impl Display, text: impl Into<Value>) -> Result<(), CaseError> {
        self.create(path, text).await?.text(false).map(drop)
    }

    /// See [`Session::kill`].
    pub(crate) async fn kill(&self) -> Result<(), CaseError> {
        self.session.kill().await
    }
}

pub(crate) fn create(path: impl Display, text: impl Into<Value>) -> Value {
    json!({"command": "create", "path": path.to_string(), "file_text": text.into()})
}

pub(crate) fn view(path: impl Display) -> Value {
    json!({"command": "view", "path": path.to_string()})
}

pub(crate) fn view_range(path: impl Display, first: usize, last: i64) -> Value {
    json!({"command": "view", "path": path.to_string(), "view_range": [first, last]})
}

pub(crate) fn insert(path: impl Display, line: usize, text: impl Into<Value>) -> Value {
    json!({"command": "insert", "path": path.to_string(), "insert_line": line, "insert_text": text.into()})
}

pub(crate) fn str_replace(path: impl Display, old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": path.to_string(), "old_str": old, "new_str": new})
}

pub(crate) fn delete(path: impl Display) -> Value {
    json!({"command": "delete", "path": path.to_string()})
}

pub(crate) fn rename(from: impl Display, to: impl Display) -> Value {
    json!({"command": "rename", "old_path": from.to_string(), "new_path": to.to_string()})
}

/// The response to a line. A failed check includes both.
#[derive(Debug)]
pub(crate) struct Answer {
    line: String,
    pub(crate) result: Value,
}

impl Answer {
    pub(crate) fn is_error(&self) -> bool {
        self.result["is_error"].as_bool().unwrap_or_default()
    }

    /// The text of the content, which must be an error exactly if `is_error` is set.
    pub(crate) fn text(&self, is_error: bool) -> Result<&str, CaseError> {
        let text = self.result["content"].as_str().filter(|_| self.is_error() == is_error);
        let expected = if is_error { "an error" } else { "a text that is not an error" };
        text.ok_or_else(|| self.wrong(format!("expected {expected}, got {}", excerpt(&self.result.to_string(), 0))))
    }

    /// The text of a view after its header, without a final line feed. Other cases test both.
    pub(crate) fn body(&self) -> Result<&str, CaseError> {
        let (_, body) = self.text(false)?.split_once('\n').ok_or_else(|| self.wrong("expected a header and lines"))?;
        Ok(body.strip_suffix('\n').unwrap_or(body))
    }

    /// Checks that it has this text and is not an error.
    pub(crate) fn reply(&self, text: &str) -> Result<(), CaseError> {
        self.judge(expect_text(text, self.text(false)?))
    }

    /// Checks that it is a listing of these lines, without sizes, final slashes and the directory itself.
    pub(crate) fn listing(&self, lines: &[String]) -> Result<(), CaseError> {
        let call: Value = serde_json::from_str(&self.line).unwrap_or_default();
        let directory = call["path"].as_str().unwrap_or_default();
        let found = self.body()?.split('\n').map(|line| line.split_once('\t').map_or(line, |(_, path)| path));
        let found = found.map(|line| line.strip_suffix('/').unwrap_or(line)).filter(|line| *line != directory);
        let expected = lines.iter().map(String::as_str).filter(|line| *line != directory);
        self.judge(expect_text(&expected.collect::<Vec<_>>().join("\n"), &found.collect::<Vec<_>>().join("\n")))
    }

    /// Checks that it is an error with this text.
    pub(crate) fn error(&self, text: &str) -> Result<(), CaseError> {
        self.judge(expect_text(text, self.text(true)?))
    }

    /// Checks that it is an error that contains this text.
    pub(crate) fn error_with(&self, part: &str) -> Result<(), CaseError> {
        self.judge(expect_all_of(&[part.to_owned()], self.text(true)?))
    }

    /// Adds the line and the response to a failure.
    pub(crate) fn judge(&self, outcome: Result<(), CaseError>) -> Result<(), CaseError> {
        outcome.map_err(|stop| self.explain(stop))
    }

    /// A failure with this message, the line and the response.
    pub(crate) fn wrong(&self, message: impl Into<String>) -> CaseError {
        self.explain(Failure::new(message).into())
    }

    fn explain(&self, stop: CaseError) -> CaseError {
        stop.map(|failure| failure.with_reply(&self.result).in_step(excerpt(&self.line, 0)))
    }
}
