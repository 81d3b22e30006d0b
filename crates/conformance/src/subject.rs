//! [`Subject`]: the memory that a case is run on, whichever door it was reached through.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{MemoryPath, MemoryTool, Node, Store, StoreExt, ToolResult, ToolUse};
use serde_json::{Value, json};

use crate::case::Need;
use crate::circumstances::{self, Circumstances};
use crate::failure::{Failure, Stop, causes, ensure, excerpt, expect_all_of, expect_none_of, expect_text};
use crate::fixture::ToolOptions;
use crate::program::Program;
use crate::read_back;

/// Texts that stand for an operating system's own words (`[W5]`).
const RAW_ERRORS: [&str; 4] = ["os error", "Errno", "ENOENT", "ENAMETOOLONG"];

/// Why what needs the byte level is not tested through commands alone.
const NO_STORE: &str = "no store can be reached beneath the six commands";

/// What a case may take.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// How long a program may take to answer.
    pub(crate) patience: Duration,
    /// How many races the same contenders run.
    pub(crate) races: usize,
}

/// Where subjects come from.
#[async_trait]
pub(crate) trait Door: Send + Sync {
    /// A subject that is new and empty.
    async fn fresh(&self, options: &ToolOptions, effort: Effort) -> Result<Arc<dyn Subject>, Stop>;

    /// Whether a file of that name can be stored at all.
    fn can_store(&self, path: &str) -> bool;
}

/// One memory, and what can be had of it. What a door cannot give it lacks.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// The session that every subject has.
    fn session(&self) -> Arc<dyn Session>;

    /// Another session on the same memory.
    async fn another_session(&self) -> Result<Arc<dyn Session>, Stop>;

    /// How to start a program of its own on the same memory.
    fn program(&self) -> Result<Command, Stop>;

    /// What its cases may take.
    fn effort(&self) -> Effort;

    /// The tool, within this program.
    fn tool(&self) -> Result<Arc<dyn MemoryTool>, Stop>;

    /// The store beneath the tool.
    fn store(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Store, NO_STORE))
    }

    /// The same store, opened again.
    async fn another_store(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Store, NO_STORE))
    }

    /// The directory that stands for `/memories`.
    fn plain_files(&self) -> Result<PathBuf, Stop>;

    /// The directory beneath which all that is stored lies.
    fn directory(&self) -> Result<PathBuf, Stop>;

    /// Another memory in the same place. Being refused is not a failure.
    async fn scope(&self, _name: &str) -> Result<Option<Arc<dyn Store>>, Stop> {
        Err(Stop::lacks(Need::Scopes, NO_STORE))
    }

    /// The store beneath the encryption.
    async fn beneath(&self) -> Result<Arc<dyn Store>, Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// Another memory with the same key, and the store beneath its encryption.
    async fn another_of_the_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// The store opened with the wrong key. Being refused is not a failure.
    async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, Stop> {
        Err(Stop::lacks(Need::Sealed, NO_STORE))
    }

    /// Texts that no reply may hold.
    fn secrets(&self) -> Vec<String>;
}

/// Somebody who sends commands and waits for the answers.
#[async_trait]
pub(crate) trait Session: Send + Sync {
    /// The `tool_result` block that answers a line of JSON.
    async fn call(&self, line: &str) -> Result<Value, Stop>;

    /// Ends it as `kill -9` does. It answers no more.
    async fn kill(&self) -> Result<(), Stop>;
}

/// A session with a tool within this program.
pub(crate) struct InProcess(pub(crate) Arc<dyn MemoryTool>);

#[async_trait]
impl Session for InProcess {
    async fn call(&self, line: &str) -> Result<Value, Stop> {
        Ok(json!(match ToolUse::parse(line.as_bytes()) {
            Ok(call) => ToolResult::new(call.id, &self.0.call(call.input).await),
            Err(rejected) => ToolResult::from(rejected),
        }))
    }

    async fn kill(&self) -> Result<(), Stop> {
        Err(Stop::lacks(Need::Processes, "a session within this program cannot be killed"))
    }
}

impl dyn Subject + '_ {
    /// A client of the first session.
    pub(crate) fn client(&self) -> Client {
        self.client_of(self.session())
    }

    /// A client of another session on the same memory.
    pub(crate) async fn another_client(&self) -> Result<Client, Stop> {
        Ok(self.client_of(self.another_session().await?))
    }

    /// A client of a program of its own on the same memory.
    pub(crate) fn process_client(&self) -> Result<Client, Stop> {
        self.client_of_program(self.program()?)
    }

    /// A client of a program of its own on the same memory, which runs under these circumstances.
    pub(crate) fn process_client_under(&self, circumstances: &Circumstances) -> Result<Client, Stop> {
        self.client_of_program(circumstances.around(&self.program()?))
    }

    fn client_of_program(&self, command: Command) -> Result<Client, Stop> {
        Ok(self.client_of(Arc::new(Program::start(command, self.effort().patience)?)))
    }

    fn client_of(&self, session: Arc<dyn Session>) -> Client {
        Client { session, secrets: self.secrets().into() }
    }

    /// What another program does: a file is there, whatever was before.
    pub(crate) async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), Stop> {
        if let Ok(directory) = self.plain_files() {
            return put_plain_file(directory, path, content).await;
        }
        if let Ok(store) = self.store() {
            return store.write(path, content).await.map_err(|error| {
                Failure::new(format!("the store refuses to write {path}: {}", causes(&error))).into()
            });
        }
        let text = String::from_utf8(content).map_err(|_| {
            Stop::lacks(Need::ForeignFiles, "no other program can put a file there, and no command makes such a file")
        })?;
        let input = json!({"command": "create", "path": path.as_str(), "file_text": text});
        self.client().send(input).await?.reply(&format!("File created successfully at: {path}"))
    }

    /// The stored bytes of a file.
    pub(crate) async fn content(&self, path: &MemoryPath) -> Result<Vec<u8>, Stop> {
        match self.store() {
            Ok(store) => match store.read(path).await {
                Ok(Node::File(file)) => Ok(file.content),
                other => Err(Failure::new(format!("expected a file at {path}, got {other:?}")).into()),
            },
            Err(_) => read_back::content(&self.client(), path).await,
        }
    }

    /// Checks that these are all the files.
    pub(crate) async fn expect_files(&self, expected: &[MemoryPath]) -> Result<(), Stop> {
        let Ok(store) = self.store() else {
            return read_back::expect_files(&self.client(), expected).await;
        };
        let files = store.list(MemoryPath::root()).await;
        let files = files.map_err(|error| Failure::new(format!("the store cannot be listed: {}", causes(&error))))?;
        let files = files.into_iter().map(|file| file.path).collect();
        Ok(expect_text(&sorted_lines(expected.to_vec()), &sorted_lines(files))?)
    }

    /// What the subject has no way to give, if anything.
    pub(crate) async fn lack(&self, need: Need) -> Option<String> {
        let outcome = match need {
            Need::Tool => self.tool().map(drop),
            Need::Options => Ok(()),
            Need::ForeignFiles | Need::StoredBytes => match (self.store(), self.plain_files(), need) {
                (Ok(_), ..) | (_, Ok(_), Need::ForeignFiles) => Ok(()),
                _ => Err(Stop::lacks(need, "only the six commands reach the files")),
            },
            Need::Store => self.store().map(drop),
            Need::Sessions => self.another_session().await.map(drop),
            Need::Processes => self.program().map(drop),
            Need::PlainFiles => self.plain_files().map(drop),
            Need::Directory => self.directory().map(drop),
            Need::Mounts => circumstances::expect_mounts().await,
            Need::Tracing => circumstances::expect_tracing().await,
            Need::Scopes => self.scope("probe").await.map(drop),
            Need::Sealed => self.beneath().await.map(drop),
        };
        match outcome {
            Err(Stop::Lacks { reason, .. }) => Some(reason),
            Ok(()) | Err(Stop::Failed(_)) => None,
        }
    }
}

async fn put_plain_file(directory: PathBuf, path: &MemoryPath, content: Vec<u8>) -> Result<(), Stop> {
    let file = path.segments().fold(directory, |file, segment| file.join(segment));
    let written = tokio::task::spawn_blocking(move || {
        file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, content))
    });
    match written.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::new(format!("{path} cannot be put there: {error}")).into()),
        Err(error) => Err(Failure::new(format!("{path} cannot be put there: {error}")).into()),
    }
}

pub(crate) fn sorted_lines(mut paths: Vec<MemoryPath>) -> String {
    paths.sort();
    paths.iter().map(MemoryPath::as_str).collect::<Vec<_>>().join("\n")
}

/// A session together with what no reply in it may hold.
#[derive(Clone)]
pub(crate) struct Client {
    session: Arc<dyn Session>,
    secrets: Arc<[String]>,
}

impl Client {
    /// Sends a line of JSON.
    pub(crate) async fn send_line(&self, line: &str) -> Result<Answer, Stop> {
        let result = self.session.call(line).await.map_err(|stop| stop.in_step(excerpt(line, 0)))?;
        self.answer(line, result)
    }

    fn answer(&self, line: &str, result: Value) -> Result<Answer, Stop> {
        let answer = Answer { line: line.to_owned(), result };
        answer.expect_no_secret(&self.secrets)?;
        Ok(answer)
    }

    /// Sends a bare command to a program that may end instead of answering.
    pub(crate) async fn send_unless_dead(&self, input: Value) -> Result<Option<Answer>, Stop> {
        match self.session.call(&input.to_string()).await {
            Ok(result) => self.answer(&input.to_string(), result).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Sends a bare command.
    pub(crate) async fn send(&self, input: Value) -> Result<Answer, Stop> {
        self.send_line(&input.to_string()).await
    }

    pub(crate) async fn create(&self, path: impl fmt::Display, file_text: impl Into<String>) -> Result<Answer, Stop> {
        self.send(json!({"command": "create", "path": path.to_string(), "file_text": file_text.into()})).await
    }

    pub(crate) async fn view(&self, path: impl fmt::Display) -> Result<Answer, Stop> {
        self.send(json!({"command": "view", "path": path.to_string()})).await
    }

    pub(crate) async fn insert(
        &self,
        path: impl fmt::Display,
        line: u64,
        text: impl Into<String>,
    ) -> Result<Answer, Stop> {
        let (path, text) = (path.to_string(), text.into());
        self.send(json!({"command": "insert", "path": path, "insert_line": line, "insert_text": text})).await
    }

    pub(crate) async fn str_replace(&self, path: impl fmt::Display, old: &str, new: &str) -> Result<Answer, Stop> {
        self.send(json!({"command": "str_replace", "path": path.to_string(), "old_str": old, "new_str": new})).await
    }

    pub(crate) async fn delete(&self, path: impl fmt::Display) -> Result<Answer, Stop> {
        self.send(json!({"command": "delete", "path": path.to_string()})).await
    }

    pub(crate) async fn rename(&self, from: impl fmt::Display, to: impl fmt::Display) -> Result<Answer, Stop> {
        self.send(json!({"command": "rename", "old_path": from.to_string(), "new_path": to.to_string()})).await
    }

    /// Creates a file, which must work.
    pub(crate) async fn must_create(&self, path: impl fmt::Display, file_text: impl Into<String>) -> Result<(), Stop> {
        let path = path.to_string();
        self.create(&path, file_text).await?.reply(&format!("File created successfully at: {path}"))
    }

    /// The text of a file, which must be there.
    pub(crate) async fn text(&self, path: impl fmt::Display) -> Result<String, Stop> {
        let path: MemoryPath = path.to_string().parse().map_err(|_| Failure::new("not a path"))?;
        let content = read_back::content(self, &path).await?;
        String::from_utf8(content).map_err(|_| Failure::new(format!("{path} is no text")).into())
    }

    /// See [`Session::kill`].
    pub(crate) async fn kill(&self) -> Result<(), Stop> {
        self.session.kill().await
    }
}

/// The answer to a line, ready to be checked. Each check names the line where it fails.
#[derive(Debug)]
pub(crate) struct Answer {
    line: String,
    pub(crate) result: Value,
}

impl Answer {
    pub(crate) fn is_error(&self) -> bool {
        self.result["is_error"].as_bool().unwrap_or_default()
    }

    /// The content where it is a text and, as `is_error` says, an error or none.
    pub(crate) fn text(&self, is_error: bool) -> Result<&str, Stop> {
        let text = self.result["content"].as_str().filter(|_| self.is_error() == is_error);
        let expected = if is_error { "an error" } else { "a text that is no error" };
        let failure = || Failure::new(format!("expected {expected}, got {}", excerpt(&self.result.to_string(), 0)));
        text.ok_or_else(|| self.fail(failure()))
    }

    /// Checks that it is no error and has this text.
    pub(crate) fn reply(&self, text: &str) -> Result<(), Stop> {
        self.judge(expect_text(text, self.text(false)?))
    }

    /// Checks that it is an error with this text.
    pub(crate) fn error(&self, text: &str) -> Result<(), Stop> {
        self.judge(expect_text(text, self.text(true)?))
    }

    /// Checks that it is an error with this in its text.
    pub(crate) fn error_with(&self, part: &str) -> Result<(), Stop> {
        self.judge(expect_all_of(&[part.to_owned()], self.text(true)?))
    }

    /// Adds to a failure what was sent and what came back.
    pub(crate) fn judge(&self, outcome: Result<(), Box<Failure>>) -> Result<(), Stop> {
        outcome.map_err(|failure| self.fail(*failure))
    }

    /// Fails because of what came back.
    pub(crate) fn wrong(&self, message: impl Into<String>) -> Stop {
        self.fail(Failure::new(message))
    }

    fn fail(&self, failure: Failure) -> Stop {
        failure.with_reply(&self.result).in_step(excerpt(&self.line, 0)).into()
    }

    /// An error holds nothing of the host (`[W5]`), and no reply what the fixture calls a secret.
    fn expect_no_secret(&self, secrets: &[String]) -> Result<(), Stop> {
        let Some(text) = self.result["content"].as_str() else { return Ok(()) };
        let hidden = |parts: &[String]| {
            self.judge(
                expect_none_of(parts, text).map_err(|failure| Failure::new(format!("[W5] {}", failure.message)).into()),
            )
        };
        hidden(secrets)?;
        if self.is_error() { hidden(&RAW_ERRORS.map(str::to_owned)) } else { Ok(()) }
    }
}

/// Checks a condition of a case in code.
pub(crate) fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), Stop> {
    Ok(ensure(holds, message)?)
}
