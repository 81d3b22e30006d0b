//! Loss of power: a program flushes its changes to the disk before it responds.
//!
//! The system calls of the program are recorded. The file with the new bytes must be flushed between the write and
//! the response, and each directory must be flushed in which a name changed. A log that is flushed also counts, because
//! it holds everything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{entries_under, on_disk};
use crate::disk_event::Event;
use crate::failure::{CaseError, Failure, excerpt};
use crate::sandbox::{Sandbox, Trace};
use crate::session::{create, delete, insert, rename, str_replace};
use crate::target::Target;

/// A text in the new contents, by which they are recognized in the calls.
const MARK: &str = "text-that-must-reach-the-disk";
/// The name of the file that is created, renamed or deleted.
const NAME: &str = "name-that-must-reach-the-disk";

cases! {
    create = |target| created(&target);
    edit = |target| edited(&target);
    rename = |target| renamed(&target);
    delete = |target| deleted(&target);
}

async fn created(target: &Target) -> Result<(), CaseError> {
    let before = [create("/memories/d/other.txt", "text")];
    let [there, new] = [format!("/memories/d/{NAME}"), format!("/memories/new/directory/{NAME}")];
    // Written in several parts, or in one that is long.
    let long = format!("{}{MARK}", "x".repeat(300_000));
    for (path, text) in [(&there, MARK), (&new, MARK), (&there, &long)] {
        expect_flushed(target, &before, create(path, text), MARK).await?;
        target.client().delete(path).await?.text(false)?;
        target.client().delete("/memories/d").await?.text(false)?;
    }
    Ok(())
}

async fn edited(target: &Target) -> Result<(), CaseError> {
    let path = format!("/memories/d/{NAME}");
    for edit in [insert(&path, 0, MARK), str_replace(&path, "text", MARK)] {
        expect_flushed(target, &[create(&path, "text\n")], edit, MARK).await?;
        target.client().delete(&path).await?.text(false)?;
    }
    Ok(())
}

async fn renamed(target: &Target) -> Result<(), CaseError> {
    let [there, new] = [format!("/memories/e/{NAME}"), format!("/memories/new/{NAME}")];
    // The old directory goes with its last file, or stays.
    for (to, neighbor) in [(&there, "/memories/e/2.txt"), (&new, "/memories/e/2.txt"), (&there, "/memories/d/2.txt")] {
        let others = [create("/memories/e/other.txt", "text"), create(neighbor, "text")];
        let before = [&[create("/memories/d/old.txt", "text")][..], &others].concat();
        expect_flushed(target, &before, rename("/memories/d/old.txt", to), NAME).await?;
        target.client().delete(to).await?.text(false)?;
        target.client().delete("/memories/e").await?.text(false)?;
        target.client().delete_if_any("/memories/d").await?;
    }
    Ok(())
}

async fn deleted(target: &Target) -> Result<(), CaseError> {
    let path = format!("/memories/d/{NAME}");
    let before = [create(&path, "text"), create("/memories/d/other.txt", "text")];
    expect_flushed(target, &before, delete(&path), NAME).await?;
    let directory = format!("/memories/d/e/{NAME}");
    let before = [create(format!("{directory}/a.txt"), "text"), create("/memories/d/e/other.txt", "text")];
    expect_flushed(target, &before, delete(&directory), NAME).await
}

/// Runs the command in a separate program, after others, and checks that its effect was flushed before the response.
async fn expect_flushed(target: &Target, before: &[Value], command: Value, mark: &str) -> Result<(), CaseError> {
    let traces = on_disk("make a directory", TempDir::new).await?;
    let trace = Trace(traces.path().join("trace"));
    let client = target.process_client_under(&Sandbox::Recorded(trace.clone())).await?;
    for command in before {
        client.send(command.clone()).await?.text(false)?;
    }
    let directory = target.directory()?;
    let found = on_disk("read the stored files", move || {
        let directory = directory.canonicalize()?;
        Ok((entries_under(&directory)?, directory))
    });
    let (existing, directory) = found.await?;
    let existing: BTreeSet<_> = existing.into_iter().map(|(path, _)| path).collect();
    client.send(command.clone()).await?.text(false)?;
    client.kill().await?;
    let output = client.session.output().unwrap_or_default().to_owned();
    let events = on_disk("read a trace", move || trace.events(&output)).await?;
    let mut of_each = events.split(|event| *event == Event::Response);
    let Some(events) = of_each.nth(before.len()).map(<[Event]>::to_vec) else {
        let reason = "the recorded calls do not show when the program responds".to_owned();
        return Err(CaseError::NotTested { reason });
    };
    if let Some(Event::Unclear { call }) = events.iter().find(|event| matches!(event, Event::Unclear { .. })) {
        let reason = format!("the recorded calls do not show which file a call of {call} concerns");
        return Err(CaseError::NotTested { reason });
    }
    let recording = Recording { events, existing, directory };
    recording.judge(mark).map_err(|stop| stop.in_step(excerpt(&command.to_string(), 0)))
}

/// The calls of a program during a command.
struct Recording {
    events: Vec<Event>,
    /// The files and directories before the command.
    existing: BTreeSet<PathBuf>,
    directory: PathBuf,
}

impl Recording {
    /// Checks that a write with the mark is durable, or the changes of the name that the mark is.
    fn judge(&self, mark: &str) -> Result<(), CaseError> {
        let marked: Vec<_> = self.writes(|data| data.contains(mark)).collect();
        if marked.iter().any(|&write| self.is_durable_write(write)) {
            return Ok(());
        }
        let named: Vec<_> = (0..self.events.len()).filter(|&event| self.changes_name(event, mark)).collect();
        if named.iter().any(|&event| !self.are_directories_flushed(event)) {
            let problem = "the program responded before it flushed the directory in which a name changed";
            return Err(Failure::new(problem).into());
        }
        if !named.is_empty() && mark == NAME {
            return Ok(());
        }
        let is_hidden = marked.is_empty(); // encrypted or compressed, or changed in memory that is mapped to a file
        if is_hidden && self.writes(|_| true).any(|write| self.is_durable_write(write)) {
            return Ok(());
        }
        if is_hidden && self.writes(|_| true).next().is_none() && self.events.contains(&Event::FlushAll) {
            return Ok(());
        }
        let problem = if is_hidden && self.writes(|_| true).next().is_none() {
            "the program responded without writing anything to the disk".to_owned()
        } else {
            format!("the program responded before it flushed {}", self.written(&marked))
        };
        Err(Failure::new(problem).into())
    }

    /// The names of the written files.
    fn written(&self, marked: &[usize]) -> String {
        let path = |&write: &usize| match &self.events[write] {
            Event::Write { path, .. } => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        };
        let names: BTreeSet<_> = marked.iter().filter_map(path).collect();
        if names.is_empty() { "what it wrote".to_owned() } else { format!("{names:?} and its directory") }
    }

    /// The writes to the directory with such data.
    fn writes(&self, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = usize> {
        self.events.iter().enumerate().filter_map(move |(number, event)| match event {
            Event::Write { path, data, .. } if path.starts_with(&self.directory) && is_meant(data) => Some(number),
            _ => None,
        })
    }

    /// Whether an event creates, moves or removes a file with this name.
    fn changes_name(&self, event: usize, name: &str) -> bool {
        let is_meant = |path: &Path| path.starts_with(&self.directory) && path.file_name() == Some(name.as_ref());
        match &self.events[event] {
            Event::Rename { from, to } => is_meant(from) || is_meant(to),
            Event::Unlink { path } => is_meant(path),
            _ => false,
        }
    }

    /// Whether the written file is flushed after the write, and found under its name.
    fn is_durable_write(&self, write: usize) -> bool {
        let Event::Write { path, is_synchronous, .. } = &self.events[write] else { return false };
        let (mut is_flushed, mut named) = (*is_synchronous, None);
        // Its names, and the names under which it may be open.
        let (mut names, mut open) = (BTreeSet::from([path.clone()]), BTreeSet::from([path.clone()]));
        // It may have got its name before.
        if !self.existing.contains(path) {
            named = (0..write).rev().find(|&event| match &self.events[event] {
                Event::Create { path: made } | Event::Rename { to: made, .. } => made == path,
                _ => false,
            });
        }
        for (number, event) in self.events.iter().enumerate().skip(write + 1) {
            match event {
                Event::Flush { path: flushed } => is_flushed |= open.contains(flushed),
                Event::FlushAll => is_flushed = true,
                Event::Rename { from, to } => {
                    let moved = |name: &PathBuf| Some(to.join(name.strip_prefix(from).ok()?));
                    let renamed: BTreeSet<_> = names.iter().filter_map(moved).collect();
                    if !renamed.is_empty() {
                        names.retain(|name| !name.starts_with(from));
                        open.extend(renamed.iter().cloned());
                        names.extend(renamed);
                        named = Some(number);
                    }
                }
                Event::Link { from, to } if open.contains(from) => {
                    names.insert(to.clone());
                    open.insert(to.clone());
                    named = Some(number);
                }
                Event::Unlink { path: removed } => {
                    names.remove(removed);
                    if names.is_empty() {
                        return false;
                    }
                }
                _ => {}
            }
        }
        is_flushed && named.is_none_or(|event| self.are_directories_flushed(event))
    }

    /// Whether each directory in which this event changed a name is flushed after it, and those above if they are new.
    fn are_directories_flushed(&self, event: usize) -> bool {
        let paths: Vec<&PathBuf> = match &self.events[event] {
            Event::Create { path } | Event::Unlink { path } => vec![path],
            Event::Link { to, .. } => vec![to],
            // The old name may come back if it existed before. The new one does not matter if it does not last.
            Event::Rename { from, to } => {
                let is_removed = self.events.contains(&Event::Unlink { path: to.clone() });
                [(from, self.existing.contains(from)), (to, !is_removed)]
                    .into_iter()
                    .filter_map(|(path, matters)| matters.then_some(path))
                    .collect()
            }
            _ => vec![],
        };
        let is_flushed = |directory: &Path, since: usize| {
            self.events.iter().skip(since + 1).any(|later| match later {
                Event::Flush { path } => path == directory,
                Event::FlushAll => true,
                // A directory that is removed needs no flush.
                Event::Unlink { path } => path == directory,
                _ => false,
            })
        };
        paths.into_iter().all(|path| {
            let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&self.directory));
            let mut since = event;
            for directory in above {
                if !is_flushed(directory, since) {
                    return false;
                }
                // If it is new, its own name must be durable as well.
                let made = self.events.iter().position(|made| *made == Event::Mkdir { path: directory.to_owned() });
                let Some(made) = made.filter(|_| !self.existing.contains(directory)) else { break };
                since = made;
            }
            true
        })
    }
}
