//! [`ReadingTool`]: the tools that only read, and their arguments.

use memory_tool::store::Moment;
use memory_tool::{Error, Memory, MemoryPath, StoreError};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::access::mounts::Mount;
use crate::fronts::mcp::arguments::{object_schema, read_json, whole};
use crate::fronts::mcp::{history, search};

/// A tool that only reads. It takes its turn as a `view` does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadingTool {
    Search,
    History,
}

impl ReadingTool {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            search::NAME => Some(Self::Search),
            history::NAME => Some(Self::History),
            _ => None,
        }
    }

    /// Calls the tool. `mount` is given for the history of a shared memory.
    pub(super) async fn call(
        self,
        memory: &Memory,
        arguments: JsonObject,
        mount: Option<&Mount>,
    ) -> Result<String, ReadFailure> {
        let arguments = Arguments(arguments);
        match self {
            Self::Search => search::call(&*memory.store(), arguments).await,
            Self::History => history::call(memory, arguments, mount).await,
        }
    }
}

/// The definition of a tool that only reads, with the names, types and descriptions of its fields.
pub(super) fn definition_of(
    name: &'static str,
    title: &str,
    description: &'static str,
    fields: &[(&str, &str, &str)],
    required: &[&str],
) -> Tool {
    let fields =
        fields.iter().map(|(name, kind, text)| ((*name).to_owned(), json!({"type": kind, "description": text})));
    let annotations = ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(name, description, object_schema(fields, required)).with_title(title).with_annotations(annotations)
}

/// An error of a tool that only reads, for the model.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The arguments are wrong.
    Invalid(String),
    /// The error of a command.
    Command(Error),
}

impl From<StoreError> for ReadFailure {
    fn from(error: StoreError) -> Self {
        Self::Command(Error::Storage { kind: error.kind(), source: error })
    }
}

/// The arguments as the client sent them. Some clients fill in every field, and send each value as a string.
pub(super) struct Arguments(pub(super) JsonObject);

impl Arguments {
    /// The value of a field, unless it counts as left out.
    fn take(&mut self, field: &str) -> Option<Value> {
        let value = self.0.remove(field)?;
        let is_left_out = value.is_null() || matches!(value.as_str(), Some("" | "null")) || value == json!([]);
        (!is_left_out).then_some(value)
    }

    pub(super) fn path(&mut self, field: &str) -> Result<Option<MemoryPath>, ReadFailure> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let path = value.as_str().ok_or_else(|| invalid(field, "a string"))?;
        MemoryPath::parse(path).map(Some).map_err(|error| ReadFailure::Command(error.into()))
    }

    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, ReadFailure> {
        let Some(value) = self.take(field) else { return Ok(None) };
        value.as_str().map(str::to_owned).map(Some).ok_or_else(|| invalid(field, "a string"))
    }

    pub(super) fn flag(&mut self, field: &str) -> Result<bool, ReadFailure> {
        let value = self.take(field).map_or(Value::Bool(false), read_json);
        value.as_bool().ok_or_else(|| invalid(field, "true or false"))
    }

    pub(super) fn whole(&mut self, field: &str, expected: &str) -> Result<Option<usize>, ReadFailure> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let number = whole(&read_json(value)).and_then(|number| usize::try_from(number).ok());
        number.map(Some).ok_or_else(|| invalid(field, expected))
    }

    pub(super) fn time(&mut self, field: &str) -> Result<Option<Moment>, ReadFailure> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let read = value.as_str().and_then(|given| given.parse().ok());
        read.map(Some).ok_or_else(|| invalid(field, "a time such as 2026-11-26T10:00:00Z, or an age such as 24h"))
    }
}

pub(super) fn invalid(field: &str, expected: &str) -> ReadFailure {
    ReadFailure::Invalid(format!("Error: Field `{field}` must be {expected}"))
}
