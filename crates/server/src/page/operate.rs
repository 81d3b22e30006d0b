//! The pages of operators: usage, checks, and tokens.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use memory_tool::Actor;
use tokio::task::spawn_blocking;

use super::text::{size, time, visible};
use super::{App, Frame, Opened, Page, PageError, Posted, Visitor, render};
use crate::access::{Grant, Right};
use crate::error::ApiError;
use crate::path::Path;
use crate::tokens::{TokenEntry, TokenFile};

const DAY: u64 = 24 * 60 * 60;

#[derive(Template)]
#[template(path = "operate.html")]
struct Memory {
    frame: Frame,
    /// The names of the limits, the usage, and the limits.
    usage: Vec<(&'static str, String, String)>,
    /// The lines of the report of an action.
    report: Vec<String>,
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct Tokens {
    frame: Frame,
    tokens: Vec<Row>,
    new: String,
    problem: &'static str,
}

struct Row {
    id: String,
    actor: String,
    memories: String,
    rights: String,
    end: String,
}

async fn shown(visitor: &Visitor, opened: &Opened, report: Vec<String>) -> Page {
    let (usage, quota) = (opened.memory.usage().await?, opened.open.quota);
    let limit = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let bytes = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), size);
    let usage = vec![
        ("Files", usage.files.to_string(), limit(quota.files)),
        ("Size of all files", size(usage.bytes), bytes(quota.bytes)),
        ("Levels of directories", usage.depth.to_string(), limit(quota.depth)),
    ];
    render(&Memory { frame: Frame::of(visitor, opened, "Operate"), usage, report })
}

async fn find(service: &crate::service::Service, visitor: &Visitor, id: &str) -> Result<Opened, PageError> {
    Opened::find(service, visitor, id, Right::Admin).await
}

pub(super) async fn memory(State(service): App, visitor: Visitor, Path(id): Path<String>) -> Page {
    let opened = find(&service, &visitor, &id).await?;
    shown(&visitor, &opened, Vec::new()).await
}

/// Checks the memory, or removes its expired files.
pub(super) async fn act(State(service): App, visitor: Visitor, Path(id): Path<String>, mut form: Posted) -> Page {
    let opened = find(&service, &visitor, &id).await?;
    let report = match form.take("action").as_str() {
        "verify" => {
            check(&visitor)?; // the report is about the whole storage
            let report = opened.memory.verify(|_| ()).await?;
            let problems = report.problems.iter().map(|problem| visible(&problem.to_string()));
            let summary = format!("Checked {} files: {} problems.", report.files, report.problems.len());
            std::iter::once(summary).chain(problems.take(100)).collect()
        }
        "expire" => {
            crate::api::refuse_archived(&opened.open, None).await?;
            let report = opened.memory.expire().await?;
            let removed = report.removed.iter().take(100).map(|path| visible(path.as_str()));
            std::iter::once(format!("Removed {} expired files.", report.removed.len())).chain(removed).collect()
        }
        _ => return Err(ApiError::invalid("the form names no action").into()),
    };
    shown(&visitor, &opened, report).await
}

fn check(visitor: &Visitor) -> Result<(), PageError> {
    Ok(visitor.caller.check(Right::Admin, None)?)
}

async fn list(service: &crate::service::Service, visitor: &Visitor, new: String, problem: &'static str) -> Page {
    let file = TokenFile::new(&service.token_file);
    let entries = spawn_blocking(move || file.entries()).await.map_err(|_| ApiError::storage())?;
    let entries = entries.map_err(|_| ApiError::storage())?;
    let row = |entry: TokenEntry| Row {
        id: entry.id,
        actor: visible(entry.actor.name()),
        memories: entry.memories.iter().map(grant).collect::<Vec<_>>().join(", "),
        rights: entry.rights.iter().map(|right| right.name()).collect::<Vec<_>>().join(", "),
        end: time(entry.expires.map(|end| SystemTime::UNIX_EPOCH + Duration::from_secs(end))),
    };
    let tokens = entries.into_iter().map(row).collect();
    render(&Tokens { frame: Frame::new(visitor, "Tokens"), tokens, new, problem })
}

fn grant(grant: &Grant) -> String {
    match grant {
        Grant::All => "all".to_owned(),
        Grant::Name(name) => visible(name.as_str()),
        Grant::Prefix(prefix) => format!("{}…", visible(prefix)),
    }
}

pub(super) async fn tokens(State(service): App, visitor: Visitor) -> Page {
    check(&visitor)?;
    list(&service, &visitor, String::new(), "").await
}

pub(super) async fn new_token(State(service): App, visitor: Visitor, mut form: Posted) -> Page {
    check(&visitor)?;
    let (actor, memory, days) = (form.take("actor"), form.take("memory"), form.take("days"));
    let Ok(actor) = Actor::from_trusted_name(&actor) else {
        return list(&service, &visitor, String::new(), "The name of the user or agent is not valid.").await;
    };
    let grants = match (memory.as_str(), memory.parse()) {
        ("", _) => vec![Grant::All],
        (_, Ok(name)) => vec![Grant::Name(name)],
        _ => return list(&service, &visitor, String::new(), "The name of the memory is not valid.").await,
    };
    let rights: Vec<_> = Right::ALL.into_iter().filter(|right| !form.take(right.name()).is_empty()).collect();
    if rights.iter().any(|right| !visitor.caller.has(*right)) {
        return list(&service, &visitor, String::new(), "You can only give rights that you have.").await;
    }
    let Some(days) = days.parse::<u64>().ok().filter(|days| (1..=3_650).contains(days) && !rights.is_empty()) else {
        return list(&service, &visitor, String::new(), "Choose a right, and 1 to 3650 days.").await;
    };
    let (mut entry, token) = TokenEntry::generate(actor, grants, rights).map_err(|_| ApiError::storage())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    entry.expires = Some(now + days * DAY);
    let file = TokenFile::new(&service.token_file);
    let added = spawn_blocking(move || file.add(entry)).await.map_err(|_| ApiError::storage())?;
    added.map_err(|_| ApiError::storage())?;
    list(&service, &visitor, token, "").await
}

pub(super) async fn revoke(State(service): App, visitor: Visitor, mut form: Posted) -> Page {
    check(&visitor)?;
    let (file, id) = (TokenFile::new(&service.token_file), form.take("id"));
    let revoked = spawn_blocking(move || file.revoke(&id)).await.map_err(|_| ApiError::storage())?;
    revoked.map_err(|_| ApiError::storage())?;
    Ok(Redirect::to("/tokens").into_response())
}
