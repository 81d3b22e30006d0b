//! [`complete`]: the paths in a memory that complete a word.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use memory_tool::MemoryPath;

use crate::history::HistoryArgument;
use crate::memory::{Access, open_existing};
use crate::options::values::memory_path;
use crate::terminal::interruption::start_runtime;

/// A person waits for this at the keyboard.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    options: HistoryArgument,
}

/// The paths in the memory of these options that complete a word. `None` if they are not known in time.
pub(super) fn complete(options: Vec<String>, word: &str) -> Option<Vec<String>> {
    let Options { options } = Options::try_parse_from([String::new()].into_iter().chain(options)).ok()?;
    let root = "/memories/";
    if word.starts_with('/') && !word.starts_with(root) {
        return root.starts_with(word).then(|| vec![root.to_owned()]);
    }
    let (typed, start) = word.split_at(word.rfind('/').map_or(0, |slash| slash + 1));
    let directory = if typed.is_empty() { MemoryPath::root() } else { memory_path(typed).ok()? };
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the process.
    thread::spawn(move || names(&options, &directory).map(|names| sender.send(names)));
    let names = receiver.recv_timeout(TIMEOUT).ok()?;
    let is_wanted = |name: &&String| name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
    Some(names.iter().filter(is_wanted).map(|name| path(typed, name)).collect())
}

/// The names in a directory, with a slash after those of directories.
fn names(options: &HistoryArgument, directory: &MemoryPath) -> Option<BTreeSet<String>> {
    start_runtime().ok()?.block_on(async {
        let memory = open_existing(&options.store.url, options.options(), Access::Read).await.ok()?;
        let files = memory.list(directory.clone()).await.ok()?;
        let above = directory.segments().count();
        let name = |file: &memory_tool::FileEntry| {
            let mut names = file.path.segments().skip(above);
            let name = names.next()?;
            Some(if names.next().is_some() { format!("{name}/") } else { name.to_owned() })
        };
        Some(files.iter().filter_map(name).collect())
    })
}

/// The path of a name after the typed directory. A name alone must not look like an option, a home directory or the
/// root.
fn path(typed: &str, name: &str) -> String {
    let is_special = typed.is_empty() && (name.starts_with(['-', '~']) || name == "memories" || name == "memories/");
    [if is_special { "./" } else { typed }, name].concat()
}
