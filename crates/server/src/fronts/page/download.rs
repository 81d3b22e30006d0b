//! Files, and zip archives of directories and memories, to take away.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use futures::stream;
use memory_tool::transfer::{Export, TransferError};
use memory_tool::{MemoryPath, Node};
use tempfile::TempDir;
use tokio::sync::OwnedSemaphorePermit;

use super::{App, Page, PathQuery, VisitedMemory, encode, path};
use crate::http::error::ApiError;

/// The archives that exist at a time.
pub(super) const MAX_ARCHIVES: usize = 4;

/// The bytes that are read at a time.
const PART: usize = 64 * 1024;

/// The bytes of a file, or a zip archive of a directory.
pub(super) async fn download(
    State(app): App,
    visited: VisitedMemory,
    Query(PathQuery { path: given }): Query<PathQuery>,
) -> Page {
    let path = path(given.as_deref())?;
    let name = path.as_str().rsplit('/').next().filter(|_| !path.is_root()).unwrap_or(visited.visit.name());
    let (content_type, name, body) = match visited.whole()?.read(&path).await? {
        Node::Absent => return Err(ApiError::not_found(format!("{path} does not exist"))),
        Node::File(file) => ("application/octet-stream", name.to_owned(), Body::from(file.content)),
        Node::Directory(_) => {
            let permit = Arc::clone(&app.archives).try_acquire_owned().map_err(|_| ApiError::busy())?;
            ("application/zip", format!("{name}.zip"), archive(&visited, &path, permit).await?)
        }
    };
    let disposition = format!("attachment; filename*=UTF-8''{}", encode(&name).to_string().replace('/', "_"));
    Ok(([(CONTENT_TYPE, content_type.to_owned()), (CONTENT_DISPOSITION, disposition)], body).into_response())
}

/// Writes an archive to a temporary file, so that a failure is an error and not half an archive.
async fn archive(visited: &VisitedMemory, path: &MemoryPath, permit: OwnedSemaphorePermit) -> Result<Body, ApiError> {
    let directory = tokio::task::spawn_blocking(TempDir::new).await.map_err(ApiError::internal)?;
    let directory = directory.map_err(ApiError::internal)?;
    let place = directory.path().join("archive.zip");
    let export = Export::to_path(&place);
    let export = if path.is_root() { export } else { export.within(path.clone()) };
    let report = visited.whole()?.export(export, |_| {}).await.map_err(|error| match error {
        TransferError::Reading(error) => error.into(),
        error => ApiError::internal(error),
    })?;
    if let Some(problem) = report.unreadable.first() {
        let message = format!("{} cannot be read: download the other files or directories", problem.path);
        return Err(ApiError::conflict(message));
    }
    // The open file stays until it is read.
    let open = move || {
        let file = File::open(&place);
        drop(directory);
        file
    };
    let file = tokio::task::spawn_blocking(open).await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    let parts = stream::try_unfold((file, permit), async |(mut file, permit)| {
        let read = move || {
            let mut part = Vec::with_capacity(PART);
            file.by_ref().take(PART as u64).read_to_end(&mut part).map(|_| (part, file))
        };
        let (part, file) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        Ok::<_, io::Error>((!part.is_empty()).then_some((part, (file, permit))))
    });
    Ok(Body::from_stream(parts))
}
