//! The pages of operators: usage, checks, the deletion of a memory, and tokens.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Redirect};
use memory_tool::Actor;
use memory_tool::store::MemoryName;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::text::{Time, size, visible};
use super::{App, Draft, Frame, OUTDATED, Page, PageState, Posted, ToAdministrate, VisitedMemory, Visitor, render};
use crate::access::mounts::Mount;
use crate::access::tokens::{TokenEntry, TokenFile};
use crate::access::{Grant, Right};
use crate::http::error::ApiError;
use crate::memories::visit::Purpose;
use crate::options::ConfigurationError;

const DAY: u64 = 24 * 60 * 60;

/// The names of memories that the form of a new token proposes.
const PROPOSED: usize = 200;

#[derive(Template)]
#[template(path = "limits.html")]
struct Limits {
    frame: Frame,
    /// The names of the limits, the usage, and the limits.
    usage: Vec<(&'static str, String, String)>,
    /// The lines of the report of an action.
    report: Vec<String>,
    expires: bool,
}

#[derive(Template)]
#[template(path = "forget.html")]
struct Forget {
    frame: Frame,
    files: u64,
    size: String,
    remains: &'static str,
    problem: &'static str,
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct Tokens {
    frame: Frame,
    tokens: Vec<Row>,
    new: String,
    wanted: NewToken,
    memories: Vec<MemoryName>,
    problem: &'static str,
}

#[derive(Template)]
#[template(path = "revoke.html")]
struct Revoke {
    frame: Frame,
    token: Row,
}

struct Row {
    id: String,
    actor: String,
    memories: String,
    rights: String,
    end: Option<Time>,
    last_use: Option<Time>,
    /// Whether the visitor signed in with it.
    is_own: bool,
}

/// The fields of the form of a new token.
#[derive(Default)]
struct NewToken {
    actor: String,
    memory: String,
    mount: String,
    is_for_all: bool,
    rights: Vec<Right>,
    days: String,
}

impl NewToken {
    fn has(&self, right: &str) -> bool {
        self.rights.iter().any(|given| given.name() == right)
    }
}

async fn shown(visited: &VisitedMemory, report: Vec<String>) -> Page {
    let (usage, quota) = (visited.visit.memory.usage().await?, visited.visit.open.quota);
    let row = |name, now: u64, limit: Option<u64>, shown: fn(u64) -> String| {
        let used = |limit: u64| format!("{} ({} % used)", shown(limit), now.saturating_mul(100) / limit.max(1));
        (name, shown(now), limit.map_or_else(|| "no limit".to_owned(), used))
    };
    let number = |number: u64| number.to_string();
    let usage = vec![
        row("Files", usage.files, quota.files, number),
        row("Size of all files", usage.bytes, quota.bytes, size),
        row("Levels of directories", usage.depth, quota.depth, number),
    ];
    let title = format!("Limits and checks of {}", visible(visited.visit.name()));
    render(&Limits { frame: Frame::of(visited, title), usage, report, expires: visited.visit.open.expires })
}

pub(super) async fn memory(ToAdministrate(visited): ToAdministrate) -> Page {
    shown(&visited, Vec::new()).await
}

/// Checks the memory, or removes its expired files.
pub(super) async fn act(ToAdministrate(visited): ToAdministrate, Posted(mut form): Posted) -> Page {
    let (summary, lines): (_, Vec<_>) = match form.take("action").as_str() {
        "verify" => {
            check(&visited.visitor)?; // the report is about the whole storage
            let report = visited.visit.memory.verify(|_| ()).await?;
            let summary = format!("Checked {} files: {} problems.", report.files, report.problems.len());
            (summary, report.problems.iter().map(ToString::to_string).collect())
        }
        "expire" => {
            let report = visited.door.enter(Purpose::CHANGE).await?.expire().await?;
            let summary = match report.held {
                0 => format!("Removed {} expired files.", report.removed.len()),
                held => format!(
                    "{held} of {} files have expired. They are hidden, and are removed tomorrow, unless the clock of \
                     the server is wrong and is set back before.",
                    report.kept
                ),
            };
            (summary, report.removed.iter().map(ToString::to_string).collect())
        }
        _ => return Err(ApiError::invalid("the form names no action")),
    };
    let can_read = visited.visitor.caller.has(Right::Read);
    let lines = lines.iter().filter(|_| can_read).take(100).map(|line| visible(line));
    shown(&visited, std::iter::once(summary).chain(lines).collect()).await
}

async fn asking(visited: &VisitedMemory, problem: &'static str) -> Page {
    let (usage, remains) = (visited.visit.memory.usage().await?, visited.visit.memory.backend().remains_of_removed());
    let frame = Frame::of(visited, format!("Delete {}", visible(visited.visit.name())));
    render(&Forget { frame, files: usage.files, size: size(usage.bytes), remains, problem })
}

pub(super) async fn confirm(ToAdministrate(visited): ToAdministrate) -> Page {
    asking(&visited, "").await
}

/// Deletes the memory with its history. A person types its name before.
pub(super) async fn forget(ToAdministrate(visited): ToAdministrate, Posted(mut form): Posted) -> Page {
    let name = visited.visit.name();
    if form.take("name") != name {
        return asking(&visited, "This is not the name of the memory. Nothing was deleted.").await;
    }
    visited.door.enter(Purpose::Remove).await?.memory.forget().await?;
    Ok(Redirect::to("/?done=deleted-for-good").into_response())
}

fn check(visitor: &Visitor) -> Result<(), ApiError> {
    visitor.caller.check(Right::Admin, None)
}

/// Does something with the file of tokens.
async fn in_file<T: Send + 'static>(
    app: &PageState,
    act: impl FnOnce(TokenFile) -> std::io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let file = TokenFile::new(&app.token_file);
    spawn_blocking(move || act(file)).await.map_err(ApiError::internal)?.map_err(ApiError::internal)
}

async fn rows(app: &PageState, visitor: &Visitor) -> Result<Vec<Row>, ApiError> {
    // Another program can have written a time that no clock reaches.
    let time = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).map(Time::of);
    let row = |entry: TokenEntry| Row {
        is_own: entry.id == visitor.token,
        memories: memories(&entry),
        id: entry.id,
        actor: visible(entry.actor.name()),
        rights: entry.rights.iter().map(|right| right.name()).collect::<Vec<_>>().join(", "),
        end: entry.expires.and_then(time),
        last_use: entry.last_use.and_then(time),
    };
    Ok(in_file(app, |file| file.entries()).await?.into_iter().map(row).collect())
}

/// The memories that a token reaches, and its mounts.
fn memories(entry: &TokenEntry) -> String {
    let mounts = entry.mounts.iter().map(|mount| visible(&mount.to_string()));
    entry.memories.iter().map(grant).chain(mounts).collect::<Vec<_>>().join(", ")
}

fn grant(grant: &Grant) -> String {
    match grant {
        Grant::All => "all".to_owned(),
        Grant::Name(name) => visible(name.as_str()),
        Grant::Prefix(prefix) => format!("{}…", visible(prefix)),
    }
}

#[derive(Deserialize)]
pub(super) struct TokenQuery {
    #[serde(default)]
    id: String,
    done: Option<String>,
}

pub(super) async fn tokens(
    State(app): App,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<TokenQuery>,
) -> Page {
    check(&visitor)?;
    let new = NewToken { days: "90".to_owned(), ..NewToken::default() };
    let mut page = Tokens::new(&app, &visitor, new).await?;
    page.frame = page.frame.done(query.done.as_deref());
    render(&page)
}

impl Tokens {
    async fn new(app: &PageState, visitor: &Visitor, wanted: NewToken) -> Result<Self, ApiError> {
        let (tokens, mut memories) = (rows(app, visitor).await?, Vec::new());
        if visitor.caller.has(Right::Read) {
            memories = app.memories.names().await?;
            memories.truncate(PROPOSED);
        }
        Ok(Self { frame: Frame::new(visitor, "Tokens"), tokens, new: String::new(), wanted, memories, problem: "" })
    }
}

pub(super) async fn new_token(State(app): App, Extension(visitor): Extension<Visitor>, mut form: Draft) -> Page {
    check(&visitor)?;
    let wanted = NewToken {
        actor: form.take("actor"),
        memory: form.take("memory"),
        mount: form.take("mount"),
        is_for_all: !form.take("all").is_empty(),
        rights: Right::ALL.into_iter().filter(|right| !form.take(right.name()).is_empty()).collect(),
        days: form.take("days"),
    };
    let entry = if form.is_outdated { Err(OUTDATED) } else { entry(&app, &visitor, &wanted).await? };
    match entry {
        Ok((entry, token)) => {
            in_file(&app, |file| file.add(entry)).await?;
            render(&Tokens { new: token, ..Tokens::new(&app, &visitor, wanted).await? })
        }
        Err(problem) => render(&Tokens { problem, ..Tokens::new(&app, &visitor, wanted).await? }),
    }
}

/// The new token, or the mistake in the form.
async fn entry(
    app: &PageState,
    visitor: &Visitor,
    wanted: &NewToken,
) -> Result<Result<(TokenEntry, String), &'static str>, ApiError> {
    let Ok(actor) = Actor::from_trusted_name(&wanted.actor) else {
        return Ok(Err("The name of the user or agent is not valid."));
    };
    let grant = match (wanted.is_for_all, wanted.memory.parse()) {
        (true, _) if wanted.memory.is_empty() => Grant::All,
        (true, _) => return Ok(Err("Choose one memory or all of them, not both.")),
        (false, Ok(name)) if app.memories.names().await?.contains(&name) => Grant::Name(name),
        (false, _) if wanted.memory.is_empty() => return Ok(Err("Choose a memory, or all of them.")),
        (false, _) => return Ok(Err("There is no memory with this name.")),
    };
    let Ok(mount) = mount(&wanted.mount) else {
        return Ok(Err("The shared memory is not valid. An example: /memories/team=team:read."));
    };
    if wanted.rights.is_empty() {
        return Ok(Err("Choose at least one right."));
    }
    let has = |right: &Right| visitor.caller.has(*right) || *right == Right::Propose && visitor.caller.has(Right::Tool);
    if !wanted.rights.iter().all(has) {
        return Ok(Err("You can only give rights that you have."));
    }
    let Some(days) = wanted.days.parse::<u64>().ok().filter(|days| (1..=3_650).contains(days)) else {
        return Ok(Err("Choose 1 to 3650 days."));
    };
    let generated = TokenEntry::generate(actor, vec![grant], wanted.rights.clone());
    let (mut entry, token) = generated.map_err(ApiError::internal)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    entry.expires = Some(now + days * DAY);
    entry.mounts.extend(mount);
    Ok(Ok((entry, token)))
}

fn mount(given: &str) -> Result<Option<Mount>, ConfigurationError> {
    let given = given.trim();
    if given.is_empty() { Ok(None) } else { given.parse().map(Some) }
}

pub(super) async fn confirm_revocation(
    State(app): App,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<TokenQuery>,
) -> Page {
    check(&visitor)?;
    let token = rows(&app, &visitor).await?.into_iter().find(|row| row.id == query.id);
    let token = token.ok_or_else(|| ApiError::not_found("there is no such token"))?;
    render(&Revoke { frame: Frame::new(&visitor, format!("Revoke the token of {}", token.actor)), token })
}

pub(super) async fn revoke(State(app): App, Extension(visitor): Extension<Visitor>, Posted(mut form): Posted) -> Page {
    check(&visitor)?;
    let id = form.take("id");
    if !in_file(&app, move |file| file.revoke(&id)).await? {
        return Err(ApiError::not_found("there is no such token"));
    }
    Ok(Redirect::to("/tokens?done=revoked").into_response())
}
