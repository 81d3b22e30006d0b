//! `memory-tool diff`: compares two moments of a memory, or two stores, archives or directories.

use std::io;
use std::sync::Arc;

use clap::{Args, ValueHint};
use memory_tool::history::FileDiff;
use memory_tool::policies::Scope;
use memory_tool::store::StorePath;
use memory_tool::transfer::{Import, TransferError};
use memory_tool::{Memory, MemoryOptions, MemoryPath, Store, StoreUrl};

use crate::differences::{PrintedDiff, diff_text};
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::history::{self, READING, StoreHistory};
use crate::memory::{Access, open_existing};
use crate::options::OptionalStoreArgument;
use crate::options::encryption::Encryption;
use crate::options::values::{Point, Side, memory_path, side};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{to_json, write_line};
use crate::terminal::pager::{Colors, Pager};

#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// A moment of the memory, or another store, archive or exported directory
    #[arg(value_parser = side(), value_hint = ValueHint::AnyPath)]
    pub(crate) from: Side,

    /// The second one [default: now]
    #[arg(value_parser = side(), value_hint = ValueHint::AnyPath)]
    pub(crate) to: Option<Side>,

    /// Compare only this file or directory of the memory
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    /// Print JSON, one value per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Compare only the parts of the stores that belong to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) store: OptionalStoreArgument,
}

const COMPARING: &str = "cannot compare the files";

/// Prints the differences. As for `diff`, the status is 1 if there are any, or if some files cannot be compared.
pub(crate) fn run(arguments: &DiffArguments) -> Result<ExitStatus, Failure> {
    let (differences, is_complete) = run_until_interrupted(CLEANUP_TIME, differences(arguments))?;
    if arguments.json {
        for difference in &differences {
            let line = to_json(&io::stdout(), &PrintedDiff::of(difference))?;
            write_line(&mut io::stdout().lock(), line)?;
        }
    } else {
        let pager = Pager::start();
        let colors = pager.colors;
        let text = |difference| match (&arguments.from, &arguments.to) {
            (from @ Side::Store(_), Some(to)) => difference_of_stores(colors, (from, to), difference),
            _ => diff_text(colors, difference),
        };
        pager.write(&differences.iter().map(text).collect::<String>())?;
    }
    Ok(ExitStatus::of(differences.is_empty() && is_complete))
}

/// The differences, and whether all files were compared.
async fn differences(arguments: &DiffArguments) -> Result<(Vec<FileDiff>, bool), Failure> {
    let path = arguments.path.clone().map_or_else(StorePath::memories, StorePath::from);
    let history = open_history(arguments).await?;
    let to = arguments.to.as_ref().unwrap_or(&Side::Point(Point::Now));
    if let (Side::Point(from), Side::Point(to), Some((_, history))) = (&arguments.from, to, &history) {
        let from = history::number(*from, history).await.context(READING)?;
        let to = history::number(*to, history).await.context(READING)?;
        let found = history.diff(from, to, &path, usize::MAX).await.context(READING)?;
        let is_complete = found.unknown.is_empty();
        for path in found.unknown {
            let path = on_one_line(path.as_str());
            eprint_line(&format!("memory-tool: {path} may differ: its contents on one side are not kept"));
        }
        return Ok((found.files, is_complete));
    }
    let history = history.as_ref().map(|(_, history)| history);
    let (from, to) = (store_of(&arguments.from, arguments, history).await?, store_of(to, arguments, history).await?);
    let mut differences = Vec::new();
    let compared = FileDiff::between(&*from, &*to, &path, |difference| differences.push(difference)).await;
    if compared.context(COMPARING)? == 0 {
        eprint_line("memory-tool: neither side has a file; check the names");
    }
    Ok((differences, true))
}

/// The memory of `--store`, if a side is a moment.
async fn open_history(arguments: &DiffArguments) -> Result<Option<(Memory, StoreHistory)>, Failure> {
    let sides = [Some(&arguments.from), arguments.to.as_ref()];
    if sides.iter().all(|side| matches!(side, Some(Side::Store(_)))) {
        return Ok(None);
    }
    let unnamed = || Failure::new("a moment is one of a memory: name it with --store, or compare two stores");
    let url = arguments.store.url.as_ref().ok_or_else(unnamed)?;
    let memory = open(url, arguments).await?;
    let history = history::required(&memory).await?;
    Ok(Some((memory, history)))
}

async fn store_of(
    side: &Side,
    arguments: &DiffArguments,
    history: Option<&StoreHistory>,
) -> Result<Arc<dyn Store>, Failure> {
    match (side, history) {
        (Side::Point(point), Some(history)) => Ok(Arc::new(history::past(*point, history).await?)),
        (Side::Point(_), None) => Err(Failure::new("the memory has no history")),
        (Side::Store(url @ (StoreUrl::Local(path) | StoreUrl::TrustedDirectory { path, .. })), _) if path.exists() => {
            let memory = Memory::open("in-process:").await.context(COMPARING)?;
            match memory.import(Import::from_path(path), |_| {}).await {
                Ok(imported) if imported.is_complete() => Ok(memory.store()),
                Ok(_) => Err(Failure::new(format!("not every file of {url} can be read; `import` reports them"))),
                Err(TransferError::SourceIsStore { .. }) => Ok(open(url, arguments).await?.store()),
                Err(error) => Err(error).context(COMPARING),
            }
        }
        (Side::Store(url), _) => Ok(open(url, arguments).await?.store()),
    }
}

/// Opens a memory that exists. The keys are for an encrypted one.
async fn open(url: &StoreUrl, arguments: &DiffArguments) -> Result<Memory, Failure> {
    let DiffArguments { store: OptionalStoreArgument { timeout, encryption, .. }, scope, .. } = arguments;
    let open = async |mut options: MemoryOptions| {
        options.scope.clone_from(scope);
        open_existing(url, options, Access::Read).await
    };
    match open(timeout.options(&Encryption::default())).await {
        Err(Failure::Encrypted) if encryption.is_on() => open(timeout.options(encryption)).await,
        opened => opened,
    }
}

/// A file on one side is only named: a comparison with a backup would print it whole.
fn difference_of_stores(colors: Colors, (from, to): (&Side, &Side), difference: &FileDiff) -> String {
    let only_in = |color, side| {
        let line = on_one_line(&format!("only in {side}: {}", difference.path)).to_string();
        colors.paint(color, &line) + "\n"
    };
    match difference {
        FileDiff { after: None, .. } => only_in("31", from),
        FileDiff { before: None, .. } => only_in("32", to),
        _ => diff_text(colors, difference),
    }
}
