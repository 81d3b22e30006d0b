//! Search, as `memory-tool search` does it.

use std::ops::Range;

use askama::Template;
use axum::extract::Query;
use memory_tool::search::{Search, SearchError};
use serde::Deserialize;

use super::look::LINES;
use super::text::{sentence, visible};
use super::{Frame, Page, VisitedMemory, render};

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    regex: Option<String>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Results {
    frame: Frame,
    query: String,
    is_regex: bool,
    found: Vec<Found>,
    notes: Vec<String>,
    problem: String,
}

struct Found {
    path: String,
    name: Vec<(bool, String)>,
    lines: Vec<(usize, Vec<(bool, String)>)>,
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
    let search = Search::new(&query.q);
    let search = if query.regex.is_some() { search.regex() } else { search };
    let (mut found, mut notes, mut problem) = (Vec::new(), Vec::new(), String::new());
    if !query.q.is_empty() {
        match visited.visit.memory.search(&search).await {
            Ok(report) => {
                notes = report.notes();
                found.extend(report.results.iter().map(|found| Found {
                    path: found.path.to_string(),
                    name: parts(found.path.as_str(), &found.name_matches),
                    lines: found.lines.iter().map(|line| (line.number, parts(&line.text, &line.matches))).collect(),
                }));
            }
            Err(SearchError::Store(error)) => return Err(error.into()),
            Err(error) => problem = sentence(&error.to_string()),
        }
    }
    let frame = Frame::of(&visited, "Search");
    render(&Results { frame, query: query.q, is_regex: query.regex.is_some(), found, notes, problem })
}
