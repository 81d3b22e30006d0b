//! [`Operation`]: an operation on an open memory.

use std::path::PathBuf;
use std::pin::Pin;

use memory_tool::api::Content;
use memory_tool::command::{Command, Turn};
use memory_tool::policies::SweepReport;
use memory_tool::transfer::{CopyOptions, Export, Import};
use memory_tool::{ErrorKind, FileEntry, Memory, OpenError, OpenOptions, StoreUrl, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::changes::Changes;
use crate::errors::CallError;
use crate::operation::Argument::{Bytes, Flag, Memory as Destination, Nothing, Text};
use crate::{history, search, wording};

/// An operation on an open memory.
pub struct Operation(Box<dyn FnOnce(Memory) -> Running + Send>);

type Running = Pin<Box<dyn Future<Output = Result<Outcome, CallError>> + Send>>;

/// An argument of an operation.
#[expect(clippy::exhaustive_enums, reason = "the bindings create it")]
pub enum Argument {
    /// It is left out.
    Nothing,
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A flag.
    Flag(bool),
    /// Another memory.
    Memory(Memory),
}

/// The result of an operation.
#[expect(clippy::exhaustive_enums, reason = "the bindings convert it")]
pub enum Outcome {
    /// It has no result.
    Nothing,
    /// The text of a file, or the reply of the tool.
    Content(Content),
    /// The reply of the tool, and its parts for a function that words it.
    Reply(Content, Value),
    /// The contents of a file.
    Bytes(Vec<u8>),
    /// The files under a directory.
    Entries(Vec<FileEntry>),
    /// The usage of the memory.
    Usage(Usage),
    /// The changes of the memory.
    Changes(Changes),
    /// Another result.
    Json(Value),
}

impl Operation {
    fn new<R>(run: impl FnOnce(Memory) -> R + Send + 'static) -> Self
    where
        R: Future<Output = Result<Outcome, CallError>> + Send + 'static,
    {
        Self(Box::new(|memory| Box::pin(run(memory))))
    }

    /// A call of the tool, when its turn comes. `is_worded` is whether a function words the reply.
    pub fn call(input: Value, turn: Option<Turn>, is_worded: bool) -> Self {
        Self::new(move |memory| async move {
            let _guard = match turn {
                Some(turn) => Some(turn.await),
                None => None,
            };
            let reply = memory.tool().call(input).await?;
            let content = reply.to_content();
            Ok(if is_worded {
                Outcome::Reply(content, wording::parts_of_reply(&reply))
            } else {
                Outcome::Content(content)
            })
        })
    }

    /// The operation of a method of `Memory`. Returns `None` if there is no such method with these arguments.
    pub fn of_method(name: &str, arguments: Vec<Argument>) -> Option<Self> {
        let mut given = arguments.into_iter();
        let three = [(); 3].map(|()| given.next().unwrap_or(Nothing));
        if given.next().is_some() {
            return None;
        }
        Some(match (name, three) {
            ("read_text", [Text(path), Nothing, Nothing]) => Self::new(move |memory| async move {
                Ok(Outcome::Content(Content::Text(memory.read_to_string(path.as_str()).await?)))
            }),
            ("read_bytes", [Text(path), Nothing, Nothing]) => {
                Self::new(move |memory| async move { Ok(Outcome::Bytes(memory.read_bytes(path.as_str()).await?)) })
            }
            ("exists", [Text(path), Nothing, Nothing]) => {
                Self::new(move |memory| async move { Ok(Outcome::Json(memory.exists(path.as_str()).await?.into())) })
            }
            ("write_text", [Text(path), content @ Text(_), condition])
            | ("write_bytes", [Text(path), content @ Bytes(_), condition]) => {
                let content = bytes(content)?;
                let expected = match condition {
                    Nothing | Flag(false) => {
                        return Some(Self::new(move |memory| async move {
                            done(memory.write(path.as_str(), content).await?)
                        }));
                    }
                    Flag(true) => None, // the path must not exist
                    expected => Some(bytes(expected)?),
                };
                Self::new(move |memory| async move {
                    done(memory.write_if(path.as_str(), content, expected.as_deref()).await?)
                })
            }
            ("append", [Text(path), content, Nothing]) => {
                let content = bytes(content)?;
                Self::new(move |memory| async move { done(memory.append(path.as_str(), content).await?) })
            }
            ("list", [Text(directory), Nothing, Nothing]) => {
                Self::new(move |memory| async move { Ok(Outcome::Entries(memory.list(directory.as_str()).await?)) })
            }
            ("remove", [Text(path), Nothing, Nothing]) => {
                Self::new(move |memory| async move { done(memory.remove(path.as_str()).await?) })
            }
            ("rename", [Text(from), Text(to), Nothing]) => {
                Self::new(move |memory| async move { done(memory.rename(from.as_str(), to.as_str()).await?) })
            }
            ("clear", [Nothing, Nothing, Nothing]) => Self::new(|memory| async move { done(memory.clear().await?) }),
            ("forget", [Nothing, Nothing, Nothing]) => Self::new(|memory| async move { done(memory.forget().await?) }),
            ("usage", [Nothing, Nothing, Nothing]) => {
                Self::new(|memory| async move { Ok(Outcome::Usage(memory.usage().await?)) })
            }
            ("history", [Text(request), Nothing, Nothing]) => {
                Self::new(move |memory| async move { Ok(Outcome::Json(history::perform(&memory, &request).await?)) })
            }
            ("search", [Text(request), Nothing, Nothing]) => {
                Self::new(move |memory| async move { Ok(Outcome::Json(search::perform(&memory, &request).await?)) })
            }
            ("expire", [Nothing, Nothing, Nothing]) => {
                Self::new(|memory| async move { Ok(removed(&memory.expire().await?)) })
            }
            ("expire_all", [Nothing, Nothing, Nothing]) => {
                Self::new(|memory| async move { Ok(removed(&memory.expire_all().await?)) })
            }
            ("verify", [Nothing, Nothing, Nothing]) => Self::new(|memory| async move {
                let report = memory.verify(|_| {}).await?;
                let problems = report.problems.iter().map(|problem| problem.to_string()).collect::<Vec<_>>();
                Ok(Outcome::Json(json!({"files": report.files, "bytes": report.bytes, "problems": problems})))
            }),
            ("scopes", [Nothing, Nothing, Nothing]) => Self::new(|memory| async move {
                let scopes = memory.scopes().await?;
                Ok(Outcome::Json(scopes.iter().map(|scope| scope.name()).collect()))
            }),
            ("watch", [Nothing, Nothing, Nothing]) => {
                Self::new(|memory| async move { Ok(Outcome::Changes(Changes::new(memory.watch().await))) })
            }
            ("copy_to", [Destination(destination), Flag(overwrites), Nothing]) => Self::new(move |memory| async move {
                let options = CopyOptions::new();
                let options = if overwrites { options.overwrite() } else { options };
                let report = memory.copy_to(&destination, options, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }),
            ("export", [Text(path), Flag(overwrites), Nothing]) => Self::new(move |memory| async move {
                let export = Export::to_path(path);
                let report = memory.export(if overwrites { export.overwrite() } else { export }, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }),
            ("import", [Text(path), Flag(overwrites), Nothing]) => Self::new(move |memory| async move {
                let import = Import::from_path(path);
                let report = memory.import(if overwrites { import.overwrite() } else { import }, |_| {}).await?;
                Ok(transferred(report.is_complete(), &report))
            }),
            _ => return None,
        })
    }

    /// Performs the operation.
    ///
    /// # Errors
    ///
    /// Returns the error of the operation.
    pub async fn run(self, memory: Memory) -> Result<Outcome, CallError> {
        self.0(memory).await
    }
}

fn bytes(argument: Argument) -> Option<Vec<u8>> {
    match argument {
        Text(text) => Some(text.into_bytes()),
        Bytes(bytes) => Some(bytes),
        Nothing | Flag(_) | Destination(_) => None,
    }
}

fn done((): ()) -> Result<Outcome, CallError> {
    Ok(Outcome::Nothing)
}

fn removed(swept: &SweepReport) -> Outcome {
    Outcome::Json(swept.removed.iter().map(|path| path.as_str()).collect())
}

fn transferred(is_complete: bool, report: &impl Serialize) -> Outcome {
    let mut report = json!(report);
    report["is_complete"] = is_complete.into();
    Outcome::Json(report)
}

/// The URLs of the memories of a database, or of those at and right under a directory or prefix.
///
/// # Errors
///
/// Fails if the URL is invalid or cannot be read.
pub async fn memories(url: PathBuf) -> Result<Vec<String>, CallError> {
    let invalid = |error| OpenError::new(format!("at {}", url.display()), ErrorKind::Invalid, error);
    let url = StoreUrl::parse(&url).map_err(invalid)?;
    Ok(url.memories(OpenOptions::new()).await?.iter().map(ToString::to_string).collect())
}

/// The input of a call as an overridden method receives it: with the fields of its command and the types that they must
/// have. Returns `None` if the input is invalid: the tool then returns the error.
pub fn parse_command(input: Value) -> Option<Value> {
    serde_json::to_value(Command::parse(input).ok()?).ok()
}
