//! The log of a memory, its differences, and the actions that take changes back.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::IntoResponse as _;
use memory_tool::history::{Entry, FileChange, HistoryError, LogFilter, Origin};
use memory_tool::store::StorePath;
use memory_tool::{MemoryPath, Store};
use serde::Deserialize;
use std::sync::Arc;

use super::diff::{self, Line};
use super::text::{time, visible};
use super::{App, Frame, Opened, Page, PageError, Posted, Visitor, changed, path, render, store_path};
use crate::access::Right;
use crate::error::ApiError;
use crate::path::Path;

type History = memory_tool::history::History<Arc<dyn Store>>;

/// The entries of a page.
const ENTRIES: usize = 50;

/// A change in a list.
pub(super) struct Change {
    pub(super) number: u64,
    pub(super) time: String,
    pub(super) actor: String,
    pub(super) what: String,
    pub(super) files: Vec<String>,
    /// The files that are not listed.
    pub(super) more: usize,
}

#[derive(Deserialize)]
pub(super) struct Asked {
    path: Option<String>,
    before: Option<u64>,
    done: Option<String>,
    entry: Option<u64>,
}

#[derive(Template)]
#[template(path = "log.html")]
struct Log {
    frame: Frame,
    changes: Vec<Change>,
    next: Option<u64>,
}

#[derive(Template)]
#[template(path = "change.html")]
struct Shown {
    frame: Frame,
    change: Change,
    done: &'static str,
    files: Vec<FileDifference>,
    /// Why the differences are not known.
    unknown: String,
}

struct FileDifference {
    path: String,
    name: String,
    state: &'static str,
    lines: Vec<Line>,
    /// Whether the file existed after the change.
    exists: bool,
}

#[derive(Template)]
#[template(path = "redact.html")]
struct Redact {
    frame: Frame,
    entry: u64,
    remains: &'static str,
}

fn history(opened: &Opened) -> Result<History, PageError> {
    opened.memory.history().ok_or_else(|| ApiError::not_found("the memory has no history").into())
}

pub(super) async fn newest(opened: &Opened) -> Result<Option<u64>, PageError> {
    let Some(history) = opened.memory.history() else { return Ok(None) };
    Ok(Some(history.newest().await?).filter(|newest| *newest > 0))
}

pub(super) async fn has_history(opened: &Opened) -> bool {
    newest(opened).await.is_ok_and(|newest| newest.is_some())
}

/// The newest entries, and the number before which there are more.
pub(super) async fn recent(
    opened: &Opened,
    path: Option<StorePath>,
    before: Option<u64>,
    limit: usize,
) -> Result<(Vec<Change>, Option<u64>), PageError> {
    let Some(history) = opened.memory.history() else { return Ok((Vec::new(), None)) };
    let filter = path.into_iter().fold(LogFilter::new().limit(limit + 1), LogFilter::path);
    let mut entries = history.entries(&before.into_iter().fold(filter, LogFilter::before)).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| has_more).map(|entry| entry.number);
    Ok((entries.iter().map(Change::of).collect(), next))
}

impl Change {
    fn of(entry: &Entry) -> Self {
        const LISTED: usize = 5;
        let numbers =
            |numbers: &[u64]| numbers.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(", ");
        let what = match &entry.origin {
            Origin::Undo(undone) | Origin::Revert(undone) => format!("took back {}", numbers(undone)),
            Origin::Redo(undo) => format!("repeated what #{undo} took back"),
            Origin::Restore(number) => format!("restored the state after #{number}"),
            Origin::Redaction(redacted) => format!("redacted {}", numbers(redacted)),
            _ if entry.is_redacted => "redacted".to_owned(),
            _ => entry.command.clone().unwrap_or_else(|| "edit".to_owned()),
        };
        let files = entry.changes.iter().take(LISTED).map(|change| match change {
            FileChange::Write { path, before: None, .. } => format!("created {}", visible(path.as_str())),
            FileChange::Write { path, .. } => format!("changed {}", visible(path.as_str())),
            FileChange::Remove { path, .. } => format!("deleted {}", visible(path.as_str())),
            FileChange::Rename { from, to, .. } => {
                format!("renamed {} to {}", visible(from.as_str()), visible(to.as_str()))
            }
            _ => "a redacted change".to_owned(),
        });
        Self {
            number: entry.number,
            time: time(Some(entry.time)),
            actor: visible(entry.actor.as_deref().unwrap_or("unknown")),
            what: visible(&what),
            files: files.collect(),
            more: entry.changes.len().saturating_sub(LISTED),
        }
    }
}

/// The log of a memory, a directory or a file.
pub(super) async fn log(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find(&service, &visitor, &id, Right::Read).await?;
    let path = path(asked.path.as_deref())?;
    let filter = (!path.is_root()).then(|| store_path(&path));
    let (changes, next) = recent(&opened, filter, asked.before, ENTRIES).await?;
    let title = if path.is_root() { "History".to_owned() } else { format!("History of {}", visible(path.as_str())) };
    render(&Log { frame: Frame::of(&visitor, &opened, title).at(&path), changes, next })
}

/// A change, with its differences.
pub(super) async fn show(
    State(service): App,
    visitor: Visitor,
    Path((id, number)): Path<(String, u64)>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find(&service, &visitor, &id, Right::Read).await?;
    let history = history(&opened)?;
    let change = Change::of(&history.entry(number).await?);
    let (mut files, mut unknown) = (Vec::new(), String::new());
    match history.diff(number.saturating_sub(1), number, &StorePath::memories()).await {
        Ok(differences) => {
            let shown = tokio::task::spawn_blocking(move || differences.into_iter().map(difference).collect());
            files = shown.await.map_err(|_| ApiError::storage())?;
        }
        Err(error @ HistoryError::Store(_)) => return Err(error.into()),
        // For example, this or a later entry was redacted.
        Err(error) => unknown = visible(&error.to_string()),
    }
    let done = match asked.done.as_deref() {
        Some("deleted") => "Deleted. \u{201c}Take back\u{201d} restores it.",
        Some("taken-back") => "Taken back.",
        Some("restored") => "Restored.",
        Some("redacted") => "Redacted.",
        _ => "",
    };
    let frame = Frame::of(&visitor, &opened, format!("Change #{number}"));
    render(&Shown { frame, change, done, files, unknown })
}

fn difference(file: memory_tool::history::FileDiff) -> FileDifference {
    let state = match (&file.before, &file.after) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    };
    let exists = file.after.is_some();
    let text = |content: Option<Vec<u8>>| String::from_utf8(content.unwrap_or_default()).ok();
    let lines = match (text(file.before), text(file.after)) {
        (Some(before), Some(after)) => diff::lines(&before, &after),
        _ => Vec::new(),
    };
    FileDifference { name: visible(file.path.as_str()), path: file.path.to_string(), state, lines, exists }
}

fn number(form: &mut Posted) -> Result<u64, PageError> {
    form.take("entry").parse().map_err(|_| ApiError::invalid("the form names no change").into())
}

pub(super) async fn undo(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let entry = history(&opened)?.revert(&[number(&mut form)?]).await?;
    Ok(changed(&id, entry.number, "taken-back").into_response())
}

pub(super) async fn restore(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path: MemoryPath = path(Some(&form.take("path")))?;
    let entry = history(&opened)?.restore(&store_path(&path), number(&mut form)?).await?;
    Ok(changed(&id, entry.number, "restored").into_response())
}

pub(super) async fn confirm(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let entry = asked.entry.ok_or_else(|| ApiError::invalid("the address names no change"))?;
    let remains = opened.memory.backend().remains_of_removed();
    render(&Redact { frame: Frame::of(&visitor, &opened, format!("Redact change #{entry}")), entry, remains })
}

pub(super) async fn redact(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let number = number(&mut form)?;
    history(&opened)?.redact(&[number]).await?;
    Ok(changed(&id, number, "redacted").into_response())
}
