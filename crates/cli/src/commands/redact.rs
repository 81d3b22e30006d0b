//! `memory-tool redact`: removes contents from the history, or given text from everything.

use clap::{Args, ValueHint};
use memory_tool::history::{Entry, TextRedaction};
use memory_tool::{Memory, MemoryPath};

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::history::{HistoryChangeArgument, READING, by_actor, failure, open_to_change, write_entries};
use crate::memory::{Access, open_existing};
use crate::options::values::memory_path;
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};

#[derive(Args, Debug)]
pub(crate) struct RedactArguments {
    /// The numbers of the entries
    #[arg(required_unless_present_any = ["all", "path", "text"], value_name = "ENTRY")]
    pub(crate) entries: Vec<u64>,

    /// Erase the old texts and names of this file or directory, under all its names
    ///
    /// Other files of the same changes keep their past.
    #[arg(long, value_parser = memory_path, value_hint = ValueHint::Other)]
    #[arg(conflicts_with_all = ["all", "entries", "text"])]
    pub(crate) path: Option<MemoryPath>,

    /// Erase this text from the files, and from all earlier texts and names
    ///
    /// In present files, [redacted] takes its place. Upper and lower case differ.
    #[arg(long, conflicts_with_all = ["all", "entries"])]
    pub(crate) text: Option<String>,

    /// Print where the text is, and erase nothing
    #[arg(long, requires = "text")]
    pub(crate) dry_run: bool,

    /// Remove the whole history, even if it is damaged
    #[arg(long, conflicts_with = "entries")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Removes the contents of entries, or given text.
pub(crate) fn run(arguments: &RedactArguments) -> Result<ExitStatus, Failure> {
    if let Some(text) = &arguments.text {
        return redact_text(arguments, text);
    }
    let (entry, memory) = run_until_interrupted(CLEANUP_TIME, async {
        let (memory, history) = open_to_change(&arguments.change).await?;
        let redacted = match &arguments.path {
            Some(path) => history.redact_path(&path.into()).await.map(Some),
            None if arguments.all => history.clear().await.map(|()| None),
            None => history.redact(&arguments.entries).await.map(Some),
        };
        Ok((redacted.map_err(failure)?, memory))
    })?;
    write_entries(arguments.change.history.json, entry.as_slice(), &[])?;
    report_remains(&memory, " Present files are no history: edit or delete them.");
    Ok(ExitStatus::Success)
}

fn redact_text(arguments: &RedactArguments, text: &str) -> Result<ExitStatus, Failure> {
    let HistoryChangeArgument { history: opened, .. } = &arguments.change;
    let access = if arguments.dry_run { Access::Read } else { Access::Change };
    let (found, waiting, memory) = run_until_interrupted(CLEANUP_TIME, async {
        let memory = open_existing(&opened.store.url, opened.options(), access).await?;
        let history = memory.history().ok_or_else(|| Failure::new("the memory has no history"))?;
        let history = by_actor(history, &arguments.change);
        let found = if arguments.dry_run { history.find_text(text).await } else { history.redact_text(text).await };
        let waiting = match memory.proposals() {
            Some(proposals) => proposals.find_text(text).await.context("cannot read the proposals")?,
            None => Vec::new(),
        };
        Ok((found.context(READING)?, waiting, memory))
    })?;
    if opened.json || !found.is_empty() {
        write_report(opened.json, &found, || in_words(&found, arguments.dry_run))?;
    }
    for path in &found.names {
        let path = on_one_line(path.as_str());
        eprint_line(&format!("memory-tool: the name {path} contains the text: rename it, and redact the text again"));
    }
    for path in &found.unreadable {
        eprint_line(&format!("memory-tool: {} cannot be read, and may contain the text", on_one_line(path.as_str())));
    }
    for (name, path) in &waiting {
        let path = on_one_line(path.as_str());
        eprint_line(&format!("memory-tool: {path} of the proposal {name} contains the text: edit or drop it"));
    }
    if found.is_empty() && waiting.is_empty() {
        eprint_line("memory-tool: the text was not found; upper and lower case differ");
    } else if !found.is_empty() && !arguments.dry_run {
        report_remains(&memory, "");
    }
    let is_left = !found.names.is_empty() || !found.unreadable.is_empty() || !waiting.is_empty();
    Ok(ExitStatus::of(!found.is_empty() && !is_left))
}

fn in_words(found: &TextRedaction, is_dry_run: bool) -> String {
    let [in_files, in_entries] =
        if is_dry_run { ["would replace it in", "would erase it from"] } else { ["replaced it in", "erased it from"] };
    let places = |number: usize| count(number as u64, "place");
    let of_file = |(path, number): &(_, usize)| format!("{in_files} {path} ({})", places(*number));
    let files = found.files.iter().map(of_file);
    let entries = (!found.entries.is_empty()).then(|| format!("{in_entries} {}", Entry::numbers(&found.entries)));
    files.chain(entries).collect::<Vec<_>>().join("\n")
}

fn report_remains(memory: &Memory, also: &str) {
    eprint_line(&format!(
        "memory-tool: removed from the history. {}{also} Snapshots, backups, audit logs and kept versions of a bucket \
         are not known here.",
        memory.backend().remains_of_removed()
    ));
}
