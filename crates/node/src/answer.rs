//! [`Answer`]: the result of a call, for TypeScript.

use std::error::Error as StdError;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use memory_tool::api::Content;
use memory_tool::requests::{Exception, OptionError, Outcome, RequestError, parse_store_error, parts_of_error};
use memory_tool::{FileEntry, PathError, StoreError, Usage};
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use serde_json::Value;

use crate::watch::NativeWatch;

/// The result of a call. At most one field is set, except that the parts of a reply come with its content.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Answer {
    /// Text.
    pub text: Option<String>,
    /// Content blocks as JSON.
    pub blocks: Option<String>,
    /// A value as JSON.
    pub json: Option<String>,
    /// The contents of a file.
    pub bytes: Option<Uint8Array>,
    /// The files under a directory.
    pub entries: Option<Vec<ListedEntry>>,
    /// The usage of the memory.
    pub usage: Option<CountedUsage>,
    /// The changes of the memory.
    pub watch: Option<NativeWatch>,
    /// The report of a run of the conformance suite.
    pub report: Option<SuiteReport>,
    /// An error and its causes.
    pub error: Option<Vec<Raised>>,
}

/// A file in a listing. Times are in milliseconds since the epoch.
#[napi(object)]
pub struct ListedEntry {
    /// The path.
    pub path: String,
    /// The size in bytes.
    pub size: f64,
    /// The time of creation.
    pub created: Option<f64>,
    /// The time of the last change.
    pub modified: Option<f64>,
    /// Whether the file is damaged.
    pub damaged: bool,
}

/// The usage of a directory.
#[napi(object)]
pub struct CountedUsage {
    /// The number of files.
    pub files: f64,
    /// Their total size.
    pub bytes: f64,
    /// The number of names in the longest path.
    pub depth: f64,
}

/// The report of a run of the conformance suite.
#[napi(object, object_from_js = false)]
pub struct SuiteReport {
    /// Whether no case failed, and at least one passed.
    pub is_success: bool,
    /// The report as a table.
    pub text: String,
    /// The report as JSON.
    pub json: String,
}

/// An error, as the class of an exception and its arguments.
#[napi(object, object_from_js = false)]
pub struct Raised {
    /// The name of the class.
    pub class: String,
    /// The arguments of its constructor as JSON.
    pub arguments: String,
    /// The parts of a `ToolError` as JSON.
    pub parts: Option<String>,
    /// The number of an error of the operating system.
    pub errno: Option<i32>,
    /// The error of an invalid path.
    pub rejected: Option<RejectedPath>,
    /// A value that a store in TypeScript threw. It replaces the class.
    pub thrown: Option<napi::Error>,
}

/// The error of an `InvalidPath` that this module raised.
#[napi]
pub struct RejectedPath(pub(crate) PathError);

impl Answer {
    /// An error that has no cause.
    pub(crate) fn raise(class: &str, message: &str) -> Self {
        Self { error: Some(vec![Raised::new(class, vec![message.into()])]), ..Self::default() }
    }
}

impl From<Result<Outcome, RequestError>> for Answer {
    fn from(outcome: Result<Outcome, RequestError>) -> Self {
        let answer = Self::default();
        match outcome {
            Ok(Outcome::Done) => answer,
            Ok(Outcome::Text(text) | Outcome::Content(Content::Text(text))) => Self { text: Some(text), ..answer },
            Ok(Outcome::Content(blocks)) => match serde_json::to_string(&blocks) {
                Ok(blocks) => Self { blocks: Some(blocks), ..answer },
                Err(error) => Self::raise("Error", &error.to_string()),
            },
            Ok(Outcome::Worded(content, parts)) => {
                Self { json: Some(parts.to_string()), ..Self::from(Ok(Outcome::Content(content))) }
            }
            Ok(Outcome::Changes(changes)) => Self { watch: Some(changes.into()), ..answer },
            Ok(Outcome::Bytes(bytes)) => Self { bytes: Some(bytes.into()), ..answer },
            Ok(Outcome::Files(entries)) => {
                Self { entries: Some(entries.into_iter().map(ListedEntry::from).collect()), ..answer }
            }
            Ok(Outcome::Data(value)) => Self { json: Some(value.to_string()), ..answer },
            Ok(Outcome::Usage(usage)) => Self { usage: Some(usage.into()), ..answer },
            Err(error) => error.into(),
        }
    }
}

impl From<RequestError> for Answer {
    fn from(error: RequestError) -> Self {
        let mut raised = match &error {
            RequestError::Store(error) => return error.into(),
            RequestError::Tool(tool) => {
                vec![Raised { parts: Some(parts_of_error(tool).to_string()), ..Exception::from(&error).into() }]
            }
            other => vec![Exception::from(other).into()],
        };
        raised.extend(causes(&error));
        Self { error: Some(raised), ..Self::default() }
    }
}

impl From<&StoreError> for Answer {
    fn from(error: &StoreError) -> Self {
        Self { error: Some([Raised::from(error)].into_iter().chain(causes(error)).collect()), ..Self::default() }
    }
}

impl From<OptionError> for Answer {
    fn from(error: OptionError) -> Self {
        let class = if matches!(error, OptionError::Type(_)) { "TypeError" } else { "RangeError" };
        Self::raise(class, &error.to_string())
    }
}

impl From<Usage> for CountedUsage {
    fn from(Usage { files, bytes, depth, .. }: Usage) -> Self {
        Self { files: number(files), bytes: number(bytes), depth: number(depth) }
    }
}

impl From<FileEntry> for ListedEntry {
    fn from(entry: FileEntry) -> Self {
        let FileEntry { path, size, created, modified, is_damaged, .. } = entry;
        let (created, modified) = (created.and_then(milliseconds), modified.and_then(milliseconds));
        Self { path: path.to_string(), size: number(size), created, modified, damaged: is_damaged }
    }
}

fn milliseconds(time: SystemTime) -> Option<f64> {
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64() * 1000.0)
}

/// The number as JavaScript has it: exact up to 2^53.
pub(crate) fn number(number: u64) -> f64 {
    number as f64
}

impl Raised {
    fn new(class: &str, arguments: Vec<Value>) -> Self {
        let arguments = Value::from(arguments).to_string();
        Self { class: class.to_owned(), arguments, parts: None, errno: None, rejected: None, thrown: None }
    }
}

impl From<Exception> for Raised {
    fn from(Exception { class, arguments }: Exception) -> Self {
        Self::new(class, arguments)
    }
}

impl From<&StoreError> for Raised {
    fn from(error: &StoreError) -> Self {
        let raised = Exception::from(error).into();
        match error {
            StoreError::Path(error) => Self { rejected: Some(RejectedPath(error.clone())), ..raised },
            _ => raised,
        }
    }
}

/// The causes of an error, the nearest first.
fn causes(error: &(dyn StdError + 'static)) -> Vec<Raised> {
    let sources = std::iter::successors(error.source(), |&error| error.source());
    let raised = sources.map(|error| {
        if let Some(error) = error.downcast_ref::<StoreError>() {
            return error.into();
        }
        let raised = Raised::new("MemoryToolError", vec![error.to_string().into()]);
        let errno = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        let thrown = error.downcast_ref::<napi::Error>().and_then(|error| error.try_clone().ok());
        Raised { errno, thrown, ..raised }
    });
    raised.collect()
}

/// The message of an exception, from the name of its class and its arguments as JSON.
///
/// # Errors
///
/// Fails if an argument is invalid.
#[napi]
pub fn describe(name: String, words: String) -> napi::Result<String> {
    let wrong = |error: &dyn std::fmt::Display| napi::Error::from_reason(error.to_string());
    let words: Vec<Value> = serde_json::from_str(&words).map_err(|error| wrong(&error))?;
    let error = parse_store_error(&name, &words).map_err(|error| wrong(&error))?;
    error.map(|error| error.to_string()).ok_or_else(|| wrong(&format!("unknown error {name}")))
}
