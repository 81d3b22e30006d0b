//! `memory-tool edit`: changes a file in the editor of a person.

mod draft;
mod editor;

use clap::{Args, ValueHint};
use memory_tool::history::{FileDiff, merge};
use memory_tool::proposals::{ProposalError, ProposalName};
use memory_tool::store::{Batch, Precondition, StorePath, StoredFile};
use memory_tool::{Memory, MemoryOptions, MemoryPath, Node, Store as _, StoreError, StoreUrl};

use crate::commands::edit::draft::Draft;
use crate::commands::edit::editor::Editor;
use crate::commands::proposals::IN_A_PROPOSAL;
use crate::differences::diff_text;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::files::{self, Stop, eprint, open_with};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::input::{can_ask, question};
use crate::terminal::interruption::{CLEANUP_TIME, Interruption, start_runtime};
use crate::terminal::output::write_report;
use crate::terminal::pager::Pager;

#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    /// The file to edit, which is created if it does not exist
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Lets a person edit the file, and writes it unless it was changed at the same time.
pub(crate) fn run(arguments: &EditArguments) -> Result<ExitStatus, Failure> {
    let EditArguments { path, memory } = arguments;
    run_on_runtime(edit(path, &memory.store.url, memory.options()))
}

/// Lets a person edit the file in a proposal.
pub(crate) fn run_in(name: &ProposalName, path: &MemoryPath, memory: &MemoryArgument) -> Result<ExitStatus, Failure> {
    run_on_runtime(edit_in(name, path, memory))
}

fn run_on_runtime(work: impl Future<Output = Result<ExitStatus, Stop>>) -> Result<ExitStatus, Failure> {
    let runtime = start_runtime()?;
    let ended = runtime.block_on(work).or_else(Stop::report);
    runtime.shutdown_timeout(CLEANUP_TIME);
    ended
}

async fn edit_in(name: &ProposalName, path: &MemoryPath, memory: &MemoryArgument) -> Result<ExitStatus, Stop> {
    let (editor, options) = (Editor::of_environment()?, memory.options());
    let actor = options.actor.clone();
    let begin = async {
        let memory = open_with(&memory.store.url, options, "edit", Access::Change).await?;
        let proposals = memory.proposals().ok_or_else(|| Stop::Wrong(IN_A_PROPOSAL.to_owned()))?;
        let proposal = proposals.get(name).await?;
        Ok::<_, Stop>((proposals, proposal))
    };
    let (proposals, proposal) = until_interrupted(begin).await?;
    let proposed = StorePath::from(path);
    let change = proposal.change(&proposed).ok_or_else(|| ProposalError::NotProposed { path: proposed.clone() })?;
    let draft = change.draft().ok_or_else(|| Stop::Wrong(format!("the proposal removes {path}: take or drop that")))?;
    let text = files::text(&proposed, draft)?;
    let mut draft = Draft::create(path, text.as_bytes())?;
    let save = async {
        editor.edit(draft.file()).await?;
        let Some(mine) = draft.changed()? else { return Ok(format!("{path} is unchanged")) };
        let mine = files::text(&proposed, mine)?;
        until_interrupted(async { Ok(proposals.edit(&proposal, &proposed, mine, actor.as_ref()).await?) }).await?;
        Ok::<_, Stop>(format!("saved {path} in the proposal {name}"))
    };
    match save.await {
        Ok(saved) => {
            write_report(false, &(), || saved)?;
            Ok(ExitStatus::Success)
        }
        Err(stop) => report_unsaved(stop, &mut draft),
    }
}

async fn edit(path: &MemoryPath, url: &StoreUrl, options: MemoryOptions) -> Result<ExitStatus, Stop> {
    let editor = Editor::of_environment()?;
    let begin = async {
        let memory = open_with(url, options, "edit", Access::Change).await?;
        let base = read(&memory, path).await?;
        Ok::<_, Stop>((memory, base))
    };
    let (memory, base) = until_interrupted(begin).await?;
    files::text(path, text(&base).to_vec())?;
    let mut draft = Draft::create(path, text(&base))?;
    let ended = edit_and_save(&memory, path, base, &editor, &mut draft).await;
    ended.or_else(|stop| report_unsaved(stop, &mut draft))
}

/// Reports why nothing was saved, and keeps the text of the person.
fn report_unsaved(stop: Stop, draft: &mut Draft) -> Result<ExitStatus, Stop> {
    let reported = stop.report();
    keep_changed(draft);
    Ok(reported?)
}

/// The person edits until the text is saved, or an error ends that.
async fn edit_and_save(
    memory: &Memory,
    path: &MemoryPath,
    mut base: Option<StoredFile>,
    editor: &Editor,
    draft: &mut Draft,
) -> Result<ExitStatus, Stop> {
    loop {
        editor.edit(draft.file()).await?;
        match until_interrupted(save(memory, path, &mut base, draft)).await? {
            Next::End => return Ok(ExitStatus::Success),
            Next::EditTheirs => {
                keep_changed(draft);
                *draft = Draft::create(path, text(&base))?;
            }
        }
    }
}

enum Next {
    End,
    EditTheirs,
}

/// Writes the draft in place of `base`, or lets the person choose if the file was changed at the same time.
async fn save(memory: &Memory, path: &MemoryPath, base: &mut Option<StoredFile>, draft: &Draft) -> Result<Next, Stop> {
    let Some(mut mine) = draft.changed()? else {
        eprint(&format!("{path} is unchanged"));
        return Ok(Next::End);
    };
    files::text(path, mine.clone())?;
    let mut is_merged = false;
    loop {
        let precondition =
            base.as_ref().map_or(Precondition::Absent, |base| Precondition::Version(base.version.clone()));
        let batch = Batch::new().require(path, precondition).write(path, mine.clone());
        match memory.store().apply(batch).await {
            Ok(()) => break,
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let theirs = read(memory, path).await?;
        if theirs.as_ref().is_some_and(|theirs| theirs.content == mine) {
            break;
        }
        let both = theirs.as_ref().and_then(|theirs| merged(text(base), &theirs.content, &mine));
        *base = theirs;
        if let Some(both) = both {
            (mine, is_merged) = (both, true);
            continue;
        }
        if !can_ask() {
            return Err(Stop::Wrong(format!("{path} was changed at the same time, so your text was not saved")));
        }
        let change = if base.is_some() { "changed" } else { "removed" };
        let asked =
            format!("{path} was {change} at the same time: [d]iff, [o]verwrite, [e]dit theirs, [k]eep my text? ");
        loop {
            match question(&asked).await?.get(..1) {
                Some("d") => show_difference(path, base.as_ref(), &mine)?,
                Some("o") => break,
                Some("e") => return Ok(Next::EditTheirs),
                Some("k") | None => return Err(Stop::Wrong("nothing was saved".to_owned())),
                Some(_) => {}
            }
        }
    }
    let others = if is_merged { ", with the changes that were made at the same time" } else { "" };
    write_report(false, &(), || format!("saved {path}{others}"))?;
    Ok(Next::End)
}

/// Both changes, if they are of different lines.
fn merged(before: &[u8], theirs: &[u8], mine: &[u8]) -> Option<Vec<u8>> {
    let [before, theirs, mine] = [before, theirs, mine].map(str::from_utf8);
    merge(before.ok()?, theirs.ok()?, mine.ok()?).map(String::into_bytes)
}

fn show_difference(path: &MemoryPath, theirs: Option<&StoredFile>, mine: &[u8]) -> Result<(), Failure> {
    let theirs = theirs.map(|theirs| theirs.content.clone());
    let pager = Pager::start();
    let text = diff_text(pager.colors, &FileDiff::new(path.clone(), theirs, Some(mine.to_vec())));
    pager.write(&text)
}

/// Keeps the text of the person, and names the file.
fn keep_changed(draft: &mut Draft) {
    match draft.keep_changed() {
        Ok(Some(kept)) => eprint(&format!("your text is in {kept}")),
        Ok(None) => {}
        Err(failure) => crate::failure::eprint_error(&failure),
    }
}

/// The file, or `None` if it does not exist.
async fn read(memory: &Memory, path: &MemoryPath) -> Result<Option<StoredFile>, Stop> {
    match memory.read(path).await? {
        Node::Directory(_) => Err(StoreError::NotAFile { path: path.clone().into() }.into()),
        node => Ok(node.into_file()),
    }
}

fn text(file: &Option<StoredFile>) -> &[u8] {
    file.as_ref().map_or(&[], |file| &file.content)
}

/// A signal before this, such as Ctrl-C during the editor, has no effect.
async fn until_interrupted<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let mut interruption = Interruption::listen().context("cannot start")?;
    interruption.or(work).await.unwrap_or_else(|status| Err(Failure::Interrupted { status }.into()))
}
