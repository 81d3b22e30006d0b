//! [`Interruption`]: a command during which the program is killed or its disk fails.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::disk::on_disk;
use crate::failure::{CaseError, Failure, excerpt};
use crate::sandbox::{Call, Sandbox, Trace};
use crate::session::{Client, create, delete, insert, rename, view, view_range};
use crate::store_call::{BatchChange, StoreCall};
use crate::target::Target;

/// About a megabyte of text, in lines so long that a view shows few of them.
fn large_text() -> String {
    (0..LARGE_LINES).map(|number| format!("{number:03}").repeat(1_700) + "\n").collect()
}

const LARGE_LINES: usize = 200;

/// Views of a large file: its directory, its start, and its end, which shows whether the file was written completely.
fn views_of_large(path: &str) -> Vec<Value> {
    vec![view("/memories"), view(path), view_range(path, LARGE_LINES - 1, -1)]
}

/// Removes the directories from a listing. Other cases test their sizes, and that empty ones are not listed.
fn without_directories(mut reply: Value) -> Value {
    if let Some(listing) = reply["content"].as_str().filter(|text| text.starts_with("Here're the files")) {
        let is_file = |line: &&str| !line.ends_with('/') && !line.ends_with("\t/memories");
        reply["content"] = listing.split('\n').filter(is_file).collect::<Vec<_>>().join("\n").into();
    }
    reply
}

/// Commands that create a directory of twenty files of different sizes.
fn create_twenty(directory: &str) -> Vec<Value> {
    (10..30).map(|number| create(format!("{directory}/{number}.txt"), "x".repeat(number))).collect()
}

/// The record that a batch writes.
const BATCH_RECORD: &str = "/records/suite/batch";

/// A command or batch that is interrupted. Afterwards, the memory must be in the state before it or the state after it.
pub(super) struct Interruption {
    /// The commands that lead from an empty memory to the state before.
    prepare: Vec<Value>,
    /// A command of the tool, or a [`StoreCall`].
    pub(super) command: Value,
    /// Views that distinguish the two states from each other and from every partial state.
    pub(super) views: Vec<Value>,
    /// The paths to delete to empty the memory again.
    clear: Vec<&'static str>,
}

/// The replies to the views of an interruption.
pub(super) struct States<'a> {
    pub(super) before: &'a [Value],
    pub(super) after: &'a [Value],
    pub(super) found: &'a [Value],
}

impl Interruption {
    /// Creates a large file.
    pub(super) fn creating() -> Self {
        let path = "/memories/d/large.txt";
        Self {
            prepare: vec![],
            command: create(path, large_text()),
            views: views_of_large(path),
            clear: vec!["/memories/d"],
        }
    }

    /// Edits a large file.
    pub(super) fn editing() -> Self {
        let path = "/memories/large.txt";
        Self {
            prepare: vec![create(path, large_text())],
            command: insert(path, 0, "at the beginning, so that all the rest moves on"),
            views: views_of_large(path),
            clear: vec![path],
        }
    }

    /// Renames a directory.
    pub(super) fn renaming() -> Self {
        let (from, to) = ("/memories/from", "/memories/to/there");
        Self {
            prepare: create_twenty(from),
            command: rename(from, to),
            views: vec![view("/memories"), view(from), view(to), view(format!("{to}/29.txt"))],
            clear: vec![from, "/memories/to"],
        }
    }

    /// Deletes a directory.
    pub(super) fn deleting() -> Self {
        let directory = "/memories/d";
        Self {
            prepare: create_twenty(directory),
            command: delete(directory),
            views: vec![view("/memories"), view(directory), view("/memories/d/29.txt")],
            clear: vec![directory],
        }
    }

    /// Applies a batch that writes, removes and renames in several directories, and writes a record. Not tested if the
    /// programs of the target apply no batches.
    pub(super) async fn applying(target: &Target) -> Result<Self, CaseError> {
        let read_record = json!(StoreCall::Read(BATCH_RECORD.parse()?));
        if target.process_client().await?.send(read_record.clone()).await?.is_error() {
            let reason = "the program applies no batches: it needs `serve_store` instead of `serve`".to_owned();
            return Err(CaseError::NotTested { reason });
        }
        let write = |path: &str, text: &str| Ok::<_, CaseError>(BatchChange::Write(path.parse()?, text.to_owned()));
        let before = vec![
            write(BATCH_RECORD, "old")?,
            write("/memories/edited.txt", "old")?,
            write("/memories/removed/a.txt", "a")?,
            write("/memories/removed/e/b.txt", "b")?,
            write("/memories/from/c.txt", "c")?,
            write("/memories/from/e/d.txt", "d")?,
        ];
        let changes = vec![
            write(BATCH_RECORD, "new")?,
            write("/memories/new/large.txt", &large_text())?,
            BatchChange::Remove("/memories/removed".parse()?),
            BatchChange::Rename("/memories/from".parse()?, "/memories/to/there".parse()?),
            write("/memories/edited.txt", "new")?,
            write("/memories/new/e/small.txt", "new")?,
        ];
        let files = ["edited.txt", "removed/e/b.txt", "from/e/d.txt", "to/there/e/d.txt", "new/e/small.txt"];
        let views = views_of_large("/memories/new/large.txt").into_iter();
        let views = views.chain(files.map(|file| view(format!("/memories/{file}"))));
        Ok(Self {
            prepare: vec![json!(StoreCall::Apply(before))],
            command: json!(StoreCall::Apply(changes)),
            views: views.chain([read_record]).collect(),
            clear: vec!["/memories/edited.txt", "/memories/removed", "/memories/from", "/memories/new", "/memories/to"],
        })
    }

    /// Creates the state before in an empty memory.
    pub(super) async fn prepare(&self, client: &Client) -> Result<(), CaseError> {
        for command in &self.prepare {
            client.send(command.clone()).await?.text(false)?;
        }
        Ok(())
    }

    /// Runs the views.
    pub(super) async fn look(&self, client: &Client) -> Result<Vec<Value>, CaseError> {
        let mut seen = Vec::new();
        for view in &self.views {
            seen.push(without_directories(client.send(view.clone()).await?.result));
        }
        Ok(seen)
    }

    /// Empties the memory.
    pub(super) async fn clear(&self, client: &Client) -> Result<(), CaseError> {
        for path in &self.clear {
            client.delete_if_any(path).await?;
        }
        Ok(())
    }

    /// Checks that the state is the one after or, if the command was not acknowledged, the one before.
    pub(super) fn judge(&self, event: &str, is_acknowledged: bool, states: &States<'_>) -> Result<(), CaseError> {
        let States { before, after, found } = states;
        if found == after || (found == before && !is_acknowledged) {
            return Ok(());
        }
        let command = excerpt(&self.command.to_string(), 0);
        if is_acknowledged {
            return Err(Failure::new(format!("{event}, the command was acknowledged, but its effect is lost"))
                .in_step(command)
                .into());
        }
        let mut views = before.iter().zip(*after).zip(*found).zip(&self.views);
        let odd = views.find(|(((before, after), found), _)| found != before && found != after);
        let message = format!("{event}, the command leaves neither the state before it nor the state after it");
        let failure = match odd {
            Some(((_, found), view)) => Failure::new(format!("{message}: see the reply to {view}")).with_reply(found),
            None => Failure::new(format!("{message}, but a mixture of both")),
        };
        Err(failure.in_step(command).into())
    }
}

/// Runs the command in a program, and returns its system calls of the traced names.
pub(super) async fn calls_of(
    target: &Target,
    command: &Value,
    trace: Trace,
    traced: &'static str,
) -> Result<Vec<Call>, CaseError> {
    let calls = || {
        let trace = trace.clone();
        on_disk("read a trace", move || trace.calls())
    };
    let client = target.process_client_under(&Sandbox::Traced(trace.clone(), traced)).await?;
    client.view("/memories").await?.text(false)?; // the program has started
    let of_the_start = calls().await?.len();
    client.send(command.clone()).await?.text(false)?;
    let calls: BTreeSet<_> = calls().await?.into_iter().skip(of_the_start).collect();
    let calls: Vec<_> = calls.into_iter().collect(); // sorted by name
    Ok(calls.chunk_by(|left, right| left.name == right.name).flat_map(first_and_last).collect())
}

/// Drops the calls in the middle of a long series with one name, which are alike.
fn first_and_last(calls: &[Call]) -> impl Iterator<Item = Call> {
    const KEPT: usize = 4;
    let numbered = calls.iter().cloned().enumerate();
    numbered.filter(|(number, _)| *number < KEPT || *number + KEPT >= calls.len()).map(|(_, call)| call)
}
