//! `memory-tool import`: puts the files of a plain directory or a tar archive into a store.

mod archive;
mod directory;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use memory_tool_core::{MemoryPath, PathError};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::arguments::ImportArguments;
use crate::export::{PARTIAL_PREFIX, STANDARD_STREAM};
use crate::failure::{Failure, on_one_line};
use crate::import::archive::Archive;
use crate::output::{count, to_json, write_line};
use crate::policies::Access;
use crate::progress_line::ProgressLine;
use crate::run::start_runtime;
use crate::transfer::{Completeness, Destination, Told, Written, is_access_times};

/// How many names that are left out are told. The others are counted: an archive may have more of them than this process can keep.
const MOST_TOLD: usize = 1_000;

/// The most characters of a name or reason that are told. The longest path of a memory has 1,024 bytes.
const MOST_CHARACTERS: usize = 1_024;

/// Imports, and prints what became of the files.
pub(crate) fn run(arguments: &ImportArguments) -> Result<Completeness, Failure> {
    let imported = import(arguments)?;
    let text = if arguments.json { to_json(&imported)? } else { imported.to_text().into_bytes() };
    // Whether anybody still read it changes nothing: what was imported is imported.
    write_line(&mut io::stdout().lock(), text)?;
    Ok(Completeness::of(imported.is_complete()))
}

fn import(arguments: &ImportArguments) -> Result<Imported, Failure> {
    let origin = Origin::open(arguments)?;
    let runtime = start_runtime()?;
    let mut intake = Intake {
        runtime: &runtime,
        arguments,
        destination: None,
        is_anything_found: false,
        taken: HashSet::new(),
        left_out: Vec::new(),
        also_left_out: 0,
        line: ProgressLine::of_standard_error(),
    };
    let broken_off = match origin {
        Origin::Directory(directory) => {
            directory::take_files(directory, &mut intake)?;
            None
        }
        Origin::Archive(archive) => archive::take_files(archive, &mut intake)?,
    };
    let ImportArguments { source, beneath, .. } = arguments;
    if let (Some(directory), false, None) = (beneath, intake.is_anything_found, &broken_off) {
        return Err(Failure::NothingBeneath { directory: directory.clone(), path: source.clone() });
    }
    let destination = intake.destination.take().map_or_else(|| intake.look_at_destination(), Ok)?;
    let Intake { left_out, also_left_out, line, .. } = intake;
    drop(line);
    let written = runtime.block_on(destination.report(|_| false))?;
    Ok(Imported { written, left_out, also_left_out, broken_off })
}

/// Where files are imported from.
enum Origin {
    Directory(cap_std::fs::Dir),
    Archive(Archive),
}

impl Origin {
    fn open(arguments: &ImportArguments) -> Result<Self, Failure> {
        let source = arguments.source.as_path();
        if source == Path::new(STANDARD_STREAM) {
            return Archive::open(io::stdin().lock(), source).map(Self::Archive);
        }
        let failed = |error| Failure::File { path: source.to_owned(), source: error };
        if !fs::metadata(source).map_err(failed)?.is_dir() {
            let file = fs::File::open(source).map_err(failed)?;
            return Archive::open(io::BufReader::new(file), source).map(Self::Archive);
        }
        let directory = directory::open(source).map_err(failed)?;
        if arguments.beneath.is_none() && directory::is_store(&directory) {
            let destination = arguments.memory.store.url.to_string();
            return Err(Failure::SourceIsStore { path: source.to_owned(), destination });
        }
        Ok(Self::Directory(directory))
    }
}

/// Takes the files that an origin offers, and tells what is left out.
///
/// # Behavior
/// 1. A name is that of a file beneath `/memories`, by the rules of the contract; one `./` before it means nothing.
/// 2. Of two files of one name, the first is taken.
/// 3. A file with more bytes than are allowed is never kept in this process.
/// 4. The access times of another memory are passed over.
struct Intake<'a> {
    runtime: &'a Runtime,
    arguments: &'a ImportArguments,
    /// Opened for the first file, so that no store is created for nothing.
    destination: Option<Destination>,
    /// Whether the origin holds anything in the directory that is meant.
    is_anything_found: bool,
    taken: HashSet<MemoryPath>,
    left_out: Vec<Told>,
    /// How many more are left out than are told.
    also_left_out: u64,
    line: Option<ProgressLine<io::Stderr>>,
}

impl Intake<'_> {
    /// Where a file of that name and size belongs. Where it belongs nowhere, that is told.
    fn place(&mut self, name: &[u8], size: u64) -> Option<MemoryPath> {
        let path = self.path(name)?;
        self.is_anything_found = true;
        let path = match path {
            Ok(path) => path,
            Err(reason) => {
                self.leave_out(name, &reason);
                return None;
            }
        };
        if is_access_times(&path) {
            return None; // an export of before left them, or a copy of the disk
        }
        if size > self.skip_above() {
            self.leave_out(name, &self.too_large());
            return None;
        }
        if !self.taken.insert(path.clone()) {
            self.leave_out(name, "a file of this name came before");
            return None;
        }
        Some(path)
    }

    /// Puts a file into the memory.
    fn put(&mut self, path: &MemoryPath, content: &[u8]) -> Result<(), Failure> {
        let mut destination = self.take_destination()?;
        self.runtime.block_on(destination.put(path, content))?;
        self.destination = Some(destination);
        if let Some(line) = &mut self.line {
            line.show(&count(self.taken.len() as u64, "file"));
        }
        Ok(())
    }

    /// The store that files are put into.
    fn take_destination(&mut self) -> Result<Destination, Failure> {
        if let Some(destination) = self.destination.take() {
            return Ok(destination);
        }
        let ImportArguments { memory, writing, .. } = self.arguments;
        let (url, encryption) = (&memory.store.url, &memory.store.encryption);
        self.runtime.block_on(Destination::open(url, encryption, &memory.policies, *writing))
    }

    /// The store as it is, if there was no file to put into it: then it is not created.
    fn look_at_destination(&self) -> Result<Destination, Failure> {
        let ImportArguments { memory, writing, .. } = self.arguments;
        let (url, encryption) = (&memory.store.url, &memory.store.encryption);
        let store = self.runtime.block_on(memory.policies.open_for(url, encryption, Access::Rehearse))?;
        Ok(Destination::new(store, None, *writing))
    }

    /// Tells of a name that it is left out, unless it is outside the directory that is meant.
    fn leave_out(&mut self, name: &[u8], reason: &str) {
        if self.meant(name).is_none() {
            return;
        }
        self.is_anything_found = true;
        if self.left_out.len() == MOST_TOLD {
            self.also_left_out += 1;
            return;
        }
        let path = shortened(&String::from_utf8_lossy(name));
        self.left_out.push(Told { path, reason: shortened(reason) });
    }

    /// Whether files beneath a directory of that name may have a place. Where they cannot, that is told.
    fn may_enter(&mut self, name: &[u8]) -> bool {
        match self.path(name) {
            None | Some(Ok(_)) => true,
            Some(Err(reason)) => {
                self.leave_out(name, &reason);
                false
            }
        }
    }

    fn too_large(&self) -> String {
        format!("it has more than {}, see --skip-above", count(self.skip_above(), "byte"))
    }

    fn skip_above(&self) -> u64 {
        self.arguments.skip_above
    }

    /// The path of a name, or why it has none; nothing where it is not meant.
    fn path(&self, name: &[u8]) -> Option<Result<MemoryPath, String>> {
        let name = self.meant(name)?;
        Some(path_of(name))
    }

    /// The name beneath the directory that is meant.
    fn meant<'b>(&self, name: &'b [u8]) -> Option<&'b [u8]> {
        let name = name.strip_prefix(b"./").unwrap_or(name);
        match &self.arguments.beneath {
            None => Some(name),
            Some(directory) => name.strip_prefix(directory.as_bytes())?.strip_prefix(b"/"),
        }
    }
}

fn path_of(name: &[u8]) -> Result<MemoryPath, String> {
    let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8 text")?;
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    if name.starts_with('/') {
        return Err("the name is that of an absolute path".to_owned());
    }
    if name.starts_with(PARTIAL_PREFIX) {
        return Err("an export that was interrupted left it".to_owned());
    }
    let path = MemoryPath::root().as_str().to_owned() + "/" + name;
    MemoryPath::parse(&path).map_err(|error: PathError| error.to_string())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads a content of at most so many bytes; `None` where there are more.
fn read_up_to(limit: u64, content: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    content.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Imported {
    #[serde(flatten)]
    written: Written,
    /// What is no file, or has no legal name.
    left_out: Vec<Told>,
    /// How many more of them there are.
    also_left_out: u64,
    /// Why the archive could not be read to its end.
    broken_off: Option<String>,
}

impl Imported {
    fn is_complete(&self) -> bool {
        self.written.is_complete() && self.left_out.is_empty() && self.broken_off.is_none()
    }

    fn to_text(&self) -> String {
        let left_out = self.left_out.iter().map(|told| told.line("is left out"));
        let also = (self.also_left_out > 0).then(|| format!("{} more left out", self.also_left_out));
        let broken_off = self.broken_off.iter().map(|reason| on_one_line(reason));
        let lines = self.written.problems().chain(left_out).chain(also).chain(broken_off);
        lines.chain([self.written.summary("imported")]).collect::<Vec<_>>().join("\n")
    }
}
