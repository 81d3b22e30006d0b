//! The cases in `vectors/*.json`. `vectors/README.md` describes their schema.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use memory_tool_core::MemoryPath;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::{Basis, Capability, Case};
use crate::clause::Clause;
use crate::failure::{CaseError, Failure, excerpt, expect_all_of, expect_json, expect_none_of};
use crate::faults::faults_of;
use crate::fixture::ToolOptions;
use crate::session::Answer;
use crate::target::{RunLimits, Target, TargetFactory};

/// The files, each with the cases of one group.
const FILES: [&str; 9] = [
    include_str!("../vectors/wire.json"),
    include_str!("../vectors/paths.json"),
    include_str!("../vectors/view.json"),
    include_str!("../vectors/create.json"),
    include_str!("../vectors/str_replace.json"),
    include_str!("../vectors/insert.json"),
    include_str!("../vectors/delete.json"),
    include_str!("../vectors/rename.json"),
    include_str!("../vectors/beyond.json"),
];

/// The number of failed variants after which a case stops, because each may take a full timeout.
const MAX_FAILED_VARIANTS: usize = 3;

/// A case from data: the input for the tool, and the expected replies and stored files.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    id: String,
    clause: OneOrMany,
    basis: Basis,
    #[serde(default)]
    needs: Vec<Capability>,
    #[serde(default)]
    options: ToolOptions,
    name: Option<String>,
    reason: String,
    #[serde(default)]
    for_each: Vec<Map<String, Value>>,
    steps: Vec<Value>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Clause),
    Many(Vec<Clause>),
}

/// All cases from data, in the order of the files.
#[expect(clippy::expect_used, reason = "the files are part of the crate, and its tests parse them")]
pub(crate) fn all() -> Vec<Vector> {
    let parsed = FILES.map(|json| serde_json::from_str::<Vec<Vector>>(json).expect("the data matches its schema"));
    parsed.into_iter().flatten().collect()
}

impl Vector {
    pub(crate) fn case(&self) -> Case {
        Case {
            id: self.id.clone(),
            clauses: match &self.clause {
                OneOrMany::One(clause) => vec![*clause],
                OneOrMany::Many(clauses) => clauses.clone(),
            },
            basis: self.basis,
            reason: self.reason.clone(),
            needs: self.needs.clone(),
            faults: faults_of(&self.id),
        }
    }

    /// Runs each variant on a fresh target.
    pub(crate) async fn run(&self, factory: &dyn TargetFactory, limits: RunLimits) -> Result<(), Vec<CaseError>> {
        let plain = [Map::new()];
        let variants = if self.for_each.is_empty() { plain.as_slice() } else { &self.for_each };
        let mut stops = Vec::new();
        for variables in variants {
            if let Err(stop) = self.run_variant(factory, limits, variables).await {
                stops.push(name_variant(stop, variables));
            }
            if stops.len() == MAX_FAILED_VARIANTS {
                break;
            }
        }
        if stops.is_empty() { Ok(()) } else { Err(stops) }
    }

    async fn run_variant(
        &self,
        factory: &dyn TargetFactory,
        limits: RunLimits,
        variables: &Map<String, Value>,
    ) -> Result<(), CaseError> {
        let variables = variables.iter().map(|(name, value)| (name.clone(), resolve(value))).collect();
        let name = self.name.as_ref().map(|name| substitute_in_text(name, &variables));
        let target = factory.fresh(&self.options, limits).await?;
        if let Some(path) = name.as_ref().and_then(Value::as_str).filter(|path| !factory.can_store(path)) {
            return expect_refusal(&*target, path).await;
        }
        for (number, json) in (1..).zip(&self.steps) {
            let json = substitute(json, &variables);
            let outcome = async { Step::parse(&json)?.run(&*target).await }.await;
            outcome.map_err(|stop| stop.in_step_of_data(number, &json))?;
        }
        Ok(())
    }
}

/// Checks that a path that the backend cannot store is refused, and that nothing is stored.
async fn expect_refusal(target: &dyn Target, path: &str) -> Result<(), CaseError> {
    target.client().create(path, "text").await?.text(true)?;
    target.expect_files(&[]).await
}

fn name_variant(stop: CaseError, variables: &Map<String, Value>) -> CaseError {
    match stop {
        CaseError::Failed(mut failure) if !variables.is_empty() => {
            let named =
                variables.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ");
            failure.variant = Some(excerpt(&named, 0));
            CaseError::Failed(failure)
        }
        stop => stop,
    }
}

impl CaseError {
    fn in_step_of_data(self, number: usize, json: &Value) -> Self {
        match self {
            Self::Failed(mut failure) => {
                failure.step = Some(format!("step {number}: {}", excerpt(&json.to_string(), 0)));
                Self::Failed(failure)
            }
            lacks => lacks,
        }
    }
}

/// Replaces each `{variable}` in the texts of a value. A text that is only a variable becomes the variable's value.
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

/// Replaces each text template in a value with its text.
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

/// The text of a template: `{"repeat": [text, count]}` or `{"concat": [text, …]}`.
fn template_text(fields: &Map<String, Value>) -> Option<String> {
    let (name, arguments) = fields.iter().next().filter(|_| fields.len() == 1)?;
    match (name.as_str(), arguments.as_array()?.as_slice()) {
        ("repeat", [Value::String(text), count]) => Some(text.repeat(usize::try_from(count.as_u64()?).ok()?)),
        ("concat", parts) => parts.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// An action and, for a call, the checks of its result.
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
    /// A string is sent unchanged, any other value as one line of JSON.
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
    fn parse(json: &Value) -> Result<Self, Box<Failure>> {
        let wrong = |problem: String| Box::new(Failure::new(format!("the case is wrong: {problem}")));
        let Value::Object(fields) = resolve(json) else { return Err(wrong("a step must be an object".to_owned())) };
        let (action, checks): (Map<_, _>, Map<_, _>) =
            fields.into_iter().partition(|(name, _)| ACTIONS.contains(&name.as_str()));
        let action =
            serde_json::from_value(Value::Object(action)).map_err(|error| wrong(format!("action: {error}")))?;
        let checks = checks.into_iter().map(|(name, value)| serde_json::from_value(json!({ name: value })));
        let checks: Vec<_> = checks.collect::<Result<_, _>>().map_err(|error| wrong(format!("check: {error}")))?;
        if matches!(action, Action::Input(_) | Action::Line(_)) == checks.is_empty() {
            return Err(wrong("a call needs at least one check, and other actions must not have checks".to_owned()));
        }
        Ok(Self { action, checks })
    }

    async fn run(&self, target: &dyn Target) -> Result<(), CaseError> {
        match &self.action {
            Action::Content(file) => target.expect_content(&file.path, &file.bytes()?).await,
            Action::Definition(definition) => Ok(expect_json(definition, &json!(target.tool()?.definition()))?),
            Action::Files(files) => target.expect_files(files).await,
            Action::Line(Value::String(line)) => self.check(&target.client().send_line(line).await?),
            Action::Input(value) | Action::Line(value) => self.check(&target.client().send(value.clone()).await?),
            Action::Put(file) => target.put(&file.path, file.bytes()?).await,
        }
    }

    fn check(&self, answer: &Answer) -> Result<(), CaseError> {
        self.checks.iter().try_for_each(|check| check.verify(answer))
    }
}

impl Check {
    fn verify(&self, answer: &Answer) -> Result<(), CaseError> {
        let Answer { result, .. } = answer;
        match self {
            Self::Error(text) => answer.error(text),
            Self::ErrorContaining(parts) => answer.judge(expect_all_of(parts, answer.text(true)?)),
            Self::ErrorLacking(parts) => answer.judge(expect_none_of(parts, answer.text(true)?)),
            Self::Image(image) => answer.judge(expect_json(&image.to_content(), &result["content"])),
            Self::Reply(text) => answer.reply(text),
            Self::Result(expected) => answer.judge(expect_json(expected, result)),
            Self::ToolUseId(id) => answer.judge(expect_json(&json!(id), &result["tool_use_id"])),
        }
    }
}

impl File {
    fn bytes(&self) -> Result<Vec<u8>, Box<Failure>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(base64)) => BASE64.decode(base64).map_err(|error| Failure::new(error.to_string()).into()),
            _ => Err(Failure::new("the case is wrong: a file must have either `text` or `base64`").into()),
        }
    }
}

impl Image {
    fn to_content(&self) -> Value {
        let Self { media_type, base64 } = self;
        json!([{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64}}])
    }
}
