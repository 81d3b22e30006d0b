//! The cases in `vectors/*.json`. `vectors/schema.json` describes their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use memory_tool_core::MemoryPath;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::access::Factory;
use crate::case::{Basis, Capability, Case};
use crate::cases;
use crate::clause::Clause;
use crate::failure::{CaseError, Failure, excerpt, expect_all_of, expect_json, expect_none_of, expect_text};
use crate::faults::faults_of;
use crate::fixture::ToolOptions;
use crate::session::Answer;
use crate::target::{RunLimits, Target};

/// The files, each with the cases of one group.
const FILES: [&str; 10] = [
    include_str!("../vectors/wire.json"),
    include_str!("../vectors/paths.json"),
    include_str!("../vectors/view.json"),
    include_str!("../vectors/create.json"),
    include_str!("../vectors/str_replace.json"),
    include_str!("../vectors/insert.json"),
    include_str!("../vectors/delete.json"),
    include_str!("../vectors/rename.json"),
    include_str!("../vectors/beyond.json"),
    include_str!("../vectors/code.json"),
];

/// The number of variants that cannot be carried out after which a case ends, because each may take a full timeout.
const MAX_STOPPED_VARIANTS: usize = 3;

/// The number of failures of one basis, of replies or of stored files, after which a case reports no more of them.
const MAX_FAILURES: usize = 3;

/// A case: the input for the tool, and the expected replies and stored files.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    id: String,
    clause: OneOrMany,
    basis: Basis,
    storage: Option<bool>,
    #[serde(default)]
    needs: Vec<Capability>,
    #[serde(default)]
    options: ToolOptions,
    name: Option<String>,
    /// The case that judges the form of the replies.
    form_of: Option<String>,
    reason: String,
    #[serde(default)]
    for_each: Vec<Map<String, Value>>,
    #[serde(default)]
    steps: Vec<RawStep>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Clause),
    Many(Vec<Clause>),
}

/// A step before its variables are replaced. Its fields are one action, and for calls the checks.
#[derive(Clone, Deserialize)]
struct RawStep {
    basis: Option<Override<Basis>>,
    clause: Option<Override<Clause>>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// A value for all checks of a step, or for some of them by name, instead of the value of the case.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Override<T> {
    All(T),
    ByCheck(BTreeMap<String, T>),
}

impl<T: Copy> Override<T> {
    fn of(&self, check: &str) -> Option<T> {
        match self {
            Self::All(value) => Some(*value),
            Self::ByCheck(values) => values.get(check).copied(),
        }
    }
}

/// All cases from data, in the order of the files.
#[expect(clippy::expect_used, reason = "the files are part of the crate, and its tests parse them")]
pub(crate) fn all() -> Vec<Vector> {
    let parsed = FILES.map(|json| serde_json::from_str::<Vec<Vector>>(json).expect("the data matches its schema"));
    parsed.into_iter().flatten().collect()
}

/// A case that judges a form.
#[expect(clippy::expect_used, reason = "the files are part of the crate, and its tests look up each of these cases")]
fn form_case(id: &str) -> Vector {
    all().into_iter().find(|vector| vector.id == id).expect("the case exists")
}

impl Vector {
    pub(crate) fn case(&self) -> Case {
        let of_checks = self.steps.iter().flat_map(|step| step.checks().map(|check| self.basis_of(step, check)));
        let bases: BTreeSet<_> = if self.has_steps() { of_checks.collect() } else { [self.basis].into() };
        Case {
            id: self.id.clone(),
            clauses: self.clauses().to_vec(),
            bases: bases.into_iter().collect(),
            reason: self.reason.clone(),
            needs: self.needs.clone(),
            faults: faults_of(&self.id),
            is_of_storage: self.storage.unwrap_or(!self.has_steps()),
        }
    }

    fn clauses(&self) -> &[Clause] {
        match &self.clause {
            OneOrMany::One(clause) => std::slice::from_ref(clause),
            OneOrMany::Many(clauses) => clauses,
        }
    }

    fn basis_of(&self, step: &RawStep, check: &str) -> Basis {
        step.basis.as_ref().and_then(|basis| basis.of(check)).unwrap_or(self.basis)
    }

    fn clause_of(&self, step: &RawStep, check: &str) -> Option<Clause> {
        step.clause.as_ref().and_then(|clause| clause.of(check)).or_else(|| self.clauses().first().copied())
    }

    /// Whether the case is a sequence of steps. Others are in [`cases`].
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Runs the case. Returns its failures.
    pub(crate) async fn run(&self, factory: &dyn Factory, limits: RunLimits) -> Vec<CaseError> {
        if !self.has_steps() {
            return self.run_code(factory, limits).await;
        }
        let mut failures = self.run_variants(factory, limits).await;
        if failures.iter().any(CaseError::is_of_reply)
            && let Some(form) = self.form_of.as_ref()
            && !form_case(form).run_variants(factory, limits).await.is_empty()
        {
            failures.retain(|failure| !failure.is_of_reply());
            let reason = format!("{form} fails, which judges the form of these replies");
            failures.push(CaseError::NotTested { reason });
        }
        failures
    }

    async fn run_code(&self, factory: &dyn Factory, limits: RunLimits) -> Vec<CaseError> {
        let Some(code) = cases::code_of(&self.id) else {
            return vec![Failure::new("the case is wrong: it has neither steps nor code").into()];
        };
        match Target::fresh(factory, &self.options, limits).await {
            Ok(target) => code(Arc::clone(&target)).await.err().into_iter().chain(target.first_leak.take()).collect(),
            Err(stop) => vec![stop],
        }
    }

    /// Runs each variant on a fresh target, or on the emptied one of the variant before it.
    async fn run_variants(&self, factory: &dyn Factory, limits: RunLimits) -> Vec<CaseError> {
        let plain = [Map::new()];
        let variants = if self.for_each.is_empty() { plain.as_slice() } else { &self.for_each };
        let mut failed = Vec::new();
        let mut stopped = 0;
        let mut last = None;
        for variables in variants {
            let mut failures = Vec::new();
            match self.run_variant(factory, limits, variables, last.take(), &mut failures).await {
                Ok(used) => last = Some(used).filter(|_| failures.is_empty()),
                Err(stop) => {
                    failures.push(stop);
                    stopped += 1;
                }
            }
            failed.extend(failures.into_iter().map(|failure| name_variant(failure, variables)));
            if stopped == MAX_STOPPED_VARIANTS {
                break;
            }
        }
        limit(&mut failed);
        failed
    }

    /// Runs the steps, and collects the failed checks, until a step cannot be carried out. Returns the target and the
    /// paths in the steps.
    async fn run_variant(
        &self,
        factory: &dyn Factory,
        limits: RunLimits,
        variables: &Map<String, Value>,
        last: Option<UsedTarget>,
        failures: &mut Vec<CaseError>,
    ) -> Result<UsedTarget, CaseError> {
        let variables = variables.iter().map(|(name, value)| (name.clone(), resolve(value))).collect();
        let name = self.name.as_ref().map(|name| substitute_in_text(name, &variables));
        let target = match last {
            Some((target, paths)) if self.begins_with_a_file() && target.is_emptied(&paths).await => target,
            _ => Target::fresh(factory, &self.options, limits).await?,
        };
        let mut paths = BTreeSet::new();
        if let Some(path) = name.as_ref().and_then(Value::as_str).filter(|path| !factory.can_store(path)) {
            return expect_refusal(&target, path).await.map(|()| (target, paths));
        }
        for (number, step) in (1..).zip(&self.steps) {
            let fields: Map<_, _> =
                step.fields.iter().map(|(name, value)| (name.clone(), substitute(value, &variables))).collect();
            let outcomes = async { Step::parse(&fields)?.run(&target).await }.await;
            let shown = Value::Object(fields);
            add_paths(&resolve(&shown), &mut paths);
            match outcomes {
                Ok(failed) => failures.extend(failed.into_iter().map(|(check, failure)| {
                    let (clause, basis) = (self.clause_of(step, &check), Some(self.basis_of(step, &check)));
                    failure.of_check(clause, basis).in_step_of_data(number, &shown)
                })),
                Err(stop) => {
                    // The strongest, because none of its checks can pass.
                    let basis = step.checks().map(|check| self.basis_of(step, check)).min();
                    return Err(stop.of_check(None, basis).in_step_of_data(number, &shown));
                }
            }
            failures.extend(target.first_leak.take().map(|leak| leak.in_step_of_data(number, &shown)));
        }
        Ok((target, paths))
    }

    /// Whether the first step stores a file, so that a memory that was never used makes no difference to the others.
    fn begins_with_a_file(&self) -> bool {
        let first = self.steps.first().map(|step| &step.fields);
        first.is_some_and(|step| {
            step.contains_key("put") || step.get("input").is_some_and(|it| it["command"] == "create")
        })
    }
}

/// The target of a variant, and the paths that its steps name.
type UsedTarget = (Arc<Target>, BTreeSet<MemoryPath>);

/// Adds all paths in a value.
fn add_paths(value: &Value, paths: &mut BTreeSet<MemoryPath>) {
    match value {
        Value::String(text) => paths.extend(text.parse::<MemoryPath>().ok().filter(|path| !path.is_root())),
        Value::Array(items) => items.iter().for_each(|item| add_paths(item, paths)),
        Value::Object(fields) => fields.values().for_each(|field| add_paths(field, paths)),
        _ => {}
    }
}

impl RawStep {
    fn checks(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str).filter(|name| !CALLS.contains(name) && *name != "put")
    }
}

/// Keeps the first failures of each basis: of replies, and apart from these of stored files, so that no number of wrong
/// words hides an effect.
fn limit(failures: &mut Vec<CaseError>) {
    let mut kept: BTreeMap<(Option<Basis>, bool), usize> = BTreeMap::new();
    failures.retain(|failure| {
        let is_of_reply = failure.is_of_reply();
        let CaseError::Failed(failure) = failure else { return true };
        let kept = kept.entry((failure.basis, is_of_reply)).or_default();
        *kept += 1;
        *kept <= MAX_FAILURES
    });
}

/// Checks that a path that the backend cannot store is refused, and that nothing is stored.
async fn expect_refusal(target: &Target, path: &str) -> Result<(), CaseError> {
    target.client().create(path, "text").await?.text(true)?;
    target.expect_files(&[]).await
}

fn name_variant(stop: CaseError, variables: &Map<String, Value>) -> CaseError {
    let named = variables.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ");
    let variant = (!variables.is_empty()).then(|| excerpt(&named, 0));
    stop.map(|failure| Failure { variant, ..failure })
}

impl CaseError {
    /// Whether a check of a reply failed, and not one of a stored file.
    fn is_of_reply(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.reply.is_some())
    }

    fn of_check(self, clause: Option<Clause>, basis: Option<Basis>) -> Self {
        self.map(|failure| failure.of_check(clause, basis))
    }

    fn in_step_of_data(self, number: usize, json: &Value) -> Self {
        let step = format!("step {number}: {}", excerpt(&json.to_string(), 0));
        self.map(|failure| Failure { step: Some(step), ..failure })
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

/// An action and, for a call, the checks of its result by name.
struct Step {
    action: Action,
    checks: Vec<(String, Check)>,
}

/// The failed checks of a step, by name.
type FailedChecks = Vec<(String, CaseError)>;

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
    /// The calls of one turn, sent without waiting for results.
    Turn(Vec<Value>),
}

const CALLS: [&str; 3] = ["input", "line", "turn"];
/// The actions that are a check.
const STATE_CHECKS: [&str; 3] = ["content", "definition", "files"];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Check {
    Body(String),
    Error(String),
    ErrorContaining(Vec<String>),
    ErrorLacking(Vec<String>),
    Image(Image),
    Items(Vec<String>),
    Listing(Vec<String>),
    Reply(String),
    ReplyContaining(Vec<String>),
    Result(Value),
    ToolUseId(Option<String>),
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
    fn parse(fields: &Map<String, Value>) -> Result<Self, Box<Failure>> {
        let wrong = |problem: String| Box::new(Failure::new(format!("the case is wrong: {problem}")));
        let is_action = |name: &str| CALLS.contains(&name) || STATE_CHECKS.contains(&name) || name == "put";
        let resolved = fields.iter().map(|(name, value)| (name.clone(), resolve(value)));
        let (action, checks): (Map<_, _>, Map<_, _>) = resolved.partition(|(name, _)| is_action(name));
        let action =
            serde_json::from_value(Value::Object(action)).map_err(|error| wrong(format!("action: {error}")))?;
        let checks = checks.into_iter().map(|(name, value)| {
            let check = serde_json::from_value(json!({ name.as_str(): value }));
            check.map(|check| (name, check)).map_err(|error| wrong(format!("check: {error}")))
        });
        let checks: Vec<_> = checks.collect::<Result<_, _>>()?;
        if matches!(action, Action::Input(_) | Action::Line(_) | Action::Turn(_)) == checks.is_empty() {
            return Err(wrong("a call needs at least one check, and other actions must not have checks".to_owned()));
        }
        Ok(Self { action, checks })
    }

    /// Returns the failed checks, or an error if the step cannot be carried out.
    async fn run(&self, target: &Target) -> Result<FailedChecks, CaseError> {
        let (name, outcome) = match &self.action {
            Action::Put(file) => return target.put(&file.path, file.bytes()?).await.map(|()| Vec::new()),
            Action::Line(Value::String(line)) => return self.call(target, vec![line.clone()]).await,
            Action::Input(value) | Action::Line(value) => return self.call(target, vec![value.to_string()]).await,
            Action::Turn(values) => return self.call(target, values.iter().map(Value::to_string).collect()).await,
            Action::Content(file) => ("content", target.expect_content(&file.path, &file.bytes()?).await),
            Action::Files(files) => ("files", target.expect_files(files).await),
            Action::Definition(expected) => ("definition", expect_json(expected, &json!(target.tool()?.definition()))),
        };
        match outcome {
            Err(failure @ CaseError::Failed(_)) => Ok(vec![(name.to_owned(), failure)]),
            outcome => outcome.map(|()| Vec::new()),
        }
    }

    async fn call(&self, target: &Target, lines: Vec<String>) -> Result<FailedChecks, CaseError> {
        let client = target.client();
        let answers = client.exchange_together(lines).await?;
        let checks = self.checks.iter().map(|(name, check)| (name.as_str(), check.verify_all(&answers)));
        let leaks = answers.iter().map(|answer| ("", client.expect_no_leak(answer)));
        let outcomes = checks.chain(leaks);
        Ok(outcomes.filter_map(|(name, outcome)| Some((name.to_owned(), outcome.err()?))).collect())
    }
}

impl Check {
    /// Checks the results of a call. Only a turn has several.
    fn verify_all(&self, answers: &[Answer]) -> Result<(), CaseError> {
        answers.iter().try_for_each(|answer| self.verify(answer))
    }

    fn verify(&self, answer: &Answer) -> Result<(), CaseError> {
        let Answer { result, .. } = answer;
        match self {
            Self::Body(lines) => answer.judge(expect_text(&unpadded(lines), &unpadded(answer.body()?))),
            Self::Error(text) => answer.error(text),
            Self::ErrorContaining(parts) => answer.judge(expect_all_of(parts, answer.text(true)?)),
            Self::ErrorLacking(parts) => answer.judge(expect_none_of(parts, answer.text(true)?)),
            Self::Image(image) => answer.judge(expect_json(&image.to_content(), &result["content"])),
            Self::Items(items) => answer.items(items),
            Self::Listing(lines) => answer.listing(lines),
            Self::Reply(text) => answer.reply(text),
            Self::ReplyContaining(parts) => answer.judge(expect_all_of(parts, answer.text(false)?)),
            Self::Result(expected) => answer.judge(expect_json(expected, result)),
            Self::ToolUseId(id) => answer.judge(expect_json(&json!(id), &result["tool_use_id"])),
        }
    }
}

/// The lines without the blanks before their numbers.
fn unpadded(lines: &str) -> String {
    lines.split('\n').map(|line| line.trim_start_matches(' ')).collect::<Vec<_>>().join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_case() {
        let forms: BTreeSet<_> = all().into_iter().filter_map(|vector| vector.form_of).collect();
        assert!(forms.iter().all(|form| form_case(form).form_of.is_none()), "{forms:?}");
        assert!(!forms.is_empty());
    }
}
