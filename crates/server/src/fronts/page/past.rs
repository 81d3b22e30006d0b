//! The log of a memory, its differences, and the actions that take changes back.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use askama::Template;
use axum::extract::Query;
use memory_tool::history::{self, Entry, EntryRef, FileChange, FileDiff, HistoryError, LogFilter, Origin};
use memory_tool::store::{Batch, StorePath};
use memory_tool::{MemoryPath, Node, Store};
use serde::Deserialize;

use super::diff::{Differ, Line};
use super::text::{Time, name_of, sentence, visible};
use super::{Draft, Frame, Page, Posted, ToChange, VisitedMemory, encode, path, render, short};
use crate::http::error::ApiError;
use crate::http::path::Path;

type History = history::History<Arc<dyn Store>>;

/// The entries of a page.
const ENTRIES: usize = 50;

/// The pause after which the changes of an actor belong to another run.
const PAUSE_BETWEEN_RUNS: Duration = Duration::from_secs(15 * 60);

/// Why a change cannot be taken back without a person.
const CHANGED: &str = "the files have changed since.";

/// The changes of a file that a form erases.
const MAX_ERASED: usize = 1_000;

/// The files whose differences a page shows.
const FILES: usize = 50;

/// A change in a list.
pub(super) struct Change {
    pub(super) number: u64,
    /// Names it in forms, which must not mean the change of a memory that was made again.
    pub(super) name: EntryRef,
    /// Names its changes in the form that erases single ones: the indexes after `_`.
    pub(super) parts: String,
    pub(super) time: Time,
    /// Whether the change before it in the list is of another day.
    pub(super) begins_day: bool,
    pub(super) actor: String,
    /// The actor as the history has it.
    pub(super) by: String,
    /// Its cause, apart from edits.
    pub(super) cause: String,
    /// The actors who wrote it, if another one agreed to it.
    pub(super) authors: String,
    /// The reason that a person gave.
    pub(super) reason: String,
    /// The number of changes and the minutes of the run that ends with it: of the same actor, without a long pause.
    pub(super) run: Option<(usize, u64)>,
    pub(super) files: Vec<String>,
    /// The files that are not listed.
    pub(super) more: usize,
    /// The button that takes it back, if that is possible.
    pub(super) take_back: Option<String>,
    /// Whether it took back another change.
    pub(super) is_reversal: bool,
    /// Whether the history has texts or names of it.
    pub(super) is_erasable: bool,
}

#[derive(Deserialize)]
pub(super) struct LogQuery {
    path: Option<String>,
    before: Option<u64>,
    /// A day.
    since: Option<String>,
    /// The actor of the changes.
    #[serde(default)]
    actor: String,
    /// The command of the changes.
    #[serde(default)]
    command: String,
    /// Text in contents or names.
    #[serde(default)]
    text: String,
    /// Shows deletions of files that do not exist now.
    deleted: Option<String>,
    done: Option<String>,
}

/// What to erase from the history: old texts of a file, or of the files of a change.
#[derive(Deserialize)]
pub(super) struct RedactQuery {
    path: Option<String>,
    entry: Option<u64>,
}

#[derive(Template)]
#[template(path = "log.html")]
struct Log {
    frame: Frame,
    changes: Vec<Change>,
    next: Option<u64>,
    /// Whether it is the log of a file.
    is_of_file: bool,
    since: String,
    actor: String,
    command: String,
    text: String,
    is_deleted: bool,
    differences: Differences,
}

impl Log {
    /// The commands to choose from, with their words for people.
    fn commands(&self) -> [(&'static str, &'static str); 11] {
        [
            ("create", "create"),
            ("str_replace", "replace text"),
            ("insert", "insert text"),
            ("edit", "edit by a person"),
            ("delete", "delete"),
            ("rename", "rename or move"),
            ("undo", "take back"),
            ("restore", "restore"),
            ("redact", "erase"),
            ("take", "take what waited"),
            (Batch::DROP, "drop what waited"),
        ]
    }
}

#[derive(Template)]
#[template(path = "change.html")]
struct Shown {
    frame: Frame,
    change: Change,
    /// Why it cannot be taken back.
    obstacle: &'static str,
    /// The file whose change a person can take back in the editor instead.
    by_hand: Option<String>,
    differences: Differences,
}

/// The files that differ.
#[derive(Default)]
struct Differences {
    /// The change. `None` for several.
    entry: Option<EntryRef>,
    files: Vec<FileDifference>,
    /// The files that are not shown.
    more: usize,
    /// Why differences are not known.
    unknown: Vec<String>,
}

struct FileDifference {
    path: String,
    name: String,
    state: &'static str,
    lines: Vec<Line>,
    /// Whether the file exists now.
    exists: bool,
    /// Whether the file can be restored to its state after the change.
    is_old: bool,
}

#[derive(Template)]
#[template(path = "redact.html")]
struct Redact<'a> {
    frame: Frame,
    query: &'a RedactQuery,
    /// The address of the page before, without the part for the memory.
    back: String,
    problem: &'static str,
    changes: Vec<Change>,
    /// Whether there are others that are not listed.
    has_more: bool,
    remains: &'static str,
}

pub(super) fn history_of(visited: &VisitedMemory) -> Result<History, ApiError> {
    visited.visit.memory.history().ok_or_else(|| ApiError::not_found("the memory has no history"))
}

/// A text that differs after each change. It is empty without a history, or if that is not known.
pub(super) async fn state(visited: &VisitedMemory) -> String {
    let Some(history) = visited.visit.memory.history() else { return String::new() };
    let newest = history.newest().await.map_err(ApiError::from).ok().filter(|newest| *newest > 0);
    newest.map(|number| number.to_string()).unwrap_or_default()
}

/// The newest entries, and the number before which there are more.
pub(super) async fn recent(
    visited: &VisitedMemory,
    filter: LogFilter,
    limit: usize,
) -> Result<(Vec<Change>, Option<u64>), ApiError> {
    let Some(history) = visited.visit.memory.history() else { return Ok((Vec::new(), None)) };
    let mut entries = history.entries(&filter.limit(limit + 1)).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| has_more).map(|entry| entry.number);
    let mut changes: Vec<_> = entries.iter().map(Change::of).collect();
    for index in 1..changes.len() {
        changes[index].begins_day = changes[index].time.day != changes[index - 1].time.day;
    }
    let mut newest = 0;
    for run in entries.chunk_by(is_of_one_run) {
        let since = run[0].time.duration_since(run[run.len() - 1].time).unwrap_or_default();
        changes[newest].run = (run.len() > 1).then_some((run.len(), since.as_secs().div_ceil(60)));
        newest += run.len();
    }
    Ok((changes, next))
}

/// Whether the same actor made both changes without a long pause.
fn is_of_one_run(newer: &Entry, older: &Entry) -> bool {
    let pause = newer.time.duration_since(older.time).unwrap_or_default();
    newer.actor == older.actor && pause < PAUSE_BETWEEN_RUNS
}

/// The number, the time and the actor of the change that wrote a line. `None` if it is not known.
pub(super) type Writer = Option<(u64, Time, String)>;

/// The change that wrote each line of a file. `None` for a line by the same change as the one before it.
pub(super) async fn writers(
    visited: &VisitedMemory,
    path: &MemoryPath,
    text: &str,
) -> Result<Vec<Option<Writer>>, ApiError> {
    let mut last = None;
    let writer = |entry: Option<Arc<Entry>>| {
        let number = entry.as_ref().map(|entry| entry.number);
        let is_same = last.replace(number) == Some(number);
        (!is_same).then(|| entry.map(|entry| (entry.number, Time::of(entry.time), writer_of(&entry))))
    };
    Ok(history_of(visited)?.blame(&StorePath::from(path), text).await?.into_iter().map(writer).collect())
}

fn actor_of(entry: &Entry) -> String {
    visible(entry.actor.as_deref().unwrap_or("unknown"))
}

/// The authors, or else the actor.
fn writer_of(entry: &Entry) -> String {
    if entry.authors.is_empty() { actor_of(entry) } else { visible(&entry.authors.join(", ")) }
}

/// The last change of a file.
pub(super) async fn last_change(visited: &VisitedMemory, path: &MemoryPath) -> Result<Option<Change>, ApiError> {
    Ok(recent(visited, LogFilter::new().path(path.into()), 1).await?.0.pop())
}

impl Change {
    /// Some of the changes of an entry, by their indexes.
    fn of_parts(mut entry: Entry, indexes: &[usize]) -> Self {
        entry.changes = indexes.iter().filter_map(|index| entry.changes.get(*index).cloned()).collect();
        let parts = indexes.iter().map(|index| format!("_{index}")).collect();
        Self { parts, is_erasable: true, ..Self::of(&entry) }
    }

    fn of(entry: &Entry) -> Self {
        const LISTED: usize = 5;
        let numbers =
            |numbers: &[u64]| numbers.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(", ");
        let cause = match &entry.origin {
            Origin::Undo(undone) | Origin::Revert(undone) => format!("took back {}", numbers(undone)),
            Origin::Redo(undo) => format!("repeated what #{undo} took back"),
            Origin::Restore(number) => format!("restored the state after #{number}"),
            Origin::Redaction(redacted) if redacted.is_empty() => "erased a text".to_owned(),
            Origin::Redaction(redacted) => format!("erased {} from the history", numbers(redacted)),
            _ if entry.is_redacted && entry.changes.is_empty() => "(this change was erased)".to_owned(),
            _ if entry.is_redacted => "(a part of this change was erased)".to_owned(),
            _ if entry.command.as_deref() == Some(Batch::DROP) => "dropped changes that waited".to_owned(),
            _ => String::new(),
        };
        let is_reversal = matches!(entry.origin, Origin::Undo(_) | Origin::Revert(_));
        let has_nothing = |change: &FileChange| change.path().is_none() && change.before().is_none();
        let is_erasable = !entry.changes.iter().all(has_nothing);
        let name = |path: &StorePath| visible(short(path.as_str()));
        let take_back = (is_erasable && !entry.is_redacted).then(|| match entry.changes.as_slice() {
            _ if is_reversal => "Make the change again".to_owned(),
            [FileChange::Write { path, before: None, .. }] => format!("Take back: delete {}", name_of(path.as_str())),
            [FileChange::Write { path, .. }] => format!("Take back: the old text of {}", name_of(path.as_str())),
            [FileChange::Remove { path, .. }] => format!("Take back: restore {}", name_of(path.as_str())),
            [FileChange::Rename { from, .. }] => format!("Take back: rename to {}", name(from)),
            _ => "Take back all of it".to_owned(),
        });
        Self {
            number: entry.number,
            name: EntryRef::from(entry),
            parts: String::new(),
            time: Time::of(entry.time),
            begins_day: true,
            actor: actor_of(entry),
            by: entry.actor.clone().unwrap_or_default(),
            cause,
            authors: visible(&entry.authors.join(", ")),
            reason: visible(entry.reason.as_deref().unwrap_or_default()),
            run: None,
            files: entry.changes.iter().take(LISTED).map(|change| change.in_words(name)).collect(),
            more: entry.changes.len().saturating_sub(LISTED),
            take_back,
            is_reversal,
            is_erasable,
        }
    }
}

impl Differences {
    async fn of(
        visited: &VisitedMemory,
        history::Differences { files: differences, unknown, more, .. }: history::Differences,
    ) -> Result<Self, ApiError> {
        let not_known = |path: &StorePath| {
            format!("The texts of {} are not known: they were not kept, or were erased.", visible(path.as_str()))
        };
        let unknown = unknown.iter().map(not_known).collect();
        let mut presents = Vec::new();
        for file in &differences {
            let present = visited.visit.memory.store().read_opts(&file.path, Default::default()).await?;
            presents.push(present.into_file().map(|file| file.content));
        }
        let shown = move || {
            let mut differ = Differ::new();
            let files = differences.into_iter().zip(presents);
            files.map(|(file, now)| difference(&mut differ, file, &now)).collect()
        };
        let files = tokio::task::spawn_blocking(shown).await.map_err(ApiError::internal)?;
        Ok(Self { entry: None, files, more, unknown })
    }
}

fn difference(differ: &mut Differ, file: FileDiff, now: &Option<Vec<u8>>) -> FileDifference {
    let state = match (&file.before, &file.after) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    };
    let (exists, is_old) = (now.is_some(), file.after.is_some() && file.after != *now);
    let text = |content: Option<Vec<u8>>| String::from_utf8(content.unwrap_or_default()).ok();
    let lines = match (text(file.before), text(file.after)) {
        (Some(before), Some(after)) => differ.lines(&before, &after),
        _ => Vec::new(),
    };
    let name = visible(short(file.path.as_str()));
    FileDifference { name, path: file.path.to_string(), state, lines, exists, is_old }
}

/// A field of a form, unless it is empty.
fn filled(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty())
}

/// The log of a memory, a directory or a file, and the differences since a day.
pub(super) async fn log(visited: VisitedMemory, Query(query): Query<LogQuery>) -> Page {
    let (path, state) = (path(query.path.as_deref())?, state(&visited).await);
    let filter = query.before.into_iter().fold(LogFilter::new(), LogFilter::before);
    let filter = if path.is_root() { filter } else { filter.path(StorePath::from(&path)) };
    let filter = filled(&query.actor).into_iter().fold(filter, LogFilter::actor);
    let filter = filled(&query.command).into_iter().fold(filter, LogFilter::command);
    let filter = filled(&query.text).into_iter().fold(filter, LogFilter::text);
    let is_deleted = query.deleted.is_some();
    let mut filter = if is_deleted { filter.deleted() } else { filter };
    let since = query.since.filter(|since| !since.is_empty()).unwrap_or_default();
    let mut differences = Differences::default();
    if let Some(history) = visited.visit.memory.history().filter(|_| !since.is_empty()) {
        let start = humantime::parse_rfc3339(&format!("{since}T00:00:00Z"));
        let start: SystemTime = start.map_err(|_| ApiError::invalid("the day is not valid"))?;
        filter = filter.since(start);
        let (from, to) = (history.newest_at(start).await?, history.newest().await?);
        differences = match history.diff(from, to, &StorePath::from(&path), FILES).await {
            Ok(found) => Differences::of(&visited, found).await?,
            Err(error @ HistoryError::Store(_)) => return Err(error.into()),
            Err(error) => Differences { unknown: vec![sentence(&error.to_string())], ..Differences::default() },
        };
    }
    let (changes, next) = recent(&visited, filter, ENTRIES).await?;
    let title = if path.is_root() { "History".to_owned() } else { format!("History of {}", name_of(path.as_str())) };
    let frame = Frame::of(&visited, title).at(&path).done(query.done.as_deref());
    let frame = Frame { takes_back_in_lists: is_deleted, state, ..frame };
    let is_of_file = !matches!(visited.visit.memory.read(&path).await?, Node::Directory(_));
    let LogQuery { actor, command, text, .. } = query;
    render(&Log { frame, changes, next, is_of_file, since, actor, command, text, is_deleted, differences })
}

#[derive(Deserialize)]
pub(super) struct CompareQuery {
    path: Option<String>,
    from: u64,
    to: u64,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Compared {
    frame: Frame,
    from: u64,
    to: u64,
    differences: Differences,
}

/// The differences of a file or directory between the states after two changes.
pub(super) async fn compare(visited: VisitedMemory, Query(query): Query<CompareQuery>) -> Page {
    let path = path(query.path.as_deref())?;
    let (from, to) = (query.from.min(query.to), query.from.max(query.to));
    let found = history_of(&visited)?.diff(from, to, &StorePath::from(&path), FILES).await?;
    let differences = Differences::of(&visited, found).await?;
    let frame = Frame::of(&visited, format!("Versions of {}", name_of(path.as_str()))).at(&path);
    render(&Compared { frame, from, to, differences })
}

/// The texts of a file before and after a change of it.
pub(super) async fn texts_of(
    visited: &VisitedMemory,
    entry: EntryRef,
    path: &MemoryPath,
) -> Result<(String, String), ApiError> {
    let history = history_of(visited)?;
    if Some(history.entry(entry.number).await?.id) != entry.id {
        return Err(HistoryError::OtherEntry { number: entry.number }.into());
    }
    let found = history.entry_diff(entry.number, FILES).await?;
    let file = found.files.into_iter().find(|file| file.path.as_str() == path.as_str());
    let texts =
        file.and_then(|file| Some((String::from_utf8(file.before?).ok()?, String::from_utf8(file.after?).ok()?)));
    texts.ok_or_else(|| ApiError::not_found("the change did not replace text of this file"))
}

/// A change, with its differences.
pub(super) async fn show(
    visited: VisitedMemory,
    Path((_, number)): Path<(String, u64)>,
    Query(query): Query<LogQuery>,
) -> Page {
    let history = history_of(&visited)?;
    let mut change = Change::of(&history.entry(number).await?);
    let found = history.entry_diff(number, FILES).await?;
    let differences = Differences::of(&visited, found).await?;
    let differences = Differences { entry: Some(change.name), ..differences };
    let frame = Frame::of(&visited, format!("Change #{number}")).done(query.done.as_deref());
    // Plans for many files take long.
    let is_small = differences.more == 0 && frame.can_write && change.take_back.is_some();
    let possible = if is_small { history.check_revert([change.name]).await } else { Ok(()) };
    let obstacle = match possible {
        Ok(()) => "",
        Err(HistoryError::Store(error)) => return Err(error.into()),
        Err(HistoryError::Changed { .. }) => CHANGED,
        Err(_) => "its old texts are not kept.",
    };
    change.take_back = change.take_back.filter(|_| obstacle.is_empty());
    let is_edit = |file: &FileDifference| file.state == "changed" && file.exists && !file.lines.is_empty();
    let by_hand = match differences.files.as_slice() {
        [file] if obstacle == CHANGED && is_edit(file) => Some(file.path.clone()),
        _ => None,
    };
    render(&Shown { frame, change, obstacle, by_hand, differences })
}

fn entry(form: &mut Draft) -> Result<EntryRef, ApiError> {
    form.take("entry").parse().map_err(|_| ApiError::invalid("the form names no change"))
}

pub(super) async fn undo(ToChange(visited): ToChange, Posted(mut form): Posted) -> Page {
    let visited = visited.because(&mut form);
    let undone = history_of(&visited)?.revert([entry(&mut form)?]).await?;
    Ok(visited.to_change(undone.entry.number, "taken-back"))
}

pub(super) async fn restore(ToChange(visited): ToChange, Posted(mut form): Posted) -> Page {
    let path: MemoryPath = path(Some(&form.take("path")))?;
    let visited = visited.because(&mut form);
    let restored = history_of(&visited)?.restore(&StorePath::from(&path), entry(&mut form)?).await?;
    Ok(visited.to_change(restored.entry.number, "restored"))
}

/// Lists the changes whose parts can have the same texts: those of a file, or of all files of a change.
async fn asking(visited: &VisitedMemory, query: &RedactQuery, problem: &'static str) -> Page {
    let history = history_of(visited)?;
    let (mut changes, title, back) = match (&query.path, query.entry) {
        (Some(given), _) => {
            let path = path(Some(given))?;
            let of_file = history.changes_of(&StorePath::from(&path)).await?;
            let changes: Vec<_> =
                of_file.into_iter().map(|(entry, indexes)| Change::of_parts(entry, &indexes)).collect();
            (
                changes,
                format!("Erase the old texts of {}", name_of(path.as_str())),
                format!("log?path={}", encode(given)),
            )
        }
        (None, Some(number)) => {
            let changes: Vec<_> = history.related(number).await?.iter().map(Change::of).collect();
            (changes, format!("Erase change #{number} from the history"), format!("change/{number}"))
        }
        (None, None) => return Err(ApiError::invalid("the address names no change")),
    };
    changes.retain(|change| change.is_erasable);
    // The oldest come first: a file is found by its last names.
    let has_more = changes.len() > MAX_ERASED;
    changes.drain(..changes.len().saturating_sub(MAX_ERASED));
    let remains = visited.visit.memory.backend().remains_of_removed();
    let frame = Frame::of(visited, title);
    render(&Redact { frame, query, back, problem, changes, has_more, remains })
}

pub(super) async fn confirm(ToChange(visited): ToChange, Query(query): Query<RedactQuery>) -> Page {
    asking(&visited, &query, "").await
}

/// A ticked entry, or some of its changes.
struct Ticked(EntryRef, Vec<usize>);

impl FromStr for Ticked {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let (entry, parts) = name.split_once('_').map_or((name, None), |(entry, parts)| (entry, Some(parts)));
        let indexes = parts.map(|parts| parts.split('_').map(str::parse).collect::<Result<_, _>>());
        Ok(Self(entry.parse().map_err(drop)?, indexes.transpose().map_err(drop)?.unwrap_or_default()))
    }
}

pub(super) async fn redact(ToChange(visited): ToChange, Posted(mut form): Posted) -> Page {
    let ticked: Vec<Ticked> = form.ticked("entry-");
    let path_of_file = Some(form.take("path")).filter(|path| !path.is_empty());
    let query = RedactQuery { path: path_of_file, entry: form.take("entry").parse().ok() };
    if ticked.is_empty() {
        return asking(&visited, &query, "Tick at least one change.").await;
    }
    let history = history_of(&visited)?;
    let single = ticked.iter().flat_map(|Ticked(entry, indexes)| indexes.iter().map(|index| (*entry, *index)));
    let single: Vec<_> = single.collect();
    let entry = if single.is_empty() {
        history.redact(ticked.into_iter().map(|Ticked(entry, _)| entry)).await?
    } else {
        history.redact_changes(&single).await?
    };
    Ok(visited.to_change(entry.number, "redacted"))
}
