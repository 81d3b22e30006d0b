//! `memory-tool proposal`: shows, takes, edits and drops changes that wait.

use std::collections::BTreeSet;
use std::io;

use clap::{Args, Subcommand, ValueHint};
use memory_tool::history::{FileDiff, Id};
use memory_tool::proposals::{Outcome, Proposal, ProposalError, ProposalName, Proposals, ProposedChange, Selection};
use memory_tool::store::StorePath;
use memory_tool::{Memory, MemoryPath, Store};
use serde_json::json;
use std::sync::Arc;

use crate::commands::edit;
use crate::commands::proposals::IN_A_PROPOSAL;
use crate::differences::diff_text;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, eprint, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::escapes::on_one_line;
use crate::terminal::output::{count, rfc3339, to_json, write_line, write_report};
use crate::terminal::pager::Pager;

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
    Drop(DropArguments),
}

/// The files of a proposal.
#[derive(Args, Debug)]
pub(crate) struct ProposedFiles {
    /// The proposal
    pub(crate) name: ProposalName,

    /// Only these files
    #[arg(value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,
}

/// The state that a person has looked at.
#[derive(Args, Debug)]
pub(crate) struct LookedAt {
    /// Fail if the proposal was changed after `show` printed this revision
    #[arg(long, value_name = "ID", value_parser = |id: &str| Id::try_from(id.to_owned()))]
    pub(crate) revision: Option<Id>,
}

/// The arguments of `proposal show`.
#[derive(Args, Debug)]
pub(crate) struct ShowProposalArguments {
    #[command(flatten)]
    pub(crate) files: ProposedFiles,

    /// Print JSON, one value per line
    ///
    /// Its fields are path, actor, modified, outcome (taken, merged or conflict), from (of a renamed file), parts and
    /// revision (of the proposal).
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `proposal take`.
#[derive(Args, Debug)]
pub(crate) struct TakeArguments {
    #[command(flatten)]
    pub(crate) files: ProposedFiles,

    /// Take only part N of the file, as `show` numbers them; may be repeated
    #[arg(long = "part", value_name = "N", requires = "paths", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parts: Vec<u32>,

    #[command(flatten)]
    pub(crate) looked_at: LookedAt,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
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

/// The arguments of `proposal drop`.
#[derive(Args, Debug)]
pub(crate) struct DropArguments {
    #[command(flatten)]
    pub(crate) files: ProposedFiles,

    #[command(flatten)]
    pub(crate) looked_at: LookedAt,

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
        for path in arguments.files.chosen(&proposal) {
            let change = proposal.change(&path).ok_or(ProposalError::NotProposed { path })?;
            match &pager {
                Some(pager) => text += &in_words(change, pager),
                None => _ = write_line(&mut io::stdout().lock(), in_json(&proposal, change)?)?,
            }
        }
        text += &format!("revision {}\n", proposal.revision);
        pager.map_or(Ok(()), |pager| pager.write(&text))?;
        Ok(ExitStatus::Success)
    })
}

fn take(arguments: &TakeArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "take", Access::Change, async |memory| {
        let proposals = proposals(&memory)?;
        let proposal = arguments.looked_at.check(proposals.get(&arguments.files.name).await?)?;
        if arguments.files.paths.is_empty() && arguments.looked_at.revision.is_none() {
            refuse_much(&proposals, &proposal).await?;
        }
        let paths = arguments.files.chosen(&proposal);
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
        report("took", paths.len(), parts.len())
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

fn drop_changes(arguments: &DropArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "drop", Access::Change, async |memory| {
        let (proposals, name) = (proposals(&memory)?, &arguments.files.name);
        if arguments.files.paths.is_empty() && arguments.looked_at.revision.is_none() {
            let Some(files) = proposals.clear(name).await? else {
                eprint("dropped a damaged proposal");
                return Ok(ExitStatus::Success);
            };
            return report("dropped", files, 0);
        }
        let proposal = arguments.looked_at.check(proposals.get(name).await?)?;
        let paths = arguments.files.chosen(&proposal);
        proposals.drop(&proposal, &paths).await?;
        report("dropped", paths.len(), 0)
    })
}

fn proposals(memory: &Memory) -> Result<Proposals<Arc<dyn Store>>, Stop> {
    memory.proposals().ok_or_else(|| Stop::Wrong(IN_A_PROPOSAL.to_owned()))
}

impl LookedAt {
    fn check(&self, proposal: Proposal) -> Result<Proposal, ProposalError> {
        let is_current = self.revision.is_none_or(|revision| revision == proposal.revision);
        if is_current { Ok(proposal) } else { Err(ProposalError::Changed) }
    }
}

impl ProposedFiles {
    /// The files that were named, or all.
    fn chosen(&self, proposal: &Proposal) -> Vec<StorePath> {
        let named: Vec<_> = self.paths.iter().map(StorePath::from).collect();
        if named.is_empty() { proposal.paths().cloned().collect() } else { named }
    }
}

fn report(done: &str, files: usize, parts: usize) -> Result<ExitStatus, Stop> {
    let changed = match parts as u64 {
        0 => format!("the changes of {}", count(files as u64, "file")),
        parts => count(parts, "part"),
    };
    write_report(false, &(), || format!("{done} {changed}"))?;
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

/// Whether a change can be taken, in one word.
fn outcome(change: &ProposedChange) -> &'static str {
    match change.outcome() {
        Outcome::Conflict => "conflict",
        Outcome::Content(_) if change.is_outdated() => "merged",
        Outcome::Content(_) => "taken",
    }
}

fn in_json(proposal: &Proposal, change: &ProposedChange) -> Result<Vec<u8>, Failure> {
    let json = json!({
        "path": change.path.as_str(),
        "actor": change.actor,
        "modified": rfc3339(change.modified),
        "outcome": outcome(change),
        "from": change.renamed_from.as_ref().map(StorePath::as_str),
        "parts": change.parts(),
        "revision": proposal.revision,
    });
    to_json(&io::stdout(), &json)
}

fn in_words(change: &ProposedChange, pager: &Pager) -> String {
    let path = on_one_line(change.path.as_str());
    let mut text = match &change.renamed_from {
        Some(from) => format!("{path}, renamed from {}", on_one_line(from.as_str())),
        None => path.to_string(),
    };
    let actor = change.actor.iter().map(|actor| format!(" by {}", on_one_line(actor)));
    text += &actor.collect::<String>();
    text += match outcome(change) {
        "conflict" => "\nThe memory was changed at the same lines: edit the proposal before you take this file.\n",
        "merged" => "\nLater changes of the memory stay when this file is taken.\n",
        _ => "\n",
    };
    if change.renamed_from.is_some() {
        return text + "\n";
    }
    let parts = change.parts();
    if parts.len() == 1 {
        return text + &diff_text(pager.colors, &change.diff()) + "\n";
    }
    for (number, part) in parts.iter().enumerate() {
        text += &format!("part {}:\n{part}", number + 1);
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
