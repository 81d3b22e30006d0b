//! [`Failure`]: a failed check of a case, and the comparisons that return it.

use std::fmt;

use memory_tool_core::{PathError, StoreError};
use serde::Serialize;
use serde_json::Value;

use crate::case::{Basis, Capability};
use crate::clause::Clause;

const MAX_REPLY_CHARACTERS: usize = 2_000;

/// A failed check of a case.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// The problem, in one or two lines.
    pub message: String,
    /// The clause of the failed check.
    pub clause: Option<Clause>,
    /// The source of the failed check, or `None` if no check of the case is known to pass.
    pub basis: Option<Basis>,
    /// The variables of the failed variant, if the case has variants.
    pub variant: Option<String>,
    /// The step that failed.
    pub step: Option<String>,
    /// The first line that differs, if two texts were compared.
    pub difference: Option<Difference>,
    /// The backend's reply, if there was one. A long reply is truncated.
    pub reply: Option<String>,
}

/// The first line that differs between two texts. A long line is cut to the part around the first difference.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The line's number, from 1.
    pub line: usize,
    /// The expected line, or `None` if the expected text has no such line.
    pub expected: Option<String>,
    /// The actual line, or `None` if the actual text has no such line.
    pub got: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Names the source of the failed check, unless it is known.
    pub(crate) fn of_check(mut self, clause: Option<Clause>, basis: Option<Basis>) -> Self {
        self.clause = self.clause.or(clause);
        self.basis = self.basis.or(basis);
        self
    }

    /// Which of the checks of its case failed, on one line: the clause, the number of the step and the variant, such as
    /// `[C2] step 2 with text = "two"`. It stays the same as long as the case does.
    pub fn check(&self) -> String {
        let clause = self.clause.map(|clause| format!("[{clause}]"));
        let number = self.step.as_ref().and_then(|step| step.strip_prefix("step ")?.split_once(':'));
        let step = number.map(|(number, _)| format!("step {number}"));
        let variant = self.variant.as_ref().map(|variant| format!("with {}", visible(variant)));
        [clause, step, variant].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The message and the difference, which several checks may have in common.
    pub(crate) fn problem(&self) -> String {
        let mut lines: Vec<_> = self.message.split('\n').map(visible).collect();
        if let Some(Difference { line, expected, got }) = &self.difference {
            lines.push(format!("@@ line {line} @@"));
            for (sign, text) in [('-', expected), ('+', got)] {
                let text = text.as_deref().map_or_else(|| "(no such line)".to_owned(), visible);
                lines.push(format!("{sign} {text}"));
            }
        }
        lines.join("\n")
    }

    pub(crate) fn with_reply(mut self, result: &Value) -> Self {
        let content = &result["content"];
        let reply = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        self.reply = Some(reply.chars().take(MAX_REPLY_CHARACTERS).collect());
        self
    }

    pub(crate) fn in_step(mut self, step: impl Into<String>) -> Self {
        self.step.get_or_insert(step.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(clause) = self.clause {
            let basis = self.basis.map(|basis| format!(" ({basis})")).unwrap_or_default();
            writeln!(f, "[{clause}] {}{basis}", clause.title())?;
        }
        if let Some(variant) = &self.variant {
            writeln!(f, "with {}", visible(variant))?;
        }
        if let Some(step) = &self.step {
            writeln!(f, "{}", visible(step))?;
        }
        f.write_str(&self.problem())
    }
}

/// The text without unprintable characters, which are escaped.
pub(crate) fn visible(text: &str) -> String {
    let escape = |character: char| match character {
        '\t' => "\\t".to_owned(),
        '\\' | '"' | '\'' => character.to_string(),
        _ => character.escape_debug().to_string(),
    };
    text.chars().map(escape).collect()
}

/// The reason why a case ends early.
#[derive(Debug)]
pub(crate) enum CaseError {
    Failed(Box<Failure>),
    Unsupported {
        need: Capability,
        reason: String,
    },
    /// The case cannot tell whether the backend has the fault.
    NotTested {
        reason: String,
    },
}

impl CaseError {
    pub(crate) fn unsupported(need: Capability, reason: impl Into<String>) -> Self {
        Self::Unsupported { need, reason: reason.into() }
    }

    /// Changes the failure, if it is one.
    pub(crate) fn map(self, change: impl FnOnce(Failure) -> Failure) -> Self {
        match self {
            Self::Failed(failure) => change(*failure).into(),
            lacks => lacks,
        }
    }

    pub(crate) fn in_step(self, step: impl Into<String>) -> Self {
        self.map(|failure| failure.in_step(step))
    }
}

impl From<Failure> for CaseError {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<Box<Failure>> for CaseError {
    fn from(failure: Box<Failure>) -> Self {
        Self::Failed(failure)
    }
}

impl From<StoreError> for CaseError {
    fn from(error: StoreError) -> Self {
        Failure::new(format!("the store returned an error: {}", causes(&error))).into()
    }
}

impl From<PathError> for CaseError {
    fn from(error: PathError) -> Self {
        Failure::new(format!("the case is wrong: {error}")).into()
    }
}

/// The error and its sources.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Fails with the message if the condition is false.
pub(crate) fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), CaseError> {
    if holds { Ok(()) } else { Err(Failure::new(message()).into()) }
}

pub(crate) fn expect_all_of(parts: &[String], text: &str) -> Result<(), CaseError> {
    refuse(parts.iter().find(|part| !text.contains(*part)), "contains", text)
}

pub(crate) fn expect_none_of(parts: &[String], text: &str) -> Result<(), CaseError> {
    refuse(parts.iter().find(|part| text.contains(*part)), "does not contain", text)
}

fn refuse(part: Option<&String>, expected: &str, text: &str) -> Result<(), CaseError> {
    let Some(part) = part else { return Ok(()) };
    Err(Failure::new(format!("expected a text that {expected} {part:?}, got {:?}", excerpt(text, 0))).into())
}

pub(crate) fn expect_bytes(expected: &[u8], got: &[u8]) -> Result<(), CaseError> {
    match (std::str::from_utf8(expected), std::str::from_utf8(got)) {
        (Ok(expected), Ok(got)) => expect_text(expected, got),
        _ => expect_text(&expected.escape_ascii().to_string(), &got.escape_ascii().to_string()),
    }
}

pub(crate) fn expect_json(expected: &Value, got: &Value) -> Result<(), CaseError> {
    if expected == got { Ok(()) } else { expect_text(&format!("{expected:#}"), &format!("{got:#}")) }
}

pub(crate) fn expect_text(expected: &str, got: &str) -> Result<(), CaseError> {
    if expected == got {
        return Ok(());
    }
    let line = common_length(expected.split('\n'), got.split('\n'));
    let line_of = |text: &str| text.split('\n').nth(line).map(str::to_owned);
    let (expected, got) = (line_of(expected), line_of(got));
    let column = match (&expected, &got) {
        (Some(expected), Some(got)) => common_length(expected.chars(), got.chars()),
        _ => 0,
    };
    let shown = |text: Option<String>| text.map(|line| excerpt(&line, column));
    let difference = Difference { line: line + 1, expected: shown(expected), got: shown(got) };
    Err(Failure { difference: Some(difference), ..Failure::new("the texts differ") }.into())
}

fn common_length<T: PartialEq>(left: impl Iterator<Item = T>, right: impl Iterator<Item = T>) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

/// The part of the text around the given character.
pub(crate) fn excerpt(text: &str, character: usize) -> String {
    const BEFORE: usize = 80;
    const LENGTH: usize = 400;
    let start = character.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(start).take(LENGTH).collect();
    let head = if start > 0 { "…" } else { "" };
    let tail = if text.chars().nth(start + LENGTH).is_some() { "…" } else { "" };
    format!("{head}{shown}{tail}")
}
