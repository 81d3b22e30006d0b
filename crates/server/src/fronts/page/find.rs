//! Search in a memory, or in all memories of a visitor, as `memory-tool search` does it.

use std::ops::Range;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use memory_tool::search::{Search, SearchError, SearchReport};
use serde::Deserialize;

use super::look::{LINES, MEMORIES, readable};
use super::text::{sentence, visible};
use super::{App, Frame, Page, VisitedMemory, Visitor, home, render};
use crate::access::Right;
use crate::http::error::ApiError;
use crate::memories::visit::Purpose;

/// The files of a memory in the results of all memories.
const FILES: usize = 20;

/// The time after which the rest of the memories is left to the next page, before proxies give up.
const TIME: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    regex: Option<String>,
    /// The name after which the search of all memories starts.
    after: Option<String>,
}

#[derive(Default, Template)]
#[template(path = "search.html")]
struct Results {
    frame: Frame,
    query: String,
    is_regex: bool,
    found: Vec<Found>,
    /// The pages and names of memories with more files, and their number.
    more: Vec<(String, String, usize)>,
    /// The name after which other memories are searched.
    next: Option<String>,
    notes: Vec<String>,
    problem: String,
}

struct Found {
    /// The page of the memory.
    home: String,
    /// The name of the memory, among results of several.
    memory: String,
    path: String,
    name: Vec<(bool, String)>,
    lines: Vec<(usize, Vec<(bool, String)>)>,
}

impl SearchQuery {
    fn search(&self) -> Search {
        let search = Search::new(&self.q);
        if self.regex.is_some() { search.regex() } else { search }
    }

    fn results(self, frame: Frame) -> Results {
        Results { frame, is_regex: self.regex.is_some(), query: self.q, ..Results::default() }
    }
}

impl Results {
    fn add(&mut self, (home, memory): (&str, &str), report: &SearchReport, limit: usize) {
        let of_memory = if memory.is_empty() { String::new() } else { format!("{memory}: ") };
        self.notes.extend(report.notes().iter().map(|note| format!("{of_memory}{note}")));
        self.found.extend(report.results.iter().take(limit).map(|found| Found {
            home: home.to_owned(),
            memory: memory.to_owned(),
            path: found.path.to_string(),
            name: parts(found.path.as_str(), &found.name_matches),
            lines: found.lines.iter().map(|line| (line.number, parts(&line.text, &line.matches))).collect(),
        }));
        let more = report.results.len().saturating_sub(limit);
        self.more.extend((more > 0).then(|| (home.to_owned(), memory.to_owned(), more)));
    }
}

/// Splits a line at its matches.
fn parts(text: &str, matches: &[Range<usize>]) -> Vec<(bool, String)> {
    let mut parts = Vec::new();
    let mut end = 0;
    for range in matches {
        parts.push((false, visible(&text[end..range.start])));
        parts.push((true, visible(&text[range.clone()])));
        end = range.end;
    }
    parts.push((false, visible(&text[end..])));
    parts
}

pub(super) async fn search(visited: VisitedMemory, Query(query): Query<SearchQuery>) -> Page {
    let search = query.search();
    let mut results = query.results(Frame::of(&visited, "Search"));
    if !results.query.is_empty() {
        match visited.whole()?.search(&search).await {
            Ok(report) => results.add((&home(visited.visit.name()), ""), &report, usize::MAX),
            Err(SearchError::Store(error)) => return Err(error.into()),
            Err(error) => results.problem = sentence(&error.to_string()),
        }
    }
    render(&results)
}

/// Searches the memories that the visitor may read, some at a time.
pub(super) async fn search_all(
    State(app): App,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<SearchQuery>,
) -> Page {
    let search = query.search();
    let mut names = readable(&app, &visitor, query.after.as_deref()).await?.into_iter().peekable();
    let mut results = query.results(Frame::new(&visitor, "Search"));
    let (started, mut searched, mut failed) = (Instant::now(), 0, 0_u64);
    while let Some(name) = names.next() {
        if results.query.is_empty() || !results.problem.is_empty() {
            break;
        }
        match VisitedMemory::enter(&app, &visitor, name.as_str(), Right::Read, Purpose::Look).await {
            Err(error) if error.status() == StatusCode::NOT_FOUND => continue, // deleted
            Err(_) => failed += 1,
            Ok(visited) => match visited.visit.own()?.search(&search).await {
                Ok(report) => results.add((&home(name.as_str()), &visible(name.as_str())), &report, FILES),
                Err(SearchError::Store(error)) => {
                    drop(ApiError::from(error)); // the log has the reason
                    failed += 1;
                }
                Err(error) => results.problem = sentence(&error.to_string()),
            },
        }
        searched += 1;
        if searched == MEMORIES || started.elapsed() >= TIME {
            results.next = names.peek().is_some().then(|| name.to_string());
            break;
        }
    }
    if failed > 0 {
        results.notes.push(format!("Memories not searched: {failed}. The log of the server has the reason."));
    }
    render(&results)
}
