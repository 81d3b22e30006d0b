//! The contract as data: every case of `contract/*.json`, run against every store, as a named test.
//!
//! `contract/README.md` describes the format of the cases, for runners in other languages.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use libtest_mimic::{Arguments, Trial};
use memory_tool_core::{
    Batch, DEFAULT_MAX_VIEW_CHARACTERS, Engine, InMemoryStore, MemoryPath, MemoryTool, Node, Store, ToolResult, ToolUse,
};
use memory_tool_local::LocalStore;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The clauses that a sequence of commands can show: all but W4, P4 and X2.
const CLAUSES: [&str; 38] = [
    "W1", "W2", "W3", "W5", "P1", "P2", "P3", "P5", "P6", "V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10",
    "C1", "C2", "C3", "S1", "S2", "S3", "S4", "S5", "I1", "I2", "I3", "D1", "D2", "R1", "R2", "R3", "X1", "X3", "X4",
];

const GROUPS: [(&str, &str); 9] = [
    ("wire", include_str!("contract/wire.json")),
    ("paths", include_str!("contract/paths.json")),
    ("view", include_str!("contract/view.json")),
    ("create", include_str!("contract/create.json")),
    ("str_replace", include_str!("contract/str_replace.json")),
    ("insert", include_str!("contract/insert.json")),
    ("delete", include_str!("contract/delete.json")),
    ("rename", include_str!("contract/rename.json")),
    ("beyond", include_str!("contract/beyond.json")),
];

/// Makes a fresh store.
type Open = fn(&Runtime) -> Subject;

const SUBJECTS: [(&str, Open); 2] = [("in-memory", in_memory), ("local", local)];

fn main() -> ExitCode {
    let cases: Vec<_> = GROUPS.into_iter().flat_map(parse_group).collect();
    let mut trials = trials_of_the_data(&cases);
    for case in cases.iter().flat_map(Case::expand) {
        let case = Arc::new(case);
        trials.extend(SUBJECTS.map(|(name, open)| case.trial(name, open)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn parse_group((name, json): (&str, &str)) -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(json).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    for Case { id, .. } in &cases {
        assert!(id.starts_with(&format!("{name}.")), "{name}.json: the id {id} is of another group");
    }
    cases
}

/// The tests of the cases themselves.
fn trials_of_the_data(cases: &[Case]) -> Vec<Trial> {
    let mut ids = BTreeSet::new();
    let repeated: Vec<_> = cases.iter().map(|case| case.id.clone()).filter(|id| !ids.insert(id.clone())).collect();
    let cited: BTreeSet<_> = cases.iter().flat_map(|case| case.clause.clone().into_vec()).collect();
    let known = BTreeSet::from(CLAUSES.map(str::to_owned));
    let difference = |of: &BTreeSet<String>, from: &BTreeSet<String>| of.difference(from).cloned().collect();
    vec![
        trial_of_none("data::every-id-is-unique", repeated),
        trial_of_none("data::every-clause-is-cited", difference(&known, &cited)),
        trial_of_none("data::every-cited-clause-exists", difference(&cited, &known)),
    ]
}

/// A test that there are no offenders.
fn trial_of_none(name: &str, offenders: Vec<String>) -> Trial {
    Trial::test(name, move || if offenders.is_empty() { Ok(()) } else { Err(offenders.join(", ").into()) })
}

/// A fresh store, for one case.
struct Subject {
    store: Arc<dyn Store>,
    /// Where the store keeps its files; removed when dropped.
    directory: Option<TempDir>,
}

fn in_memory(_: &Runtime) -> Subject {
    Subject { store: Arc::new(InMemoryStore::new()), directory: None }
}

fn local(runtime: &Runtime) -> Subject {
    let mut builder = tempfile::Builder::new();
    builder.prefix("memory-tool-contract-");
    // The store syncs each write, which takes no time where there is no disk.
    let shared_memory = Path::new("/dev/shm");
    let directory = if shared_memory.is_dir() { builder.tempdir_in(shared_memory) } else { builder.tempdir() }.unwrap();
    let store = runtime.block_on(LocalStore::open(directory.path())).unwrap();
    Subject { store: Arc::new(store), directory: Some(directory) }
}

impl Subject {
    /// What no error may say (`[W5]`).
    fn secrets(&self) -> Vec<String> {
        let directory = self.directory.iter().filter_map(|directory| directory.path().file_name());
        directory.map(|name| name.to_string_lossy().into_owned()).chain(["os error".to_owned()]).collect()
    }

    async fn file(&self, path: &MemoryPath) -> Result<Vec<u8>, String> {
        match self.store.read(path).await {
            Ok(Node::File(file)) => Ok(file.content),
            other => Err(format!("expected a file at {path}, got {other:?}")),
        }
    }

    async fn files(&self) -> Result<Vec<MemoryPath>, String> {
        let files = self.store.list(&MemoryPath::root()).await.map_err(|error| format!("{error:?}"))?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    /// What another program does: a file is there, whatever was before.
    async fn put(&self, path: &MemoryPath, content: Vec<u8>) -> Result<(), String> {
        let batch = Batch::new().write(path.clone(), content).map_err(|error| error.to_string())?;
        self.store.apply(batch).await.map_err(|error| format!("{error:?}"))
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    clause: OneOrMany,
    reason: String,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    for_each: Vec<Map<String, Value>>,
    steps: Vec<Value>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    create_overwrites: bool,
    max_view_characters: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { create_overwrites: false, max_view_characters: Some(DEFAULT_MAX_VIEW_CHARACTERS) }
    }
}

impl Case {
    /// One case for each set of variables, or this one.
    fn expand(&self) -> Vec<Self> {
        if self.for_each.is_empty() {
            return vec![self.clone()];
        }
        let instance = |(index, variables): (usize, &Map<String, Value>)| {
            let variables = variables.iter().map(|(name, value)| (name.clone(), resolve(value))).collect();
            let steps = self.steps.iter().map(|step| substitute(step, &variables)).collect();
            Self { id: format!("{}[{index}]", self.id), steps, ..self.clone() }
        };
        self.for_each.iter().enumerate().map(instance).collect()
    }

    fn trial(self: &Arc<Self>, subject: &str, open: Open) -> Trial {
        let case = Arc::clone(self);
        Trial::test(format!("{subject}::{}", self.id.replacen('.', "::", 1)), move || Ok(case.run(open)?))
    }

    fn run(&self, open: Open) -> Result<(), String> {
        let runtime = Runtime::new().unwrap();
        let subject = open(&runtime);
        let tool = Engine::builder(Arc::clone(&subject.store))
            .create_overwrites(self.options.create_overwrites)
            .max_view_characters(self.options.max_view_characters)
            .build();
        for (number, json) in (1..).zip(&self.steps) {
            let outcome = Step::parse(json).and_then(|step| runtime.block_on(step.run(&tool, &subject)));
            outcome.map_err(|failure| self.report(number, json, &failure))?;
        }
        Ok(())
    }

    fn report(&self, number: usize, json: &Value, failure: &str) -> String {
        let Self { id, reason, .. } = self;
        let clauses = self.clause.clone().into_vec().join(", ");
        format!("{id} [{clauses}]: {reason}\nstep {number}: {}\n{failure}", excerpt(&json.to_string(), 0))
    }
}

/// The value with each `{variable}` in its texts replaced; a text that is nothing but one becomes the variable's value.
fn substitute(value: &Value, variables: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => substitute_in_text(text, variables),
        Value::Array(items) => items.iter().map(|item| substitute(item, variables)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), substitute(field, variables))).collect()
        }
        scalar => scalar.clone(),
    }
}

fn substitute_in_text(text: &str, variables: &Map<String, Value>) -> Value {
    let whole = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if let Some(value) = whole.and_then(|name| variables.get(name)) {
        return value.clone();
    }
    let mut parts = text.split('{');
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').and_then(|(name, rest)| Some((variables.get(name)?, rest))) {
            Some((Value::String(value), rest)) => replaced.extend([value, rest]),
            Some((value, rest)) => replaced.extend([value.to_string().as_str(), rest]),
            None => replaced.extend(["{", part]),
        }
    }
    Value::String(replaced)
}

/// The value with each text template replaced by the text that it stands for.
fn resolve(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(resolve).collect(),
        Value::Object(fields) => {
            let fields: Map<_, _> = fields.iter().map(|(name, field)| (name.clone(), resolve(field))).collect();
            template_text(&fields).map_or(Value::Object(fields), Value::String)
        }
        scalar => scalar.clone(),
    }
}

/// What `{"repeat": [text, count]}` or `{"concat": [text, …]}` stands for.
fn template_text(fields: &Map<String, Value>) -> Option<String> {
    let (name, arguments) = fields.iter().next().filter(|_| fields.len() == 1)?;
    match (name.as_str(), arguments.as_array()?.as_slice()) {
        ("repeat", [Value::String(text), count]) => Some(text.repeat(usize::try_from(count.as_u64()?).ok()?)),
        ("concat", parts) => parts.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// What is done, and for a call what must come of it.
struct Step {
    action: Action,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Content(File),
    Definition(Value),
    Files(Vec<MemoryPath>),
    Input(Value),
    /// A text as it is, or any other value written as one line.
    Line(Value),
    Put(File),
}

const ACTIONS: [&str; 6] = ["content", "definition", "files", "input", "line", "put"];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Check {
    Error(String),
    ErrorContaining(Vec<String>),
    ErrorLacking(Vec<String>),
    Image(Image),
    Reply(String),
    Result(Value),
    ToolUseId(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: MemoryPath,
    text: Option<String>,
    base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    media_type: String,
    base64: String,
}

impl Step {
    fn parse(json: &Value) -> Result<Self, String> {
        let Value::Object(fields) = resolve(json) else { return Err("a step is an object".to_owned()) };
        let (action, checks): (Map<_, _>, Map<_, _>) =
            fields.into_iter().partition(|(name, _)| ACTIONS.contains(&name.as_str()));
        let action = serde_json::from_value(Value::Object(action)).map_err(|error| format!("action: {error}"))?;
        let checks = checks.into_iter().map(|(name, value)| serde_json::from_value(json!({ name: value })));
        let checks: Vec<_> = checks.collect::<Result<_, _>>().map_err(|error| format!("check: {error}"))?;
        if matches!(action, Action::Input(_) | Action::Line(_)) == checks.is_empty() {
            return Err("a call, and nothing else, needs a check".to_owned());
        }
        Ok(Self { action, checks })
    }

    async fn run(&self, tool: &dyn MemoryTool, subject: &Subject) -> Result<(), String> {
        match &self.action {
            Action::Content(file) => expect_bytes(&file.bytes()?, &subject.file(&file.path).await?),
            Action::Definition(definition) => expect_json(definition, &json!(tool.definition())),
            Action::Files(files) => expect_text(&sorted_lines(files.clone()), &sorted_lines(subject.files().await?)),
            Action::Line(Value::String(line)) => self.check(&call(tool, line).await, subject),
            Action::Input(value) | Action::Line(value) => self.check(&call(tool, &value.to_string()).await, subject),
            Action::Put(file) => subject.put(&file.path, file.bytes()?).await,
        }
    }

    fn check(&self, result: &Value, subject: &Subject) -> Result<(), String> {
        if let Ok(error) = text_of(result, true) {
            expect_none_of(&subject.secrets(), error).map_err(|failure| format!("[W5] {failure}"))?;
        }
        self.checks.iter().try_for_each(|check| check.verify(result))
    }
}

/// The `tool_result` block that answers a line of JSON.
async fn call(tool: &dyn MemoryTool, line: &str) -> Value {
    json!(match ToolUse::parse(line.as_bytes()) {
        Ok(call) => ToolResult::new(call.id, &tool.call(call.input).await),
        Err(rejected) => ToolResult::from(rejected),
    })
}

impl Check {
    fn verify(&self, result: &Value) -> Result<(), String> {
        match self {
            Self::Error(text) => expect_text(text, text_of(result, true)?),
            Self::ErrorContaining(parts) => expect_all_of(parts, text_of(result, true)?),
            Self::ErrorLacking(parts) => expect_none_of(parts, text_of(result, true)?),
            Self::Image(image) => expect_json(&image.to_content(), &result["content"]),
            Self::Reply(text) => expect_text(text, text_of(result, false)?),
            Self::Result(expected) => expect_json(expected, result),
            Self::ToolUseId(id) => expect_json(&json!(id), &result["tool_use_id"]),
        }
    }
}

impl File {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(base64)) => BASE64.decode(base64).map_err(|error| error.to_string()),
            _ => Err("a file has either `text` or `base64`".to_owned()),
        }
    }
}

impl Image {
    fn to_content(&self) -> Value {
        let Self { media_type, base64 } = self;
        json!([{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64}}])
    }
}

/// The text of a `tool_result` block, which must be an error or must not.
fn text_of(result: &Value, is_error: bool) -> Result<&str, String> {
    let text = result["content"].as_str().filter(|_| result["is_error"].as_bool().unwrap_or_default() == is_error);
    let expected = if is_error { "an error" } else { "a text that is no error" };
    text.ok_or_else(|| format!("expected {expected}, got {}", excerpt(&result.to_string(), 0)))
}

fn expect_all_of(parts: &[String], text: &str) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(*part)) {
        Some(part) => Err(format!("expected a text with {part:?}, got {:?}", excerpt(text, 0))),
        None => Ok(()),
    }
}

fn expect_none_of(parts: &[String], text: &str) -> Result<(), String> {
    match parts.iter().find(|part| text.contains(*part)) {
        Some(part) => Err(format!("expected a text without {part:?}, got {:?}", excerpt(text, 0))),
        None => Ok(()),
    }
}

fn expect_bytes(expected: &[u8], got: &[u8]) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    expect_text(&expected.escape_ascii().to_string(), &got.escape_ascii().to_string())
}

fn expect_json(expected: &Value, got: &Value) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    expect_text(&format!("{expected:#}"), &format!("{got:#}"))
}

fn expect_text(expected: &str, got: &str) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    let line = common_length(expected.split('\n'), got.split('\n'));
    let line_of = |text: &str| text.split('\n').nth(line).map(str::to_owned);
    let column = match (line_of(expected), line_of(got)) {
        (Some(expected), Some(got)) => common_length(expected.chars(), got.chars()),
        _ => 0,
    };
    let shown = |text| line_of(text).map_or("no such line".to_owned(), |line| format!("{:?}", excerpt(&line, column)));
    Err(format!("line {} differs\nexpected: {}\ngot:      {}", line + 1, shown(expected), shown(got)))
}

fn sorted_lines(mut paths: Vec<MemoryPath>) -> String {
    paths.sort();
    paths.iter().map(MemoryPath::as_str).collect::<Vec<_>>().join("\n")
}

fn common_length<T: PartialEq>(left: impl Iterator<Item = T>, right: impl Iterator<Item = T>) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

/// What stands around the given character of a text that may be very long.
fn excerpt(text: &str, character: usize) -> String {
    const BEFORE: usize = 80;
    const LENGTH: usize = 400;
    let start = character.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(start).take(LENGTH).collect();
    let head = if start > 0 { "…" } else { "" };
    let tail = if text.chars().nth(start + LENGTH).is_some() { "…" } else { "" };
    format!("{head}{shown}{tail}")
}
