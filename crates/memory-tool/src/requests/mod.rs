//! Requests as values: a front reads a [`Request`] from data, and performs it on a memory.
//!
//! Programs in Rust call the methods of [`Memory`]. A front for another language or protocol translates its words to a
//! [`Request`], performs it with [`Memory::perform`], and translates the [`Outcome`] or the [`Exception`].

mod call;
mod care;
mod changes;
mod error;
mod files;
mod given;
mod history;
mod opening;
mod place;
mod proposals;
mod search;
mod transfer;

pub use call::{Call, parse_command, parts_of_error};
pub use care::CareRequest;
pub use changes::{Changes, OnChange};
pub use error::{Exception, RequestError, failure_named, parse_store_error};
pub use files::{Contents, FileRequest};
pub use given::OptionError;
pub use history::HistoryRequest;
pub use opening::{Given, Location, Opening, memories};
pub use place::Place;
pub use proposals::ProposalRequest;
pub use search::SearchRequest;
pub use transfer::TransferRequest;

use memory_tool_core::{BoxError, Content, FileEntry, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::memory::Memory;

/// A request to a memory. In data, it is an object such as `{"files": {"read": {"path": "/memories/a.txt"}}}`.
///
/// ```
/// use memory_tool::Memory;
/// use memory_tool::requests::{Outcome, Request};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::open("in-process:").await?;
/// let write = json!({"files": {"write": {"path": "/memories/profile.md", "content": "Prefers tea."}}});
/// memory.perform(Request::parse(write)?).await?;
/// let search = Request::parse(json!({"search": {"pattern": "tea"}}))?;
/// let Outcome::Data(report) = memory.perform(search).await? else { unreachable!() };
/// assert_eq!(report["text"], "/memories/profile.md\n1: Prefers tea.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Reads and writes files.
    Files(FileRequest),
    /// Reads the history, or takes changes back.
    History(HistoryRequest),
    /// Reads proposals, or decides about them.
    Proposals(ProposalRequest),
    /// Searches the memory.
    Search(SearchRequest),
    /// Copies, synchronizes, exports or imports files.
    Transfer(TransferRequest),
    /// Maintains the memory.
    Care(CareRequest),
    /// Calls the tool. It cannot be in data, since a call has a turn.
    #[serde(skip)]
    Call(Call),
}

/// The outcome of a [`Request`].
#[expect(clippy::exhaustive_enums, reason = "fronts convert it")]
pub enum Outcome {
    /// The request was performed, and has no result.
    Done,
    /// A text, for example of a file.
    Text(String),
    /// The contents of a file.
    Bytes(Vec<u8>),
    /// The files under a directory.
    Files(Vec<FileEntry>),
    /// The usage of the memory.
    Usage(Usage),
    /// The changes of the memory from now on.
    Changes(Changes),
    /// The reply of the tool.
    Content(Content),
    /// The reply of the tool, and its parts for a function that words it.
    Worded(Content, Value),
    /// Another result.
    Data(Value),
}

impl Request {
    /// Reads a request from data.
    ///
    /// # Errors
    /// [`RequestError::Search`] for an invalid search, [`RequestError::History`] for one of the history,
    /// [`RequestError::Proposal`] for one of proposals, and otherwise [`RequestError::Invalid`].
    pub fn parse<'de, D>(data: D) -> Result<Self, RequestError>
    where
        D: Deserializer<'de, Error: Into<BoxError>>,
    {
        serde_path_to_error::deserialize(data).map_err(|error| match error.path().iter().next() {
            Some(Segment::Enum { variant }) if variant == "search" => RequestError::Search(error.inner().to_string()),
            Some(Segment::Enum { variant }) if variant == "proposals" => {
                RequestError::Proposal(error.inner().to_string())
            }
            Some(Segment::Enum { variant }) if variant == "history" => RequestError::History(error.inner().to_string()),
            _ => RequestError::Invalid { field: error.path().to_string(), source: error.into_inner().into() },
        })
    }

    /// Sets the other memory of a copy or a synchronization, which cannot be in data.
    #[must_use]
    pub fn to(mut self, destination: Memory) -> Self {
        if let Self::Transfer(TransferRequest::Copy { to, .. } | TransferRequest::Sync { to, .. }) = &mut self {
            *to = Some(destination);
        }
        self
    }

    /// Whether the request reads single files or listings, and so can end without waiting.
    pub fn is_read(&self) -> bool {
        match self {
            Self::Files(request) => request.is_read(),
            Self::Call(call) => call.is_read(),
            Self::Care(request) => matches!(request, CareRequest::Usage {}),
            Self::History(_) | Self::Proposals(_) | Self::Search(_) | Self::Transfer(_) => false,
        }
    }
}

impl Memory {
    /// Performs a request.
    ///
    /// # Errors
    /// The errors of the method of [`Memory`] or its history that the request stands for.
    pub async fn perform(&self, request: Request) -> Result<Outcome, RequestError> {
        match request {
            Request::Files(request) => Ok(request.perform(self).await?),
            Request::History(request) => request.perform(self).await,
            Request::Proposals(request) => request.perform(self).await,
            Request::Search(request) => request.perform(self).await,
            Request::Transfer(request) => request.perform(self).await,
            Request::Care(request) => Ok(request.perform(self).await?),
            Request::Call(call) => Ok(call.perform(self).await?),
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_tool_core::{Actor, InMemoryStore};
    use serde_json::{Value, json};

    use super::*;

    async fn memory() -> Memory {
        Memory::over(InMemoryStore::new()).history().build().await.unwrap()
    }

    /// Performs a request, and returns its outcome in short.
    async fn performed(memory: &Memory, request: Value) -> Result<Value, RequestError> {
        Ok(match memory.perform(Request::parse(request)?).await? {
            Outcome::Done => Value::Null,
            Outcome::Text(text) => text.into(),
            Outcome::Bytes(bytes) => bytes.into(),
            Outcome::Files(files) => files.iter().map(|file| file.path.as_str()).collect(),
            Outcome::Usage(usage) => json!([usage.files, usage.bytes]),
            Outcome::Data(value) => value,
            Outcome::Changes(_) | Outcome::Content(_) | Outcome::Worded(..) => json!("other"),
        })
    }

    #[tokio::test]
    async fn requests_perform_the_methods_that_they_stand_for() {
        let memory = memory().await;
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("a.tar");
        for (request, expected) in [
            (json!({"files": {"write": {"path": "/memories/a", "text": "tea", "if_absent": true}}}), Value::Null),
            (json!({"files": {"write": {"path": "/memories/a", "text": "tea\n", "if_content": "tea"}}}), Value::Null),
            (json!({"files": {"append": {"path": "/memories/a", "content": "x"}}}), Value::Null),
            (json!({"files": {"read_text": {"path": "/memories/a"}}}), json!("tea\nx")),
            (json!({"files": {"read": {"path": "/memories/a"}}}), json!(b"tea\nx")),
            (json!({"files": {"exists": {"path": "/memories/b"}}}), json!(false)),
            (json!({"files": {"rename": {"old_path": "/memories/a", "new_path": "/memories/b"}}}), Value::Null),
            (json!({"files": {"list": {"directory": "/memories"}}}), json!(["/memories/b"])),
            (json!({"files": {"watch": {}}}), json!("other")),
            (json!({"care": {"usage": {}}}), json!([1, 5])),
            (json!({"care": {"verify": {}}}), json!({"files": 1, "bytes": 5, "problems": []})),
            (
                json!({"care": {"lint": {"only": ["empty"], "within": ["/memories/b"]}}}),
                json!({"files": 1, "skipped": 0, "findings": [], "more": 0}),
            ),
            (json!({"care": {"expire": {}}}), json!([])),
            (json!({"care": {"expire_all": {}}}), json!([])),
            (json!({"care": {"scopes": {}}}), json!([])),
            (json!({"history": {"read_text": {"path": "/memories/a", "entry": 1}}}), json!("tea")),
            (json!({"files": {"remove": {"path": "/memories/b"}}}), Value::Null),
        ] {
            assert_eq!(performed(&memory, request.clone()).await.unwrap(), expected, "{request}");
        }
        let by_ada = memory.by(Actor::from_trusted_name("ada").unwrap());
        let undo = json!({"history": {"undo": {"count": 1, "force": false}}});
        let undone = performed(&by_ada, undo).await.unwrap();
        assert_eq!(
            (&undone["origin"], &undone["actor"], &undone["missing"]),
            (&json!({"undo": [5]}), &json!("ada"), &json!([]))
        );
        let log = json!({"history": {"log": {"actor": "ada", "limit": 1, "path": "/memories/b"}}});
        assert_eq!(performed(&memory, log).await.unwrap()[0]["number"], undone["number"]);
        let search =
            performed(&memory, json!({"search": {"pattern": "TEA", "case": "ignored", "at": 1}})).await.unwrap();
        assert_eq!(search["text"], "/memories/a\n1: tea");
        let export = json!({"transfer": {"export": {"path": archive, "overwrite": false}}});
        assert_eq!(performed(&memory, export).await.unwrap()["is_complete"], true);
        let import = json!({"transfer": {"import": {"path": archive, "overwrite": true}}});
        assert_eq!(performed(&memory, import).await.unwrap()["unchanged"], 1);
        let copy = Request::parse(json!({"transfer": {"copy": {"overwrite": true}}})).unwrap();
        let other = Memory::open("in-process:").await.unwrap();
        let Outcome::Data(report) = memory.perform(copy.to(other)).await.unwrap() else { panic!("no report") };
        assert_eq!(report["copied"], 1);
        assert_eq!(performed(&memory, json!({"files": {"clear": {}}})).await.unwrap(), Value::Null);
        assert_eq!(performed(&memory, json!({"care": {"forget": {}}})).await.unwrap(), Value::Null);
    }

    #[tokio::test]
    async fn an_error_has_the_class_of_its_request_and_names_the_field() {
        let memory = memory().await;
        for (request, class, text) in [
            (
                json!({"files": {"read": {"path": 5}}}),
                "TypeError",
                "invalid files.read.path: invalid type: integer `5`",
            ),
            (json!({"files": {"append": {"path": "/memories/a", "content": 5}}}), "TypeError", "a text or bytes"),
            (json!({"files": {"fly": {}}}), "TypeError", "unknown variant `fly`"),
            (json!({"transfer": {"copy": {"overwrite": true}}}), "TypeError", "another memory is required"),
            (json!({"transfer": {"sync": {}}}), "TypeError", "another memory is required"),
            (json!({"files": {"read": {"path": "/etc"}}}), "InvalidPath", "must start with /memories"),
            (json!({"search": {"pattern": "a", "regexp": true}}), "SearchError", "unknown field `regexp`"),
            (json!({"search": {"pattern": "(", "regex": true}}), "SearchError", "the regular expression is invalid"),
            (json!({"search": {"pattern": "a", "within": ["/etc"]}}), "InvalidPath", "must start with /memories"),
            (json!({"search": {"pattern": "a", "within": ["/memories/b"]}}), "NotFound", "/memories/b"),
            (json!({"history": {"undo": {"count": "x"}}}), "HistoryError", "invalid type: string \"x\""),
            (json!({"history": {"undo": {"count": 1, "force": false}}}), "HistoryError", "nothing to undo"),
            (json!({"history": {"log": {"path": "/etc"}}}), "InvalidPath", "must start with /memories"),
            (json!({"history": {"log": {"since": "soon"}}}), "HistoryError", "expected a time such as"),
        ] {
            let error = performed(&memory, request.clone()).await.unwrap_err();
            let exception = Exception::from(&error);
            assert_eq!(exception.class, class, "{request}: {error}");
            assert!(exception.arguments[0].as_str().unwrap().contains(text), "{request}: {error}");
        }
    }

    #[test]
    fn a_wrong_option_is_named_as_the_language_writes_it() {
        let wrong = |name: &str, value: Value| {
            let data = vec![(name.to_owned(), value.to_string())];
            let given =
                Given { data, key: None, old_keys: Vec::new(), mounts: Vec::new(), on_change: None, spelling: dashed };
            Opening::parse(Location::Url("in-process:".into()), given).err().unwrap()
        };
        for (name, value, text) in [
            (
                "max_files",
                json!("many"),
                "invalid max-files: expected a whole number, not negative, got string \"many\"",
            ),
            ("expire_after", json!([]), "invalid expire-after: expected a number, got sequence"),
            ("read_only", json!("yes"), "invalid read-only: expected a boolean, got string \"yes\""),
            ("key_file", json!(5), "invalid key-file: expected path string"),
            ("no_such", json!(5), "unknown option no-such"),
        ] {
            assert!(matches!(wrong(name, value), OptionError::Type(message) if message == text), "{name}");
        }
        for (name, value, text) in [
            ("max_files", json!(-1), "invalid max-files: invalid value: integer `-1`, expected u64"),
            ("audit_log", json!("log"), "audit-log requires actor"),
            ("screen", json!("hide"), "invalid screen: unknown variant `hide`, expected `refuse` or `redact`"),
        ] {
            assert!(matches!(wrong(name, value), OptionError::Value(message) if message == text), "{name}");
        }
    }

    fn dashed(name: &str) -> String {
        name.replace('_', "-")
    }
}
