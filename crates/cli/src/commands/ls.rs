//! `memory-tool ls`: lists files and directories.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

use clap::{Args, ValueHint};
use memory_tool::store::{Listing, StorePath};
use memory_tool::{ErrorKind, FileEntry, Memory, MemoryPath, Node, StoreError};
use serde::Serialize;

use crate::exit_status::ExitStatus;
use crate::failure::{self, Failure};
use crate::files::{Stop, eprint, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::output::{rfc3339, to_json, write_text};

#[derive(Args, Debug)]
pub(crate) struct LsArguments {
    /// The files and directories to list [default: /memories]
    #[arg(value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,

    /// Print sizes in bytes and the times of the last writes
    #[arg(short, long)]
    pub(crate) long: bool,

    /// List directories at all levels
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// List the newest files first
    #[arg(short, long)]
    pub(crate) time: bool,

    /// List the largest first
    #[arg(short = 'S', long, conflicts_with = "time")]
    pub(crate) size: bool,

    /// Include hidden names, which start with a dot
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Print JSON, one value per line
    ///
    /// Its fields are path, type, size and modified, the time of the last write or null.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Lists the paths. As for `ls` on Unix, the status is 1 if an item cannot be listed, and 2 if a path does not exist.
pub(crate) fn run(arguments: &LsArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "ls", Access::Read, async |memory| {
        let root = [MemoryPath::root()];
        let paths = if arguments.paths.is_empty() { &root } else { arguments.paths.as_slice() };
        let mut list = List::new(arguments, paths.len() > 1 || arguments.recursive);
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for path in paths {
            match node(&memory, path).await {
                Ok(Found::Directory(listing)) => directories.push((path, listing)),
                Ok(Found::File(entry)) => files.push(entry),
                Err(error) => {
                    failure::eprint_error(&error);
                    list.is_missing = true;
                }
            }
        }
        list.push_files(&files)?;
        for (path, listing) in directories {
            list.push_directory(path, &listing)?;
        }
        list.end()
    })
}

enum Found {
    Directory(Listing),
    File(FileEntry),
}

/// The file or directory at the path. Only a listing of the parent has the times of a file.
async fn node(memory: &Memory, path: &MemoryPath) -> Result<Found, StoreError> {
    let node = memory.read(path).await;
    let is_file = match &node {
        Ok(Node::Directory(_) | Node::Absent) => false,
        Ok(Node::File(_)) => true,
        Err(error) => error.kind() == ErrorKind::Damaged,
    };
    if let (true, Some(parent)) = (is_file, path.parent()) {
        let files = memory.read(&parent).await?.into_listing().files;
        let entry = files.into_iter().find(|entry| *path == entry.path);
        return entry.map(Found::File).ok_or_else(|| StoreError::NotFound { path: path.clone().into() });
    }
    match node? {
        Node::Directory(listing) => Ok(Found::Directory(listing)),
        Node::File(_) | Node::Absent => Err(StoreError::NotFound { path: path.clone().into() }),
    }
}

/// A line: a file, or a directory with its files.
#[derive(Default)]
struct Item {
    is_directory: bool,
    size: u64,
    modified: Option<SystemTime>,
}

#[derive(Serialize)]
struct Printed<'a> {
    path: &'a str,
    r#type: &'static str,
    size: u64,
    modified: Option<String>,
}

struct List<'a> {
    arguments: &'a LsArguments,
    has_headings: bool,
    output: Vec<u8>,
    /// Whether an item cannot be listed, or is damaged.
    is_incomplete: bool,
    is_missing: bool,
}

impl<'a> List<'a> {
    fn new(arguments: &'a LsArguments, has_headings: bool) -> Self {
        Self { arguments, has_headings, output: Vec::new(), is_incomplete: false, is_missing: false }
    }

    fn push_files(&mut self, entries: &[FileEntry]) -> Result<(), Failure> {
        entries.iter().for_each(|entry| self.check(entry));
        let item = |entry: &FileEntry| Item { is_directory: false, size: entry.size, modified: entry.modified };
        self.push_items(entries.iter().map(|entry| (entry.path.as_str(), &entry.path, item(entry))).collect())
    }

    /// Adds the directory, and with `-R` those in it.
    fn push_directory(&mut self, directory: &StorePath, listing: &Listing) -> Result<(), Failure> {
        for item in &listing.unlisted {
            eprint(&item.to_string());
            self.is_incomplete = true;
        }
        let mut directories = BTreeMap::from([(directory.clone(), BTreeMap::<StorePath, Item>::new())]);
        for entry in &listing.files {
            if !self.arguments.all && is_hidden(&entry.path, directory) {
                continue;
            }
            self.check(entry);
            let mut path = entry.path.clone();
            while let Some(parent) = path.parent().filter(|_| path != *directory) {
                let item = directories.entry(parent.clone()).or_default().entry(path.clone()).or_default();
                item.is_directory |= path != entry.path;
                item.size += entry.size;
                item.modified = item.modified.max(entry.modified);
                path = parent;
            }
        }
        let levels = if self.arguments.recursive { usize::MAX } else { 1 };
        for (directory, items) in directories.into_iter().take(levels) {
            if self.has_headings && !self.arguments.json {
                let separator = if self.output.is_empty() { "" } else { "\n" };
                self.output.extend(format!("{separator}{directory}:\n").bytes());
            }
            let items = items.iter().map(|(path, item)| (path.file_name().unwrap_or_default(), path, Item { ..*item }));
            self.push_items(items.collect())?;
        }
        Ok(())
    }

    fn check(&mut self, entry: &FileEntry) {
        if entry.is_damaged {
            eprint(&format!("{} is damaged", entry.path));
            self.is_incomplete = true;
        }
    }

    /// Adds items under their names, which are sorted.
    fn push_items(&mut self, mut items: Vec<(&str, &StorePath, Item)>) -> Result<(), Failure> {
        if self.arguments.time {
            items.sort_by_key(|(_, _, item)| Reverse(item.modified));
        }
        if self.arguments.size {
            items.sort_by_key(|(_, _, item)| Reverse(item.size));
        }
        let width = items.iter().map(|(_, _, item)| item.size.to_string().len()).max().unwrap_or_default();
        for (name, path, item) in items {
            let modified = item.modified.and_then(rfc3339);
            if self.arguments.json {
                let r#type = if item.is_directory { "directory" } else { "file" };
                let printed = Printed { path: path.as_str(), r#type, size: item.size, modified };
                self.output.extend(to_json(&io::stdout(), &printed)?);
            } else {
                if self.arguments.long {
                    let modified = modified.as_deref().unwrap_or("-");
                    self.output.extend(format!("{:>width$}  {modified:<20}  ", item.size).bytes());
                }
                // Names in paths are printable.
                self.output.extend(name.bytes().chain(item.is_directory.then_some(b'/')));
            }
            self.output.push(b'\n');
        }
        Ok(())
    }

    fn end(self) -> Result<ExitStatus, Stop> {
        write_text(&mut io::stdout().lock(), &self.output)?;
        Ok(match self {
            Self { is_missing: true, .. } => ExitStatus::Missing,
            _ => ExitStatus::of(!self.is_incomplete),
        })
    }
}

/// Whether a name in the path under the directory starts with a dot.
fn is_hidden(path: &StorePath, directory: &StorePath) -> bool {
    path.segments().skip(directory.segments().count()).any(|name| name.starts_with('.'))
}
