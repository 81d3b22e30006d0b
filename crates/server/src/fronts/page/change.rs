//! The forms that create, edit, rename and delete files.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _};
use memory_tool::history::merge;
use memory_tool::{MemoryPath, Node, StoreError};
use serde::Deserialize;

use super::diff::{Differ, Line};
use super::text::{name_of, sentence};
use super::{Draft, Frame, OUTDATED, Page, PathQuery, Posted, ToChange, VisitedMemory, past, path, render, written};
use crate::access::tokens::sha256;
use crate::http::error::ApiError;

/// The largest text that a form edits.
const MAX_TEXT: usize = 1024 * 1024;
/// Attempts to replace a file with the same text, whose version changes.
const MAX_ATTEMPTS: usize = 10;
const TOO_LARGE: &str = "The text is larger than 1 MiB, too large for this form.";

#[derive(Default, Template)]
#[template(path = "edit.html")]
struct Edit {
    frame: Frame,
    is_new: bool,
    /// The name and the directory of a new file.
    place: PathFields,
    text: String,
    /// The text that the visitor saw, and its hash, because browsers change line breaks.
    before: String,
    base: String,
    problem: String,
    /// Whether the visitor takes a change back, and the conflict is with later ones.
    is_take_back: bool,
    conflict: Option<Conflict>,
}

/// Somebody changed the file after the visitor visited it.
struct Conflict {
    /// The last change of the file.
    by: Option<past::Change>,
    is_deleted: bool,
    /// The text with both changes.
    merged: Option<String>,
    /// The changes by others and by the visitor.
    theirs: Vec<Line>,
    mine: Vec<Line>,
}

impl Conflict {
    async fn new(
        by: Option<past::Change>,
        present: Option<String>,
        before: String,
        text: String,
    ) -> Result<Self, ApiError> {
        let comparing = move || {
            let merged = present.as_ref().and_then(|present| merge(&before, present, &text));
            let (mut differ, is_deleted) = (Differ::new(), present.is_none());
            let theirs = differ.lines(&before, &present.unwrap_or_default());
            Self { by, is_deleted, merged, theirs, mine: differ.lines(&before, &text) }
        };
        tokio::task::spawn_blocking(comparing).await.map_err(ApiError::internal)
    }
}

impl Edit {
    fn new(frame: Frame, text: String) -> Self {
        let (before, base) = (text.clone(), sha256(text.as_bytes()));
        Self { frame, text, before, base, ..Self::default() }
    }

    /// Whether the text lacks the change of another.
    fn replaces(&self) -> bool {
        self.conflict.as_ref().is_some_and(|conflict| conflict.merged.is_none())
    }

    fn creates_again(&self) -> bool {
        self.conflict.as_ref().is_some_and(|conflict| conflict.is_deleted)
    }

    /// The lines of the form.
    fn rows(&self) -> usize {
        (self.text.lines().count() + 2).clamp(6, 24)
    }
}

#[derive(Template)]
#[template(path = "rename.html")]
struct Rename {
    frame: Frame,
    place: PathFields,
    problem: String,
}

/// The fields for a path.
#[derive(Default)]
struct PathFields {
    name: String,
    /// The directory without `/memories`.
    directory: String,
}

/// A directory without `/memories`.
fn relative(directory: &str) -> String {
    directory.strip_prefix("/memories").unwrap_or(directory).trim_start_matches('/').to_owned()
}

impl PathFields {
    fn of(path: &MemoryPath) -> Self {
        let (directory, name) = path.as_str().rsplit_once('/').unwrap_or_default();
        Self { name: name.to_owned(), directory: relative(directory) }
    }

    fn take(form: &mut Draft) -> Self {
        Self { name: form.take("name"), directory: form.take("directory") }
    }

    fn path(&self) -> Result<MemoryPath, StoreError> {
        Ok(MemoryPath::parse(&written(&self.directory, &self.name))?)
    }
}

#[derive(Template)]
#[template(path = "delete.html")]
struct Delete {
    frame: Frame,
    files: usize,
    has_history: bool,
}

/// Browsers send `\r\n` for each line break. The text gets the line breaks of the text before.
fn with_line_breaks_of(before: &str, text: &str) -> String {
    let text = normalized(text);
    if before.contains("\r\n") { text.replace('\n', "\r\n") } else { text }
}

fn normalized(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn refused(template: &impl Template) -> Page {
    let html = template.render().map_err(ApiError::internal)?;
    Ok((StatusCode::CONFLICT, Html(html)).into_response())
}

/// The text of a file, if a form can edit it.
async fn read(visited: &VisitedMemory, path: &MemoryPath) -> Result<Option<String>, ApiError> {
    match visited.whole()?.read(path).await? {
        Node::Absent => Ok(None),
        Node::Directory(_) => Err(ApiError::conflict(format!("{path} is a directory"))),
        Node::File(file) if file.content.len() > MAX_TEXT => {
            Err(ApiError::conflict(format!("{path} is larger than 1 MiB, too large for this form")))
        }
        Node::File(file) => {
            // Browsers replace U+0000, and each carriage return by a line break.
            let is_kept = |text: &String| !text.contains('\0') && !text.replace("\r\n", "").contains('\r');
            let text = String::from_utf8(file.content).ok().filter(is_kept);
            let refused = || ApiError::conflict(format!("{path} is not text that a form can keep"));
            text.ok_or_else(refused).map(Some)
        }
    }
}

fn absent(path: &MemoryPath) -> ApiError {
    ApiError::not_found(format!("{path} does not exist"))
}

pub(super) async fn new(ToChange(visited): ToChange, Query(query): Query<PathQuery>) -> Page {
    let directory = path(query.path.as_deref())?;
    let place = PathFields { name: String::new(), directory: relative(directory.as_str()) };
    let frame = Frame::of(&visited, "New file").at(&directory);
    render(&Edit { is_new: true, place, ..Edit::new(frame, String::new()) })
}

pub(super) async fn create(ToChange(visited): ToChange, mut form: Draft) -> Page {
    let visited = visited.because(&mut form).by_command("create");
    let (place, text) = (PathFields::take(&mut form), with_line_breaks_of("", &form.take("text")));
    let problem = match place.path() {
        _ if form.is_outdated => OUTDATED.to_owned(),
        _ if place.name.is_empty() => "Give the file a name.".to_owned(),
        _ if text.len() > MAX_TEXT => TOO_LARGE.to_owned(),
        Ok(path) => match visited.whole()?.write_if(&path, text.as_str(), None).await {
            Ok(()) => return Ok(visited.to(path.as_str(), "created")),
            Err(error) => problem(error)?,
        },
        Err(error) => problem(error)?,
    };
    let frame = Frame::of(&visited, "New file");
    refused(&Edit { is_new: true, place, problem, ..Edit::new(frame, text) })
}

/// The mistake in a request.
fn problem(error: StoreError) -> Result<String, ApiError> {
    match error {
        StoreError::Failure { .. } => Err(error.into()),
        error => Ok(sentence(&error.to_string())),
    }
}

fn edit_frame(visited: &VisitedMemory, path: &MemoryPath) -> Frame {
    Frame::of(visited, format!("Edit {}", name_of(path.as_str()))).at(path)
}

/// The form for a file, or for a change of it that a person takes back.
#[derive(Deserialize)]
pub(super) struct EditQuery {
    path: Option<String>,
    /// The change to take back.
    without: Option<String>,
}

pub(super) async fn edit(ToChange(visited): ToChange, Query(query): Query<EditQuery>) -> Page {
    let path = path(query.path.as_deref())?;
    let text = read(&visited, &path).await?.ok_or_else(|| absent(&path))?;
    let form = Edit::new(edit_frame(&visited, &path), text.clone());
    let Some(entry) = query.without else { return render(&form) };
    let entry = entry.parse().map_err(|_| ApiError::invalid("the address names no change"))?;
    let (before, after) = past::texts_of(&visited, entry, &path).await?;
    let by = past::last_change(&visited, &path).await?;
    let conflict = Conflict::new(by, Some(normalized(&text)), normalized(&after), normalized(&before)).await?;
    let text = conflict.merged.clone().unwrap_or(before);
    render(&Edit { text, is_take_back: true, conflict: Some(conflict), ..form })
}

pub(super) async fn save(ToChange(visited): ToChange, mut form: Draft) -> Page {
    let visited = visited.because(&mut form).by_command("edit");
    let path = path(Some(&form.take("path")))?;
    let (base, mut before, given) =
        (form.take("base"), normalized(&form.take("before")), normalized(&form.take("text")));
    if before.len() > MAX_TEXT {
        before.clear();
    }
    let keep = |problem: String, before: String| {
        let edit = Edit::new(edit_frame(&visited, &path), given.clone());
        refused(&Edit { base: base.clone(), before, problem, ..edit })
    };
    if form.is_outdated {
        return keep(OUTDATED.to_owned(), before);
    }
    if given.len() > MAX_TEXT {
        return keep(TOO_LARGE.to_owned(), before);
    }
    for _ in 0..MAX_ATTEMPTS {
        let current = match read(&visited, &path).await {
            Ok(current) => current,
            // No form can edit it now, but the text stays.
            Err(error) if error.status() == StatusCode::CONFLICT => return keep(sentence(&error.to_string()), before),
            Err(error) => return Err(error),
        };
        let present = current.as_deref().unwrap_or_default();
        let text = with_line_breaks_of(present, &given);
        // Without an edit, mixed line breaks stay.
        if current.as_deref().is_some_and(|current| current == text || normalized(current) == given) {
            return Ok(visited.to(path.as_str(), "unchanged"));
        }
        let found = current.as_ref().map(|current| sha256(current.as_bytes())).unwrap_or_default();
        if found != base {
            let by = past::last_change(&visited, &path).await?;
            let conflict = Conflict::new(by, current.as_deref().map(normalized), before, given.clone()).await?;
            // The new form has the visitor's text, and replaces only the text of this page.
            let edit = Edit::new(edit_frame(&visited, &path), conflict.merged.clone().unwrap_or(text));
            let before = current.unwrap_or_default();
            return refused(&Edit { before, base: found, conflict: Some(conflict), ..edit });
        }
        match visited.whole()?.write_if(&path, text.as_str(), current.as_deref().map(str::as_bytes)).await {
            Ok(()) => return Ok(visited.to(path.as_str(), "saved")),
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {}
            Err(error) => return keep(problem(error)?, before),
        }
    }
    keep("The file kept changing.".to_owned(), before)
}

fn rename_frame(visited: &VisitedMemory, path: &MemoryPath) -> Frame {
    Frame::of(visited, format!("Rename or move {}", name_of(path.as_str()))).at(path)
}

/// A path in a memory, which is not all of it.
fn below_root(given: Option<&str>) -> Result<MemoryPath, ApiError> {
    match path(given)? {
        root if root.is_root() => {
            Err(ApiError::invalid("a whole memory cannot be moved, and is deleted on its page of limits"))
        }
        path => Ok(path),
    }
}

pub(super) async fn name(ToChange(visited): ToChange, Query(query): Query<PathQuery>) -> Page {
    let path = below_root(query.path.as_deref())?;
    if !visited.whole()?.exists(&path).await? {
        return Err(absent(&path));
    }
    render(&Rename { frame: rename_frame(&visited, &path), place: PathFields::of(&path), problem: String::new() })
}

pub(super) async fn rename(ToChange(visited): ToChange, mut form: Draft) -> Page {
    let visited = visited.because(&mut form).by_command("rename");
    let (from, place) = (path(Some(&form.take("path")))?, PathFields::take(&mut form));
    let problem = match place.path() {
        _ if form.is_outdated => OUTDATED.to_owned(),
        Ok(to) => match visited.whole()?.rename(&from, &to).await {
            Ok(()) => return Ok(visited.to(to.as_str(), "renamed")),
            Err(error) => problem(error)?,
        },
        Err(error) => problem(error)?,
    };
    refused(&Rename { frame: rename_frame(&visited, &from), place, problem })
}

pub(super) async fn confirm(ToChange(visited): ToChange, Query(query): Query<PathQuery>) -> Page {
    let path = below_root(query.path.as_deref())?;
    let whole = visited.whole()?;
    let files = match whole.read(&path).await? {
        Node::Absent => return Err(absent(&path)),
        Node::File(_) => 1,
        Node::Directory(_) => whole.list(&path).await?.len(),
    };
    let has_history = visited.visit.memory.history().is_some();
    let frame = Frame::of(&visited, format!("Delete {}", name_of(path.as_str()))).at(&path);
    render(&Delete { frame, files, has_history })
}

pub(super) async fn delete(ToChange(visited): ToChange, Posted(mut form): Posted) -> Page {
    let visited = visited.because(&mut form).by_command("delete");
    let path = below_root(Some(&form.take("path")))?;
    visited.whole()?.remove(&path).await?;
    // The page of the change has a button to take it back.
    Ok(match past::last_change(&visited, &path).await? {
        Some(change) => visited.to_change(change.number, "deleted"),
        None => {
            let parent = path.as_str().rsplit_once('/').map_or("/memories", |(parent, _)| parent);
            visited.to(parent, "deleted-for-good")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_stay() {
        assert_eq!(with_line_breaks_of("a\nb", "c\r\nd\n"), "c\nd\n");
        assert_eq!(with_line_breaks_of("a\r\nb", "c\r\nd"), "c\r\nd");
        assert_eq!(with_line_breaks_of("", "c\r\nd"), "c\nd");
    }
}
