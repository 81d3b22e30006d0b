//! The erasure of given text from the files and from the history.

use askama::Template;
use memory_tool::history::{HistoryError, TextRedaction};
use memory_tool::proposals::ProposalName;
use memory_tool::store::StorePath;

use super::text::{sentence, visible};
use super::{Frame, Page, Posted, ToChange, VisitedMemory, home, past, proposals, render, short};

#[derive(Default, Template)]
#[template(path = "erase.html")]
struct Erase {
    frame: Frame,
    text: String,
    /// The text with visible characters.
    shown: String,
    problem: String,
    /// The places of the text, once they are known.
    found: Option<Found>,
    remains: &'static str,
    /// The pages and names of the shared memories in this one, which an erasure leaves out.
    shared: Vec<(String, String)>,
}

struct Found {
    /// Paths, names and numbers of places.
    files: Vec<(String, String, String)>,
    /// In how many changes it is.
    earlier: String,
    names: Vec<(String, String)>,
    unreadable: Vec<String>,
    /// The files of proposals that contain it: their proposals and names.
    waiting: Vec<(String, String)>,
    /// Whether there is something to erase.
    is_erasable: bool,
    summary: String,
}

impl Found {
    fn of(found: &TextRedaction, waiting: &[(ProposalName, StorePath)]) -> Self {
        let name = |path: &StorePath| visible(short(path.as_str()));
        let places: usize = found.files.iter().map(|(_, places)| places).sum();
        let (files, changes) = (count(found.files.len(), "file"), count(found.entries.len(), "change"));
        let of_file = |(path, places): &(StorePath, usize)| (path.to_string(), name(path), count(*places, "place"));
        let earlier = if found.entries.is_empty() {
            String::new()
        } else {
            format!("It is in the earlier texts or names of {changes} of the history.")
        };
        Self {
            files: found.files.iter().map(of_file).collect(),
            earlier,
            names: found.names.iter().map(|path| (path.to_string(), name(path))).collect(),
            unreadable: found.unreadable.iter().map(name).collect(),
            waiting: waiting.iter().map(|(proposal, path)| (proposal.to_string(), name(path))).collect(),
            is_erasable: !found.is_empty(),
            summary: format!("{} in {files}, and {changes} of the history", count(places, "place")),
        }
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn shared(visited: &VisitedMemory) -> Vec<(String, String)> {
    let memories = visited.door.tree().mounts().iter().map(|mount| mount.memory.as_str());
    memories.map(|memory| (home(memory), visible(memory))).collect()
}

/// Asks for the text.
pub(super) async fn form(ToChange(visited): ToChange) -> Page {
    render(&Erase { frame: Frame::of(&visited, "Erase a text"), shared: shared(&visited), ..Erase::default() })
}

/// Shows where the text is, and erases it if that is confirmed.
pub(super) async fn erase(ToChange(visited): ToChange, Posted(mut form): Posted) -> Page {
    let (text, is_confirmed) = (form.take("text"), !form.take("confirmed").is_empty());
    let history = past::history_of(&visited)?;
    let found = if is_confirmed { history.redact_text(&text).await } else { history.find_text(&text).await };
    let waiting = if text.is_empty() { Vec::new() } else { proposals::of(&visited)?.find_text(&text).await? };
    let (problem, found) = match found {
        Ok(found) if found.is_empty() && waiting.is_empty() => {
            ("The text was not found. Upper and lower case differ.".to_owned(), None)
        }
        Ok(found) if is_confirmed => return Ok(visited.to_erased(found.entry.map(|entry| entry.number))),
        Ok(found) => (String::new(), Some(Found::of(&found, &waiting))),
        Err(error @ HistoryError::InvalidText { .. }) => (sentence(&error.to_string()), None),
        Err(error) => return Err(error.into()),
    };
    let (frame, shown) = (Frame::of(&visited, "Erase a text"), visible(&text));
    let remains = visited.visit.memory.backend().remains_of_removed();
    render(&Erase { frame, text, shown, problem, found, remains, shared: shared(&visited) })
}
