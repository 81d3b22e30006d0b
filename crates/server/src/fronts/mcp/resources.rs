//! The files of the memory as resources: `memory:///notes.txt` is `/memories/notes.txt`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use memory_tool::command::{ImageView, Reply, ViewCommand};
use memory_tool::store::StorePath;
use memory_tool::{Error, FileEntry, Memory, MemoryPath, MemoryTool as _, Node, StoreError, StoreExt as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ErrorData, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::fronts::mcp::tools::Report;
use crate::http::error::report_failure;

/// The authority is empty.
const PREFIX: &str = "memory:///";
/// The start of each path below `/memories`.
const ROOT: &str = "/memories/";

/// The bytes of a path that a URI encodes: all but the unreserved ones (RFC 3986, section 2.3) and the slash.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The maximum number of resources in one page of the list.
const PAGE: usize = 1_000;

/// The URI of a file or directory.
pub(super) fn uri_of(path: &StorePath) -> String {
    let relative = path.as_str().strip_prefix(ROOT).unwrap_or_default();
    format!("{PREFIX}{}", utf8_percent_encode(relative, ENCODED))
}

/// The path that a URI names.
pub(super) fn path_of(uri: &str) -> Result<MemoryPath, ErrorData> {
    let invalid = |reason: String| ErrorData::invalid_params(format!("Invalid URI: {reason}"), None);
    let relative = uri.strip_prefix(PREFIX).ok_or_else(|| invalid(format!("it must start with {PREFIX}")))?;
    if relative.contains(['?', '#']) {
        return Err(invalid("it must have no query and no fragment".to_owned()));
    }
    if relative.is_empty() {
        return Ok(MemoryPath::root());
    }
    let mut path = ROOT.to_owned();
    for segment in relative.split_inclusive('/') {
        let name = segment.strip_suffix('/').unwrap_or(segment);
        let decoded = percent_decode_str(name).decode_utf8().map_err(|_| invalid("it is not UTF-8".to_owned()))?;
        // Otherwise two URIs would name the same file.
        if decoded.contains('/') {
            return Err(invalid("a name contains a slash".to_owned()));
        }
        path.push_str(&decoded);
        path.push_str(segment.strip_prefix(name).unwrap_or_default());
    }
    MemoryPath::parse(&path).map_err(|error| invalid(error.to_string()))
}

/// The template of the URIs.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{PREFIX}{{+path}}"), "memory")
        .with_title("Memory file")
        .with_description("A file of the memory by its path without /memories/, such as notes.txt")
}

/// One page of the list of files, and the cursor of the next page.
pub(super) async fn list(
    memory: &Memory,
    cursor: Option<&str>,
    report: Report,
) -> Result<(Vec<Resource>, Option<String>), ErrorData> {
    let last = cursor.map(path_of).transpose().map_err(|_| ErrorData::invalid_params("Invalid cursor", None))?;
    record(memory, &MemoryPath::root()).await.map_err(|error| refusal(&error, report))?;
    let files = memory.store().list(MemoryPath::root()).await.map_err(|error| failed_read(&error, report))?;
    let is_later = |file: &FileEntry| last.as_ref().is_none_or(|last| file.path > **last);
    let mut listed: Vec<_> =
        files.into_iter().filter(|file| is_later(file) && !is_hidden(&file.path)).take(PAGE + 1).collect();
    let has_more = listed.len() > PAGE;
    listed.truncate(PAGE);
    let next = listed.last().filter(|_| has_more).map(|file| uri_of(&file.path));
    Ok((listed.iter().map(resource).collect(), next))
}

/// Whether `view` leaves the file out of listings (`[V1]`).
fn is_hidden(path: &StorePath) -> bool {
    path.segments().any(|name| name.starts_with('.') || name == "node_modules")
}

fn resource(file: &FileEntry) -> Resource {
    let name = file.path.as_str().strip_prefix(ROOT).unwrap_or_default();
    Resource::new(uri_of(&file.path), name).with_mime_type(media_type(&file.path)).with_size(file.size)
}

fn media_type(path: &StorePath) -> &'static str {
    let extension = path.file_name().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "text/plain",
    }
}

/// The contents of the file that a URI names.
pub(super) async fn read(memory: &Memory, uri: &str, report: Report) -> Result<ResourceContents, ErrorData> {
    let path = path_of(uri)?;
    match record(memory, &path).await {
        Ok(Reply::Directory(_)) => return Err(not_found(uri, format!("{path} is a directory, not a file"))),
        Ok(Reply::Image(ImageView { media_type, content, .. })) => return Ok(blob(&content, uri, media_type)),
        Ok(_) | Err(Error::NotText { .. }) => {}
        Err(error @ Error::NotFound { .. }) => return Err(not_found(uri, error.to_string())),
        Err(error) => return Err(refusal(&error, report)),
    }
    match memory.store().read(&path).await.map_err(|error| failed_read(&error, report))? {
        Node::File(file) => Ok(match String::from_utf8(file.content) {
            // No text of a reply holds U+0000 (`[W2]`).
            Ok(text) if text.contains('\0') => blob(text.as_bytes(), uri, "application/octet-stream"),
            Ok(text) => ResourceContents::text(text, uri).with_mime_type(media_type(&path)),
            Err(error) => blob(error.as_bytes(), uri, "application/octet-stream"),
        }),
        Node::Absent | Node::Directory(_) => Err(not_found(uri, format!("The path {path} does not exist"))),
    }
}

/// Views the first line, so that policies for commands, such as the audit log of views, also apply to resources.
async fn record(memory: &Memory, path: &MemoryPath) -> Result<Reply, Error> {
    memory.tool().view(&ViewCommand::new(path.clone()).with_view_range(1..=1)).await
}

fn blob(content: &[u8], uri: &str, media_type: &str) -> ResourceContents {
    ResourceContents::blob(BASE64.encode(content), uri).with_mime_type(media_type)
}

fn not_found(uri: &str, message: String) -> ErrorData {
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}

/// The error of a command for a client. Its causes go to the operator only (`[W5]`).
fn refusal(error: &Error, report: Report) -> ErrorData {
    report_failure(error, report);
    match error {
        Error::Storage { .. } => ErrorData::internal_error(error.to_string(), None),
        _ => ErrorData::invalid_params(error.to_string(), None),
    }
}

/// The error of a store for a client. Its own text names only paths of the memory.
fn failed_read(error: &StoreError, report: Report) -> ErrorData {
    report_failure(error, report);
    ErrorData::internal_error(format!("Error: {error}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_and_its_path_are_converted_both_ways() {
        for (path, uri) in [
            ("/memories", "memory:///"),
            ("/memories/notes.txt", "memory:///notes.txt"),
            ("/memories/a/b c.md", "memory:///a/b%20c.md"),
            ("/memories/100%.txt", "memory:///100%25.txt"),
            ("/memories/é?#[x]", "memory:///%C3%A9%3F%23%5Bx%5D"),
            ("/memories/a-b_c~d.e", "memory:///a-b_c~d.e"),
        ] {
            assert_eq!(uri_of(&path.parse().unwrap()), uri);
            assert_eq!(path_of(uri).unwrap().as_str(), path);
        }
        // Other clients encode less or more.
        for uri in ["memory:///a/b c.md", "memory:///%61/b%20c%2emd", "memory:///a/b%20c.md/"] {
            assert_eq!(path_of(uri).unwrap().as_str(), "/memories/a/b c.md", "{uri}");
        }
    }

    #[test]
    fn other_uris_are_refused() {
        for uri in [
            "",
            "notes.txt",
            "/memories/notes.txt",
            "file:///memories/notes.txt",
            "memory:",
            "memory://notes.txt",
            "memory://host/notes.txt",
            "MEMORY:///notes.txt",
            "memory:////notes.txt",
            "memory:///a//b",
            "memory:///..",
            "memory:///../notes.txt",
            "memory:///a/../../notes.txt",
            "memory:///%2e%2e/notes.txt",
            "memory:///a%2Fb",
            "memory:///..%2f..%2fetc%2fpasswd",
            "memory:///%252e%252e/notes.txt",
            "memory:///a%5Cb",
            "memory:///a\\b",
            "memory:///a%00b",
            "memory:///%ff",
            "memory:///a?b",
            "memory:///a#b",
            "memory:///.",
        ] {
            assert_eq!(path_of(uri).unwrap_err().code.0, -32602, "{uri}");
        }
    }
}
