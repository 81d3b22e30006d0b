//! The pages that show memories, directories and files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::response::IntoResponse as _;
use futures::{StreamExt as _, future, stream};
use memory_tool::history::LogFilter;
use memory_tool::store::{MemoryName, ReadOptions, StorePath};
use memory_tool::{FileEntry, MemoryPath, Node};
use serde::Deserialize;

use super::text::{Time, name_of, natural_key, size, visible};
use super::{App, Frame, Page, PageState, VisitedMemory, Visitor, encode, markdown, past, path, proposals, render};
use crate::access::Right;
use crate::http::error::ApiError;
use crate::memories::visit::Purpose;

/// The rows of a page.
pub(super) const MEMORIES: usize = 200;
const PARALLEL_MEMORIES: usize = 16;
const ROWS: usize = 200;
pub(super) const LINES: usize = 1_000;

/// The largest Markdown that is rendered. The page of a larger file has its lines.
const MAX_MARKDOWN: usize = 512 * 1024;

#[derive(Deserialize)]
pub(super) struct MemoryQuery {
    path: Option<String>,
    /// `source` shows Markdown as lines, and `blame` also who wrote each.
    view: Option<String>,
    /// The number of rows or lines to leave out.
    #[serde(default)]
    from: usize,
    /// The order of the rows.
    #[serde(default)]
    sort: Order,
    /// Lists all files below the directory.
    #[serde(default)]
    all: Option<String>,
    /// A part of the names of the memories to list.
    #[serde(default)]
    name: String,
    /// The name after which a list of memories starts.
    after: Option<String>,
    done: Option<String>,
}

/// The order of the files of a directory.
#[derive(Clone, Copy, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// By name, directories first.
    #[default]
    Name,
    /// The largest first.
    Size,
    /// The newest first.
    Changed,
}

impl Order {
    const ALL: [(Self, &str, &str); 3] =
        [(Self::Name, "name", "Name"), (Self::Size, "size", "Size"), (Self::Changed, "changed", "Last change")];
}

#[derive(Template)]
#[template(path = "memories.html")]
struct Memories {
    frame: Frame,
    /// The part of the names of these memories.
    name: String,
    memories: Vec<Row>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "directory.html")]
struct Directory {
    frame: Frame,
    rows: Vec<Row>,
    /// All files below.
    all: Row,
    /// Whether the rows are these.
    is_all: bool,
    has_directories: bool,
    order: Order,
    /// The address of the page without an order.
    address: String,
    from: usize,
    total: usize,
    next: Option<usize>,
    recent: Vec<past::Change>,
    /// The files whose changes wait.
    waiting: usize,
    /// The mount points of shared memories that hide own files, with their number.
    hidden: Vec<(String, usize)>,
}

struct Row {
    /// The path, or the name of a memory.
    to: String,
    name: String,
    is_directory: bool,
    is_damaged: bool,
    files: u64,
    bytes: u64,
    modified: Option<SystemTime>,
    /// The files whose changes wait, of a memory.
    waiting: usize,
    /// The name of a shared memory.
    shared: String,
}

impl Directory {
    fn sort(&self) -> &'static str {
        Order::ALL.iter().find(|(order, ..)| *order == self.order).map_or("", |(_, name, _)| name)
    }
}

impl Row {
    fn of<'a>(to: String, name: String, is_directory: bool, files: impl IntoIterator<Item = &'a FileEntry>) -> Self {
        let (mut count, mut bytes, mut modified, mut is_damaged) = (0, 0_u64, None::<SystemTime>, false);
        for file in files {
            count += 1;
            bytes = bytes.saturating_add(file.size);
            modified = modified.max(file.modified);
            is_damaged |= file.is_damaged;
        }
        Self { to, name, is_directory, is_damaged, files: count, bytes, modified, waiting: 0, shared: String::new() }
    }

    fn size(&self) -> String {
        size(self.bytes)
    }

    fn time(&self) -> Time {
        Time::of(self.modified)
    }
}

#[derive(Template)]
#[template(path = "file.html")]
struct File {
    frame: Frame,
    size: String,
    content: Content,
    is_markdown: bool,
    /// The view of the lines.
    view: &'static str,
    /// The last change, if there is a history.
    last: Option<past::Change>,
}

impl File {
    fn raw(&self) -> &'static str {
        match self.content {
            Content::Markdown(_) | Content::Lines { .. } => "Plain text",
            Content::Image | Content::Bytes => "Raw bytes",
        }
    }
}

enum Content {
    Markdown(String),
    Lines { lines: Vec<ShownLine>, total: usize, from: usize, next: Option<usize>, previous: Option<usize> },
    Image,
    Bytes,
}

struct ShownLine {
    number: usize,
    text: String,
    /// The change that wrote it, if the page shows that and another one wrote the line before.
    by: Option<past::Writer>,
}

/// The memories that the visitor may read.
pub(super) async fn memories(
    State(app): App,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<MemoryQuery>,
) -> Page {
    let mut names = readable(&app, &visitor, query.after.as_deref()).await?;
    let wanted = query.name.to_lowercase();
    names.retain(|name| name.as_str().to_lowercase().contains(&wanted));
    let rows = names.into_iter().map(|name| memory_row(&app, &visitor, name));
    let rows = stream::iter(rows).buffered(PARALLEL_MEMORIES).filter_map(future::ready);
    let mut memories: Vec<_> = rows.take(MEMORIES + 1).collect().await;
    let has_more = memories.len() > MEMORIES;
    memories.truncate(MEMORIES);
    let next = memories.last().filter(|_| has_more).map(|row| row.to.clone());
    let frame = Frame::new(&visitor, "Memories").done(query.done.as_deref());
    render(&Memories { frame, name: query.name, memories, next })
}

/// The row of a memory. The list leaves out deleted memories and failures. The log has the reason.
async fn memory_row(app: &PageState, visitor: &Visitor, name: MemoryName) -> Option<Row> {
    let visited = VisitedMemory::enter(app, visitor, name.as_str(), Right::Read, Purpose::Look).await.ok()?;
    let (files, waiting) =
        future::join(visited.visit.memory.list(MemoryPath::root()), proposals::waiting(&visited)).await;
    let (files, waiting) = (files.map_err(ApiError::from).ok()?, waiting.ok()?);
    Some(Row { waiting, ..Row::of(name.to_string(), visible(name.as_str()), true, &files) })
}

/// The names of the memories that the visitor may read, after a name.
pub(super) async fn readable(
    app: &PageState,
    visitor: &Visitor,
    after: Option<&str>,
) -> Result<Vec<MemoryName>, ApiError> {
    let mut names = app.memories.names().await?;
    let can_read = visitor.caller.has(Right::Read);
    names.retain(|name| can_read && visitor.caller.reaches(name) && after < Some(name.as_str()));
    Ok(names)
}

/// A directory or a file.
pub(super) async fn show(
    State(app): App,
    visited: VisitedMemory,
    headers: HeaderMap,
    Query(query): Query<MemoryQuery>,
) -> Page {
    let (path, state) = (path(query.path.as_deref())?, past::state(&visited).await);
    match visited.whole()?.read(&path).await? {
        Node::Absent => Err(ApiError::not_found(format!("{path} does not exist. The history may have it."))),
        Node::Directory(_) => directory(&visited, &path, &query, state).await,
        Node::File(file) => {
            let is_markdown = memory_tool::proposals::is_markdown(&(&path).into());
            let (bytes, is_rendered) = (file.content.len() as u64, is_markdown && query.view.is_none());
            let view = if query.view.as_deref() == Some("blame") { "blame" } else { "source" };
            let mut writers = match std::str::from_utf8(&file.content) {
                Ok(text) if view == "blame" => past::writers(&visited, &path, text).await?,
                _ => Vec::new(),
            };
            let of_request = headers.get(HOST).and_then(|host| markdown::host(host.to_str().ok()?));
            let place = markdown::Place { home: super::home(visited.visit.name()), path: (&path).into() };
            let content = tokio::task::spawn_blocking(move || {
                let is_own = |host: &str| of_request.as_deref() == Some(host) || app.gate.hosts.is_own(host);
                content(file.content, is_rendered.then_some(&place), query.from, is_own)
            });
            let mut content = content.await.map_err(ApiError::internal)?;
            if let Content::Lines { lines, .. } = &mut content {
                lines.iter_mut().for_each(|line| line.by = writers.get_mut(line.number - 1).and_then(Option::take));
            }
            let frame = Frame::of(&visited, name_of(path.as_str())).at(&path).done(query.done.as_deref());
            let (frame, last) = (Frame { state, ..frame }, past::last_change(&visited, &path).await?);
            render(&File { frame, size: size(bytes), content, is_markdown, view, last })
        }
    }
}

async fn directory(visited: &VisitedMemory, path: &MemoryPath, query: &MemoryQuery, state: String) -> Page {
    let files = visited.whole()?.list(path).await?;
    let prefix = format!("{path}/");
    let is_all = query.all.is_some();
    let children = children(&files, &prefix, is_all, query.sort);
    let has_directories = children.iter().any(|((is_file, _), _)| !is_file);
    let total = children.len();
    let from = query.from.min(total);
    let rows = children.into_iter().skip(from).take(ROWS);
    let rows = rows.map(|((is_file, name), files)| Row::of(format!("{prefix}{name}"), visible(name), !is_file, files));
    let shared = |row: Row| Row { shared: shared(visited, &row.to), ..row };
    let rows: Vec<_> = rows.map(shared).collect();
    let next = (from + rows.len() < total).then_some(from + rows.len());
    let all = Row::of(path.to_string(), String::new(), true, &files);
    let order = query.sort;
    let recent = if path.is_root() { past::recent(visited, LogFilter::new(), 5).await?.0 } else { Vec::new() };
    let hidden = hidden(visited, path).await?;
    let waiting = if path.is_root() { proposals::waiting(visited).await? } else { 0 };
    let title = if path.is_root() { visible(visited.visit.name()) } else { name_of(path.as_str()) };
    let frame = Frame { state, ..Frame::of(visited, title).at(path).done(query.done.as_deref()) };
    let mut address = format!("{}?path={}", frame.home, encode(path.as_str()));
    address.push_str(if is_all { "&all=1" } else { "" });
    render(&Directory {
        frame,
        rows,
        all,
        is_all,
        has_directories,
        order,
        address,
        from,
        total,
        next,
        recent,
        waiting,
        hidden,
    })
}

/// A file, or a directory with its files. The key has whether it is a file, and its name.
type Child<'a> = ((bool, &'a str), Vec<&'a FileEntry>);

/// The entries of a directory, or all files below it, in this order.
fn children<'a>(files: &'a [FileEntry], prefix: &str, is_all: bool, order: Order) -> Vec<Child<'a>> {
    let mut children: BTreeMap<(bool, &str), Vec<&FileEntry>> = BTreeMap::new();
    for file in files {
        let below = file.path.as_str().strip_prefix(prefix).unwrap_or_default();
        let (name, is_file) = below.split_once('/').map_or((below, true), |(name, _)| (name, false));
        let child = if is_all { (true, below) } else { (is_file, name) };
        children.entry(child).or_default().push(file);
    }
    let mut children: Vec<_> = children.into_iter().collect();
    match order {
        Order::Name => children.sort_by_cached_key(|((is_file, name), _)| (*is_file, natural_key(name))),
        Order::Size => {
            children.sort_by_cached_key(|(_, files)| Reverse(files.iter().map(|file| file.size).sum::<u64>()));
        }
        Order::Changed => {
            children.sort_by_cached_key(|(_, files)| Reverse(files.iter().map(|file| file.modified).max()));
        }
    }
    children
}

/// The mount points below a directory, with the number of own files that each hides.
async fn hidden(visited: &VisitedMemory, directory: &MemoryPath) -> Result<Vec<(String, usize)>, ApiError> {
    let mut hidden = Vec::new();
    for mount in visited.door.tree().mounts().iter().filter(|mount| mount.point.is_under(directory)) {
        let files = visited.visit.memory.list(&mount.point).await?.len();
        hidden.extend((files > 0).then(|| (visible(mount.point.as_str()), files)));
    }
    Ok(hidden)
}

/// The name of the shared memory at a path.
fn shared(visited: &VisitedMemory, path: &str) -> String {
    let mounts = visited.door.tree().mounts();
    let Some(mount) = mounts.iter().find(|mount| mount.point.as_str() == path) else { return String::new() };
    let access = if mount.can_change { "shared" } else { "shared, read-only" };
    format!("{access}: {}", visible(mount.memory.as_str()))
}

/// The content of a page. `place` is given for Markdown.
fn content(bytes: Vec<u8>, place: Option<&markdown::Place>, from: usize, is_own: impl Fn(&str) -> bool) -> Content {
    if image_type(&bytes).is_some() {
        return Content::Image;
    }
    let Ok(text) = String::from_utf8(bytes) else { return Content::Bytes };
    if let Some(place) = place.filter(|_| text.len() <= MAX_MARKDOWN) {
        return Content::Markdown(markdown::to_html(&text, place, is_own));
    }
    let total = text.lines().count();
    let from = from.min(total);
    let lines = text.lines().enumerate().skip(from).take(LINES);
    let lines: Vec<_> =
        lines.map(|(index, line)| ShownLine { number: index + 1, text: visible(line), by: None }).collect();
    let next = (from + lines.len() < total).then_some(from + lines.len());
    Content::Lines { lines, total, from, next, previous: (from > 0).then(|| from.saturating_sub(LINES)) }
}

/// The type of an image that browsers show, by its first bytes. SVG is not among them, because it can act.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The bytes of a file, as an image or as plain text.
pub(super) async fn raw(visited: VisitedMemory, Query(query): Query<MemoryQuery>) -> Page {
    let path = path(query.path.as_deref())?;
    let file = visited.visit.memory.store().read_opts(&StorePath::from(&path), ReadOptions::new()).await?;
    let file = file.into_file().ok_or_else(|| ApiError::not_found("it is not a file"))?;
    let content_type = image_type(&file.content).unwrap_or("text/plain; charset=utf-8");
    let policy = "default-src 'none'; sandbox; frame-ancestors 'none'";
    Ok(([(CONTENT_TYPE, content_type), (CONTENT_SECURITY_POLICY, policy)], file.content).into_response())
}
