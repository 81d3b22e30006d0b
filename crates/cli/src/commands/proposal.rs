//! `memory-tool proposal`: shows, takes, edits and drops changes that wait.

use std::collections::BTreeSet;
use std::io;

use clap::{Args, Subcommand, ValueHint};
use memory_tool::history::{FileDiff, Id};
use memory_tool::proposals::{Proposal, ProposalError, ProposalName, Proposals, ProposedChange, Selection};
use memory_tool::store::StorePath;
use memory_tool::{Actor, Memory, MemoryPath, Store};
use serde_json::json;
use std::sync::Arc;

use crate::commands::edit;
use crate::commands::proposals::IN_A_PROPOSAL;
use crate::differences::{colored, diff_text};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, eprint, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::escapes::on_one_line;
use crate::terminal::output::{count, rfc3339, to_json, write_line, write_report};
use crate::terminal::pager::{Colors, Pager};

#[derive(Args, Debug)]
pub(crate) struct ProposalArguments {
    #[command(subcommand)]
    pub(crate) action: ProposalAction,
}

/// The subcommands of `proposal`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProposalAction {
    /// Print the changes of a proposal
    Show(ShowProposalArguments),
    /// Take changes into the memory
    Take(TakeArguments),
    /// Change a file of a proposal in your editor
    Edit(EditProposalArguments),
    /// Drop changes
    Drop(DecisionArguments),
}

/// The files of a proposal.
#[derive(Args, Debug)]
pub(crate) struct ProposedFiles {
    /// The proposal
    pub(crate) name: ProposalName,

    /// Only these files, and those below these directories
    #[arg(value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,
}

/// The arguments of `proposal show`.
#[derive(Args, Debug)]
pub(crate) struct ShowProposalArguments {
    #[command(flatten)]
    pub(crate) files: ProposedFiles,

    /// Print JSON, one value per line
    ///
    /// Its fields are path, authors, reason, modified, outcome (clean, merged or conflict), from (of a renamed file),
    /// parts and revision (of the proposal).
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `proposal take`.
#[derive(Args, Debug)]
pub(crate) struct TakeArguments {
    /// Take only part N of the file, as `show` numbers them; may be repeated
    ///
    /// Parts can get other numbers, so the revision is required.
    #[arg(long = "part", value_name = "N", requires_all = ["paths", "revision"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parts: Vec<u32>,

    #[command(flatten)]
    pub(crate) decided: DecisionArguments,
}

/// The arguments of `proposal edit`.
#[derive(Args, Debug)]
pub(crate) struct EditProposalArguments {
    /// The proposal
    pub(crate) name: ProposalName,

    /// The file
    #[arg(value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `proposal drop`, which are also of `proposal take`.
#[derive(Args, Debug)]
pub(crate) struct DecisionArguments {
    #[command(flatten)]
    pub(crate) files: ProposedFiles,

    /// Fail if the proposal was changed after `show` printed this revision
    #[arg(long, value_name = "ID", value_parser = |id: &str| Id::try_from(id.to_owned()))]
    pub(crate) revision: Option<Id>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

pub(crate) fn run(arguments: &ProposalArguments) -> Result<ExitStatus, Failure> {
    match &arguments.action {
        ProposalAction::Show(given) => show(given),
        ProposalAction::Take(given) => take(given),
        ProposalAction::Edit(given) => edit::run_in(&given.name, &given.path, &given.memory),
        ProposalAction::Drop(given) => drop_changes(given),
    }
}

fn show(arguments: &ShowProposalArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "proposal show", Access::Read, async |memory| {
        let proposal = proposals(&memory)?.get(&arguments.files.name).await?;
        let pager = if arguments.json { None } else { Some(Pager::start()) };
        let mut text = String::new();
        let files = arguments.files.of(&proposal)?;
        for change in files.iter().filter_map(|path| proposal.change(path)) {
            match &pager {
                Some(pager) => text += &in_words(&proposal, change, pager.colors),
                None => _ = write_line(&mut io::stdout().lock(), in_json(&proposal, change)?)?,
            }
        }
        text += &format!("revision {}\n", proposal.revision);
        pager.map_or(Ok(()), |pager| pager.write(&text))?;
        Ok(ExitStatus::Success)
    })
}

fn take(arguments: &TakeArguments) -> Result<ExitStatus, Failure> {
    let decided = &arguments.decided;
    perform(&decided.memory, "take", Access::Change, async |memory| {
        let proposals = proposals(&memory)?;
        let proposal = decided.check(proposals.get(&decided.files.name).await?)?;
        if decided.files.paths.is_empty() && decided.revision.is_none() {
            refuse_much(&proposals, &proposal).await?;
        }
        let paths = decided.files.of(&proposal)?;
        let parts: BTreeSet<_> = arguments.parts.iter().map(|part| *part as usize - 1).collect();
        let selection = match (paths.as_slice(), parts.is_empty()) {
            (paths, true) => paths.iter().cloned().fold(Selection::new(), Selection::file),
            ([path], false) => Selection::new().parts(path.clone(), parts.iter().copied()),
            (_, false) => return Err(Stop::Wrong("--part needs one file".to_owned())),
        };
        let taken = proposals.take(&proposal, &selection).await;
        if let Err(ProposalError::Conflict { paths }) = &taken {
            show_conflicts(&proposal, paths)?;
        }
        taken?;
        report("took", &paths, parts.len())?;
        report_rest(&proposals, &proposal.name).await
    })
}

/// Refuses changes that remove much of the memory, until a person has looked at them.
async fn refuse_much(proposals: &Proposals<Arc<dyn Store>>, proposal: &Proposal) -> Result<(), Stop> {
    if !proposals.removes_much(proposal).await? {
        return Ok(());
    }
    let name = &proposal.name;
    let look = "more than a third of the lines of the memory would go: look at them with `memory-tool proposal show";
    Err(Stop::Wrong(format!("{look} {name}`, and take them with the --revision that it prints")))
}

fn drop_changes(arguments: &DecisionArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "drop", Access::Change, async |memory| {
        let (proposals, name) = (proposals(&memory)?, &arguments.files.name);
        let proposal = match proposals.get(name).await {
            Err(ProposalError::Damaged { .. }) if arguments.files.paths.is_empty() && arguments.revision.is_none() => {
                proposals.clear(name).await?;
                eprint("dropped a damaged proposal");
                return Ok(ExitStatus::Success);
            }
            proposal => arguments.check(proposal?)?,
        };
        let paths = arguments.files.of(&proposal)?;
        proposals.drop(&proposal, &paths).await?;
        report("dropped", &paths, 0)?;
        report_rest(&proposals, name).await
    })
}

fn proposals(memory: &Memory) -> Result<Proposals<Arc<dyn Store>>, Stop> {
    memory.proposals().ok_or_else(|| Stop::Wrong(IN_A_PROPOSAL.to_owned()))
}

impl DecisionArguments {
    /// Refuses a proposal that was changed after a person has looked at it.
    fn check(&self, proposal: Proposal) -> Result<Proposal, ProposalError> {
        let is_current = self.revision.is_none_or(|revision| revision == proposal.revision);
        if is_current { Ok(proposal) } else { Err(ProposalError::Changed) }
    }
}

impl ProposedFiles {
    /// The files that were named, or all.
    fn of(&self, proposal: &Proposal) -> Result<Vec<StorePath>, ProposalError> {
        let named: Vec<_> = self.paths.iter().map(StorePath::from).collect();
        proposal.files_at(&named)
    }
}

/// Prints what was decided, since the person may not have seen all of it.
fn report(done: &str, paths: &[StorePath], parts: usize) -> Result<(), Stop> {
    let changed = match parts as u64 {
        0 => format!("the changes of {}", count(paths.len() as u64, "file")),
        parts => count(parts, "part"),
    };
    let paths: String = paths.iter().map(|path| format!("\n    {}", on_one_line(path.as_str()))).collect();
    Ok(write_report(false, &(), || format!("{done} {changed}{paths}"))?)
}

/// Prints how much still waits. The decision counts, even if that is not known.
async fn report_rest(proposals: &Proposals<Arc<dyn Store>>, name: &ProposalName) -> Result<ExitStatus, Stop> {
    let listed = proposals.list().await.unwrap_or_default();
    if let Some(rest) = listed.iter().find(|proposal| proposal.name == *name) {
        let waits = if rest.files == 1 { "waits" } else { "wait" };
        write_report(false, &(), || format!("{} still {waits}", count(rest.files as u64, "file")))?;
    }
    Ok(ExitStatus::Success)
}

impl From<ProposalError> for Stop {
    fn from(error: ProposalError) -> Self {
        match error {
            ProposalError::Store(error) => Self::Refused(error),
            error => Self::Wrong(on_one_line(&error.to_string()).to_string()),
        }
    }
}

fn in_json(proposal: &Proposal, change: &ProposedChange) -> Result<Vec<u8>, Failure> {
    let json = json!({
        "path": change.path.as_str(),
        "authors": change.authors.iter().map(Actor::name).collect::<Vec<_>>(),
        "reason": change.reason(),
        "modified": rfc3339(change.modified),
        "outcome": change.effect(),
        "from": change.renamed_from.as_ref().map(StorePath::as_str),
        "parts": change.parts(),
        "revision": proposal.revision,
    });
    to_json(&io::stdout(), &json)
}

fn in_words(proposal: &Proposal, change: &ProposedChange, colors: Colors) -> String {
    let mut text = on_one_line(change.path.as_str()).to_string();
    let renamed_to = proposal.changes.iter().find(|other| other.renamed_from.as_ref() == Some(&change.path));
    if let Some(from) = &change.renamed_from {
        text += &format!(", renamed from {}", on_one_line(from.as_str()));
    } else if let Some(to) = renamed_to {
        text += &format!(", renamed to {}", on_one_line(to.path.as_str()));
    }
    let authors: Vec<_> = change.authors.iter().map(Actor::name).collect();
    if !authors.is_empty() {
        text += &format!(" by {}", on_one_line(&authors.join(", ")));
    }
    if let Some(reason) = change.reason() {
        text += &format!(" ({})", on_one_line(&reason));
    }
    text += match change.effect() {
        "conflict" if change.after.is_none() => {
            "\nThe memory changed this file later: drop the removal, or remove it there.\n"
        }
        "conflict" => "\nThe memory was changed at the same lines: edit the proposal, or drop this change.\n",
        "merged" => "\nLater changes of the memory stay when this file is taken.\n",
        _ => "\n",
    };
    if change.renamed_from.is_some() || renamed_to.is_some() {
        return text + "\n";
    }
    let parts = change.parts();
    if parts.len() == 1 {
        return text + &diff_text(colors, &change.diff()) + "\n";
    }
    let conflicts = change.parts_in_conflict();
    for (number, part) in parts.iter().enumerate() {
        let conflict = if conflicts.contains(&number) { ", which conflicts" } else { "" };
        text += &format!("part {}{conflict}:\n{}", number + 1, colored(colors, part));
    }
    text + "\n"
}

/// Prints how the memory and the proposal changed files.
fn show_conflicts(proposal: &Proposal, paths: &[StorePath]) -> Result<(), Failure> {
    let pager = Pager::start();
    let mut text = String::new();
    for change in paths.iter().filter_map(|path| proposal.change(path)) {
        let theirs = FileDiff::new(change.path.clone(), change.before.clone(), change.present.clone());
        for (who, difference) in [("the memory", theirs), ("the proposal", change.diff())] {
            text += &format!("changes of {who}:\n{}\n", diff_text(pager.colors, &difference));
        }
    }
    pager.write(&text)?;
    eprint("nothing was taken");
    Ok(())
}
