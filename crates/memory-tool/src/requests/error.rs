//! [`RequestError`], and [`Exception`]: an error as the class and the arguments of an exception.

use memory_tool_core::{BoxError, Error, ErrorKind, OpenError, Problem, QuotaKind, SearchError, StoreError, StorePath};
use serde_json::{Value, json};

use crate::options::OptionsError;
use crate::transfer::TransferError;

const QUOTAS: [(QuotaKind, &str); 4] = [
    (QuotaKind::Files, "files"),
    (QuotaKind::Bytes, "bytes"),
    (QuotaKind::FileBytes, "file_bytes"),
    (QuotaKind::Depth, "depth"),
];

/// The policy of a refusal by a store in another language.
const POLICY: &str = "store";

/// An error of a [`Request`](crate::requests::Request).
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "fronts match it")]
pub enum RequestError {
    /// The data is not a request.
    #[error("invalid {field}: {source}")]
    Invalid {
        /// The place of the mistake.
        field: String,
        /// The error of the format of the data.
        source: BoxError,
    },
    /// The memory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The options cannot be used.
    #[error("{}", Problem::of(.0).message)]
    Options(#[source] OptionsError),
    /// The history cannot do this, for this reason.
    #[error("{0}")]
    History(String),
    /// The proposal cannot be decided like this, for this reason.
    #[error("{0}")]
    Proposal(String),
    /// The search cannot be made, for this reason.
    #[error("{0}")]
    Search(String),
    /// A copy, an export or an import failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// An operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call of the tool failed. The model reads the error.
    #[error(transparent)]
    Tool(#[from] Error),
}

impl From<SearchError> for RequestError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => Self::Store(error),
            error => Self::Search(error.to_string()),
        }
    }
}

/// An error as the class and the arguments of an exception.
#[expect(clippy::exhaustive_structs, reason = "fronts read it")]
pub struct Exception {
    /// The class, such as `NotFound`.
    pub class: &'static str,
    /// The arguments of its constructor.
    pub arguments: Vec<Value>,
}

impl Exception {
    fn new(class: &'static str, arguments: impl IntoIterator<Item = Value>) -> Self {
        Self { class, arguments: arguments.into_iter().collect() }
    }
}

impl From<&RequestError> for Exception {
    fn from(error: &RequestError) -> Self {
        let text = Value::from(error.to_string());
        match error {
            RequestError::Open(error) => Self::new("OpenError", [text, error.kind().name().into()]),
            RequestError::Invalid { .. } => Self::new("TypeError", [text]),
            RequestError::Options(_) => Self::new("OpenError", [text, ErrorKind::Other.name().into()]),
            RequestError::History(_) => Self::new("HistoryError", [text]),
            RequestError::Proposal(_) => Self::new("ProposalError", [text]),
            RequestError::Search(_) => Self::new("SearchError", [text]),
            RequestError::Transfer(error) => Self::new("TransferError", [text, error.kind().name().into()]),
            RequestError::Store(error) => error.into(),
            RequestError::Tool(_) => Self::new("ToolError", [text]),
        }
    }
}

impl From<&StoreError> for Exception {
    fn from(error: &StoreError) -> Self {
        let at = |class, path: &StorePath| Self::new(class, [path.as_str().into()]);
        let text = Value::from(error.to_string());
        match error {
            StoreError::AlreadyExists { path } => at("AlreadyExists", path),
            StoreError::NotFound { path } => at("NotFound", path),
            StoreError::VersionMismatch { path } => at("VersionMismatch", path),
            StoreError::NotADirectory { path } => at("NotADirectory", path),
            StoreError::NotAFile { path } => at("NotAFile", path),
            StoreError::NotText { path } => at("NotText", path),
            StoreError::SymbolicLink { path } => at("SymbolicLink", path),
            StoreError::NotARegularFile { path } => at("NotARegularFile", path),
            StoreError::OverQuota { path, kind, limit, requested, remaining } => {
                let kind = QUOTAS.iter().find(|(other, _)| other == kind).map_or("", |(_, name)| name);
                let arguments = [json!(path.as_str()), json!(kind), json!(limit), json!(requested), json!(remaining)];
                Self::new("OverQuota", arguments)
            }
            StoreError::Refused { path, policy, reason } => {
                Self::new("Refused", [path.as_str().into(), reason.as_str().into(), (*policy).into()])
            }
            StoreError::Path(_) => Self::new("InvalidPath", [text]),
            StoreError::InvalidBatch(_) => Self::new("InvalidBatch", [text]),
            StoreError::Failure { kind, .. } => Self::new("StoreFailure", [text, kind.name().into()]),
            _ => Self::new("StoreError", [text]),
        }
    }
}

/// The error that a class of exceptions and its arguments describe. Returns `None` for other classes.
///
/// # Errors
/// Fails if an argument is invalid.
pub fn parse_store_error(class: &str, arguments: &[Value]) -> Result<Option<StoreError>, BoxError> {
    let text = |index| arguments.get(index).and_then(Value::as_str).ok_or_else(|| missing(class, index));
    let number = |index| arguments.get(index).and_then(Value::as_u64).ok_or_else(|| missing(class, index));
    let path = || Ok::<_, BoxError>(text(0)?.parse::<StorePath>()?);
    Ok(Some(match class {
        "AlreadyExists" => StoreError::AlreadyExists { path: path()? },
        "NotFound" => StoreError::NotFound { path: path()? },
        "VersionMismatch" => StoreError::VersionMismatch { path: path()? },
        "NotADirectory" => StoreError::NotADirectory { path: path()? },
        "NotAFile" => StoreError::NotAFile { path: path()? },
        "NotText" => StoreError::NotText { path: path()? },
        "SymbolicLink" => StoreError::SymbolicLink { path: path()? },
        "NotARegularFile" => StoreError::NotARegularFile { path: path()? },
        "OverQuota" => {
            let given = text(1)?;
            let kind = QUOTAS.iter().find(|(_, name)| *name == given).map(|(kind, _)| *kind);
            StoreError::OverQuota {
                path: path()?,
                kind: kind.ok_or_else(|| format!("not a part of a quota: {given}"))?,
                limit: number(2)?,
                requested: number(3)?,
                remaining: number(4)?,
            }
        }
        "Refused" => StoreError::refused(&path()?, POLICY, text(1)?),
        _ => return Ok(None),
    }))
}

fn missing(class: &str, index: usize) -> BoxError {
    format!("invalid argument {} of {class}", index + 1).into()
}

/// The kind of failure with this name.
pub fn failure_named(name: &str) -> Option<ErrorKind> {
    ErrorKind::OF_FAILURES.iter().find(|kind| kind.name() == name).copied()
}
