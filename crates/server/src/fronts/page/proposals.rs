//! Changes that wait in proposals: people take, edit and drop them.

use std::sync::Arc;

use askama::Template;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Redirect};
use memory_tool::history::Digest;
use memory_tool::proposals::{
    Outcome, Proposal, ProposalError, ProposalName, ProposalSummary, Proposals, ProposedChange, Selection,
    WaitingLimits,
};
use memory_tool::{Actor, Store};
use serde::Deserialize;

use super::diff::{Differ, Line};
use super::forms::OUTDATED;
use super::text::{Time, sentence, visible};
use super::{Draft, Frame, Page, Posted, ToChange, VisitedMemory, encode, home, path, render, short};
use crate::http::error::ApiError;
use crate::http::path::Path;

/// The changes that a page shows.
const SHOWN: usize = 50;

const CHANGED: &str = "Somebody changed this proposal after you opened it, so nothing was done. Look at it again.";

const CHANGED_BEFORE_EDIT: &str = "Somebody changed this file after you opened it, so your text is not saved yet. \
                                   Check it, and save it.";

#[derive(Template)]
#[template(path = "proposals.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    files: usize,
    created: Time,
    changed: Time,
    waits_too_long: bool,
    is_damaged: bool,
}

#[derive(Template)]
#[template(path = "proposal.html")]
struct Shown {
    frame: Frame,
    name: String,
    revision: String,
    problem: String,
    changes: Vec<Change>,
    /// The files that are not shown.
    more: usize,
}

/// A file of a proposal.
struct Change {
    index: usize,
    path: String,
    name: String,
    /// The kind of the change in words.
    kind: String,
    authors: String,
    reason: String,
    time: Time,
    /// Whether later changes of the memory are in other lines.
    is_merged: bool,
    /// The later changes of the memory, if they are in the same lines.
    theirs: Option<Vec<Line>>,
    parts: Vec<Part>,
    is_text: bool,
}

/// A part that can be taken.
struct Part {
    lines: Vec<Line>,
    is_in_conflict: bool,
}

#[derive(Template)]
#[template(path = "proposed.html")]
struct Edit {
    frame: Frame,
    name: String,
    revision: String,
    problem: &'static str,
    text: String,
}

/// The file of a form.
#[derive(Deserialize)]
pub(super) struct FileQuery {
    path: String,
}

impl Change {
    fn of(differ: &mut Differ, index: usize, change: &ProposedChange) -> Self {
        let text =
            |content: &Option<Vec<u8>>| content.clone().map_or(Some(String::new()), |it| String::from_utf8(it).ok());
        let (before, after, present) = (text(&change.before), text(&change.after), text(&change.present));
        let kind = match (&change.renamed_from, &change.before, &change.after) {
            (Some(from), ..) => format!("renamed from {}", visible(short(from.as_str()))),
            (None, None, _) => "created".to_owned(),
            (None, _, None) => "deleted".to_owned(),
            _ => "changed".to_owned(),
        };
        let is_conflict = change.outcome() == Outcome::Conflict;
        let theirs = before.as_ref().zip(present).filter(|_| is_conflict);
        let theirs = theirs.map(|(before, present)| differ.lines(before, &present));
        let is_text = after.is_some() && change.after.is_some();
        let parts = match (before, after) {
            (Some(before), Some(after)) if change.renamed_from.is_none() => differ.parts(&before, &after),
            _ => Vec::new(),
        };
        // Long differences are coarse, so that their parts are others.
        let parts =
            if parts.len() == change.parts().len() { parts } else { vec![parts.into_iter().flatten().collect()] };
        let conflicts = if parts.len() > 1 { change.parts_in_conflict() } else { Vec::new() };
        let part = |(number, lines)| Part { lines, is_in_conflict: conflicts.contains(&number) };
        let parts = parts.into_iter().enumerate().map(part).collect();
        let authors: Vec<_> = change.authors.iter().map(Actor::name).collect();
        Self {
            index,
            path: change.path.to_string(),
            name: visible(short(change.path.as_str())),
            kind,
            authors: if authors.is_empty() { "unknown".to_owned() } else { visible(&authors.join(", ")) },
            reason: visible(&change.reason().unwrap_or_default()),
            time: Time::of(change.modified),
            is_merged: change.is_outdated() && !is_conflict,
            theirs,
            parts,
            is_text,
        }
    }
}

/// The proposals of a memory.
pub(super) fn of(visited: &VisitedMemory) -> Result<Proposals<Arc<dyn Store>>, ApiError> {
    visited.visit.memory.proposals().ok_or_else(|| ApiError::not_found("a session of a proposal does not decide"))
}

/// The number of files that wait. An error does not hide the memory.
pub(super) async fn waiting(visited: &VisitedMemory) -> Result<usize, ApiError> {
    Ok(of(visited)?.waiting().await.unwrap_or_default())
}

pub(super) async fn list(visited: VisitedMemory) -> Page {
    let row = |ProposalSummary { name, files, created, changed, is_damaged, .. }: ProposalSummary| Row {
        name: name.to_string(),
        files,
        created: Time::of(created),
        changed: Time::of(changed),
        waits_too_long: WaitingLimits::new().are_exceeded_since(created),
        is_damaged,
    };
    let rows = of(&visited)?.list().await?.into_iter().map(row).collect();
    render(&List { frame: Frame::of(&visited, "Changes that wait"), rows })
}

/// The proposal of an address.
async fn find(visited: &VisitedMemory, name: &str) -> Result<Proposal, ApiError> {
    let not_found = || ApiError::not_found("there is no such proposal: its changes were taken or dropped");
    let name: ProposalName = name.parse().map_err(|_| not_found())?;
    match of(visited)?.get(&name).await {
        Err(ProposalError::NotFound { .. }) => Err(not_found()),
        found => found.map_err(failed),
    }
}

fn failed(error: ProposalError) -> ApiError {
    match error {
        ProposalError::Store(error) => error.into(),
        error => ApiError::invalid(error.to_string()),
    }
}

async fn page(visited: &VisitedMemory, proposal: Proposal, problem: String) -> Page {
    let frame = Frame::of(visited, format!("Proposal {}", proposal.name));
    let (name, revision) = (proposal.name.to_string(), proposal.revision.to_string());
    let more = proposal.changes.len().saturating_sub(SHOWN);
    let shown = move || {
        let mut differ = Differ::new();
        let changes = proposal.changes.iter().take(SHOWN).enumerate();
        changes.map(|(index, change)| Change::of(&mut differ, index, change)).collect()
    };
    let changes = tokio::task::spawn_blocking(shown).await.map_err(ApiError::internal)?;
    render(&Shown { frame, name, revision, problem, changes, more })
}

pub(super) async fn show(visited: VisitedMemory, Path((_, name)): Path<(String, String)>) -> Page {
    let proposal = find(&visited, &name).await?;
    page(&visited, proposal, String::new()).await
}

/// A ticked part: both numbers of its box.
struct Ticked(usize, usize);

impl std::str::FromStr for Ticked {
    type Err = std::num::ParseIntError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (file, part) = name.split_once('.').unwrap_or((name, ""));
        Ok(Self(file.parse()?, part.parse()?))
    }
}

/// Drops a damaged proposal, which has no revision.
async fn clear(visited: VisitedMemory, name: &str) -> Page {
    let proposals = of(&visited)?;
    for summary in proposals.list().await? {
        if summary.name.as_str() == name && summary.is_damaged {
            proposals.clear(&summary.name).await.map_err(failed)?;
            return Ok(visited.to("/memories", "dropped"));
        }
    }
    list(visited).await
}

/// Takes or drops the ticked changes, or all.
pub(super) async fn decide(
    ToChange(visited): ToChange,
    Path((_, name)): Path<(String, String)>,
    Posted(mut form): Posted,
) -> Page {
    let visited = visited.because(&mut form);
    let action = form.take("action");
    if action == "clear" {
        return clear(visited, &name).await;
    }
    let proposal = find(&visited, &name).await?;
    if proposal.revision.to_string() != form.take("revision") {
        return page(&visited, proposal, CHANGED.to_owned()).await;
    }
    let change = |index: usize| proposal.changes.get(index).filter(|_| index < SHOWN);
    let mut selection = Selection::new();
    for Ticked(file, part) in form.ticked("part-") {
        if let Some(change) = change(file) {
            selection = selection.part(change.path.clone(), part);
        }
    }
    for change in form.ticked::<usize>("file-").into_iter().filter_map(change) {
        selection = selection.file(change.path.clone());
    }
    if action.ends_with("all") {
        selection = Selection::all(&proposal);
    }
    if selection.is_empty() {
        return page(&visited, proposal, "Tick at least one change.".to_owned()).await;
    }
    let proposals = of(&visited)?;
    let (decided, done) = if action.starts_with("drop") {
        (proposals.drop(&proposal, selection.paths()).await, "dropped")
    } else {
        (proposals.take(&proposal, &selection).await, "taken")
    };
    match decided {
        Ok(()) => Ok(visited.to("/memories", done)),
        Err(ProposalError::Store(error)) if error.kind() != memory_tool::ErrorKind::Refused => Err(error.into()),
        Err(error) => {
            let problem = sentence(&error.to_string());
            page(&visited, find(&visited, &name).await?, problem).await
        }
    }
}

fn proposed<'a>(proposal: &'a Proposal, given: &str) -> Result<&'a ProposedChange, ApiError> {
    let path = path(Some(given))?;
    let change = proposal.changes.iter().find(|change| change.path.as_str() == path.as_str());
    change.ok_or_else(|| ApiError::not_found("the proposal does not change this file"))
}

/// Identifies the proposal and the present text, since an edit is a change of both.
fn state(proposal: &Proposal, change: &ProposedChange) -> String {
    let present = change.present.as_ref().map(|present| Digest::of(present).sha256.to_string());
    format!("{} {}", proposal.revision, present.unwrap_or_default())
}

/// The form for a proposed text.
pub(super) async fn edit(
    ToChange(visited): ToChange,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<FileQuery>,
) -> Page {
    let proposal = find(&visited, &name).await?;
    let change = proposed(&proposal, &query.path)?;
    let text = change.draft().and_then(|draft| String::from_utf8(draft).ok());
    let text = text.ok_or_else(|| ApiError::invalid("the proposal has no text of this file"))?;
    let frame = Frame::of(&visited, format!("Edit {} in the proposal", visible(short(change.path.as_str()))));
    let frame = Frame { path: change.path.to_string(), ..frame };
    let (name, revision) = (proposal.name.to_string(), state(&proposal, change));
    render(&Edit { frame, name, revision, problem: "", text })
}

pub(super) async fn save(
    ToChange(visited): ToChange,
    Path((_, name)): Path<(String, String)>,
    mut form: Draft,
) -> Page {
    let (given, revision) = (path(Some(&form.take("path")))?, form.take("revision"));
    let text = form.take("text").replace("\r\n", "\n");
    let keep = |problem: &'static str, revision: String, text: String| {
        let frame = Frame::of(&visited, format!("Edit {} in the proposal", visible(short(given.as_str()))));
        let frame = Frame { path: given.to_string(), ..frame };
        render(&Edit { frame, name: visible(&name), revision, problem, text })
    };
    if form.is_outdated {
        return keep(OUTDATED, revision, text);
    }
    let proposal = find(&visited, &name).await?;
    let change = proposed(&proposal, given.as_str())?;
    let present = state(&proposal, change);
    if present != revision {
        return keep(CHANGED_BEFORE_EDIT, present, text);
    }
    let actor = visited.visitor.caller.actor();
    of(&visited)?.edit(&proposal, &change.path, text, Some(actor)).await.map_err(failed)?;
    let to = format!("{}/proposal/{}", home(visited.visit.name()), encode(&name));
    Ok(Redirect::to(&to).into_response())
}
