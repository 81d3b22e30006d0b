//! The forms that create, edit, rename and delete files.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use memory_tool::{MemoryPath, Node, StoreError};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::diff::{self, Line};
use super::text::name_of;
use super::{App, Frame, Opened, Page, PageError, Posted, Visitor, address, changed, past, path, render};
use crate::error::ApiError;
use crate::path::Path;
use crate::tokens::hexadecimal;

/// The largest text that a form edits.
const MAX_TEXT: usize = 1024 * 1024;

#[derive(Deserialize)]
pub(super) struct Asked {
    path: Option<String>,
}

#[derive(Template)]
#[template(path = "edit.html")]
struct Edit {
    frame: Frame,
    is_new: bool,
    text: String,
    /// The state that the text replaces.
    base: String,
    problem: String,
    /// The difference to the present text, if others changed it.
    conflict: Option<Vec<Line>>,
}

#[derive(Template)]
#[template(path = "rename.html")]
struct Rename {
    frame: Frame,
    to: String,
    problem: String,
}

#[derive(Template)]
#[template(path = "delete.html")]
struct Delete {
    frame: Frame,
    files: usize,
    has_history: bool,
}

fn hash(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// Browsers send `\r\n` for each line break. The text gets the line breaks of the text before.
fn with_line_breaks_of(before: &str, text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    if before.contains("\r\n") { text.replace('\n', "\r\n") } else { text }
}

fn refused(template: &impl Template) -> Page {
    let html = template.render().map_err(|_| ApiError::storage())?;
    Ok((StatusCode::CONFLICT, Html(html)).into_response())
}

/// The text of a file, if a form can edit it.
async fn read(opened: &Opened, path: &MemoryPath) -> Result<Option<String>, PageError> {
    match opened.memory.read(path).await? {
        Node::Absent => Ok(None),
        Node::Directory(_) => Err(PageError::new(StatusCode::CONFLICT, format!("{path} is a directory"))),
        Node::File(file) if file.content.len() > MAX_TEXT => {
            Err(PageError::new(StatusCode::CONFLICT, format!("{path} is larger than 1 MiB, too large for this form")))
        }
        Node::File(file) => String::from_utf8(file.content)
            .map(Some)
            .map_err(|_| PageError::new(StatusCode::CONFLICT, format!("{path} is not text"))),
    }
}

fn absent(path: &MemoryPath) -> PageError {
    PageError::new(StatusCode::NOT_FOUND, format!("{path} does not exist"))
}

pub(super) async fn new(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let mut frame = Frame::of(&visitor, &opened, "New file").at(&path(asked.path.as_deref())?);
    frame.path.push('/');
    let (text, base, problem) = (String::new(), String::new(), String::new());
    render(&Edit { frame, is_new: true, text, base, problem, conflict: None })
}

pub(super) async fn create(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let (given, text) = (form.take("path"), with_line_breaks_of("", &form.take("text")));
    let created = match MemoryPath::parse(&given) {
        Ok(path) => opened.memory.write_if(&path, text.as_str(), None).await,
        Err(error) => Err(error.into()),
    };
    match created {
        Ok(()) => Ok(Redirect::to(&address(&id, "", &given)).into_response()),
        Err(error) => {
            let problem = problem(error)?;
            let frame = Frame { path: given, ..Frame::of(&visitor, &opened, "New file") };
            refused(&Edit { frame, is_new: true, text, base: String::new(), problem, conflict: None })
        }
    }
}

/// The mistake in a request.
fn problem(error: StoreError) -> Result<String, PageError> {
    match error {
        StoreError::Failure { .. } => Err(error.into()),
        error => Ok(super::text::visible(&error.to_string())),
    }
}

pub(super) async fn edit(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path = path(asked.path.as_deref())?;
    let text = read(&opened, &path).await?.ok_or_else(|| absent(&path))?;
    let frame = Frame::of(&visitor, &opened, format!("Edit {}", name_of(path.as_str()))).at(&path);
    let base = hash(text.as_bytes());
    render(&Edit { frame, is_new: false, text, base, problem: String::new(), conflict: None })
}

pub(super) async fn save(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path = path(Some(&form.take("path")))?;
    let (base, given) = (form.take("base"), form.take("text"));
    let frame = Frame::of(&visitor, &opened, format!("Edit {}", name_of(path.as_str()))).at(&path);
    loop {
        let current = read(&opened, &path).await?;
        let text = with_line_breaks_of(current.as_deref().unwrap_or_default(), &given);
        let found = current.as_ref().map(|current| hash(current.as_bytes())).unwrap_or_default();
        if found != base {
            // The new form has the visitor's text, and replaces only the text of this page.
            let conflict = Some(diff::lines(current.as_deref().unwrap_or_default(), &text));
            return refused(&Edit { frame, is_new: false, text, base: found, problem: String::new(), conflict });
        }
        match opened.memory.write_if(&path, text.as_str(), current.as_deref().map(str::as_bytes)).await {
            Ok(()) => return Ok(Redirect::to(&address(&id, "", path.as_str())).into_response()),
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {}
            Err(error) => {
                let problem = problem(error)?;
                return refused(&Edit { frame, is_new: false, text, base, problem, conflict: None });
            }
        }
    }
}

pub(super) async fn name(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path = path(asked.path.as_deref())?;
    if !opened.memory.exists(&path).await? {
        return Err(absent(&path));
    }
    let frame = Frame::of(&visitor, &opened, format!("Rename {}", name_of(path.as_str()))).at(&path);
    render(&Rename { frame, to: path.to_string(), problem: String::new() })
}

pub(super) async fn rename(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let (from, to) = (path(Some(&form.take("path")))?, form.take("to"));
    let renamed = match MemoryPath::parse(&to) {
        Ok(to) => opened.memory.rename(&from, &to).await,
        Err(error) => Err(error.into()),
    };
    match renamed {
        Ok(()) => Ok(Redirect::to(&address(&id, "", &to)).into_response()),
        Err(error) => {
            let frame = Frame::of(&visitor, &opened, format!("Rename {}", name_of(from.as_str()))).at(&from);
            refused(&Rename { frame, to, problem: problem(error)? })
        }
    }
}

pub(super) async fn confirm(
    State(service): App,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path = path(asked.path.as_deref())?;
    let files = match opened.memory.read(&path).await? {
        Node::Absent => return Err(absent(&path)),
        Node::File(_) => 1,
        Node::Directory(_) => opened.memory.list(&path).await?.len(),
    };
    let has_history = past::has_history(&opened).await;
    let frame = Frame::of(&visitor, &opened, format!("Delete {}", name_of(path.as_str()))).at(&path);
    render(&Delete { frame, files, has_history })
}

pub(super) async fn delete(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = Opened::find_to_change(&service, &visitor, &id).await?;
    let path = path(Some(&form.take("path")))?;
    opened.memory.remove(&path).await?;
    let newest = past::newest(&opened).await?;
    Ok(way_back(&id, &path, newest).into_response())
}

/// The page of the change, which has a button to take it back.
fn way_back(id: &str, path: &MemoryPath, newest: Option<u64>) -> Response {
    let parent = path.as_str().rsplit_once('/').map_or("/memories", |(parent, _)| parent);
    match newest {
        Some(number) => changed(id, number, "deleted").into_response(),
        None => Redirect::to(&address(id, "", parent)).into_response(),
    }
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
