//! [`Intake`]: takes the files that a directory or an archive offers.

use std::collections::HashSet;
use std::io::{self, Read};

use memory_tool_core::{MemoryPath, PathError};

use crate::transfer::export::outcome::PARTIAL_PREFIX;
use crate::transfer::report::FileProblem;

/// How many of the names that are left out are reported. The others are counted: an archive may have more than this process can keep.
const MAX_REPORTED: usize = 1_000;

/// The most characters of a name or reason that are reported. The longest path of a memory has 1,024 bytes.
const MAX_CHARACTERS: usize = 1_024;

/// Takes a file.
type Take = Box<dyn FnMut(MemoryPath, Vec<u8>) -> Result<(), Abandoned> + Send>;

/// Nobody takes the files any more.
pub(crate) struct Abandoned;

/// Takes the files that a source offers, and notes what is left out.
///
/// # Behavior
/// 1. A name is that of a file under `/memories`, by the rules of the contract. One leading `./` is ignored.
/// 2. Of two files with one name, the first is taken.
/// 3. A file with more bytes than are allowed is never kept in this process.
pub(crate) struct Intake {
    under: Option<String>,
    skip_above: u64,
    take: Take,
    /// Whether the source holds anything in the directory that is meant.
    is_anything_found: bool,
    taken: HashSet<MemoryPath>,
    left_out: LeftOut,
}

/// What was left out.
#[derive(Default)]
pub(crate) struct LeftOut {
    pub(super) reported: Vec<FileProblem>,
    /// How many more there are.
    pub(super) more: u64,
}

/// The source holds nothing under the directory that is meant.
pub(super) struct NothingUnder {
    pub(super) directory: String,
    pub(super) left_out: LeftOut,
}

impl Intake {
    pub(crate) fn new(under: Option<String>, skip_above: u64, take: Take) -> Self {
        let (taken, left_out) = (HashSet::new(), LeftOut::default());
        Self { under, skip_above, take, is_anything_found: false, taken, left_out }
    }

    /// Whether only a part of the source is meant.
    pub(super) fn is_for_a_part(&self) -> bool {
        self.under.is_some()
    }

    pub(super) fn finish(self) -> Result<LeftOut, NothingUnder> {
        match self.under {
            Some(directory) if !self.is_anything_found => Err(NothingUnder { directory, left_out: self.left_out }),
            _ => Ok(self.left_out),
        }
    }

    /// The path for a file of that name and size. A file that gets none is noted.
    pub(super) fn place(&mut self, name: &[u8], size: u64) -> Option<MemoryPath> {
        let path = self.path(name)?;
        self.is_anything_found = true;
        let path = match path {
            Ok(path) => path,
            Err(reason) => {
                self.leave_out(name, &reason);
                return None;
            }
        };
        if size > self.skip_above {
            self.leave_out(name, &self.too_large());
            return None;
        }
        if !self.taken.insert(path.clone()) {
            self.leave_out(name, "a file of this name came before");
            return None;
        }
        Some(path)
    }

    pub(super) fn put(&mut self, path: MemoryPath, content: Vec<u8>) -> Result<(), Abandoned> {
        (self.take)(path, content)
    }

    /// Notes a name that is left out, unless it is outside the directory that is meant.
    pub(super) fn leave_out(&mut self, name: &[u8], reason: &str) {
        if self.meant(name).is_none() {
            return;
        }
        self.is_anything_found = true;
        if self.left_out.reported.len() == MAX_REPORTED {
            self.left_out.more += 1;
            return;
        }
        let name = shortened(&String::from_utf8_lossy(name));
        self.left_out.reported.push(FileProblem::new(name, shortened(reason)));
    }

    /// Whether files under a directory of that name can be imported. A directory whose files cannot be is noted.
    pub(super) fn may_enter(&mut self, name: &[u8]) -> bool {
        match self.path(name) {
            None | Some(Ok(_)) => true,
            Some(Err(reason)) => {
                self.leave_out(name, &reason);
                false
            }
        }
    }

    pub(super) fn too_large(&self) -> String {
        let noun = if self.skip_above == 1 { "byte" } else { "bytes" };
        format!("it has more than {} {noun}", self.skip_above)
    }

    pub(super) fn skip_above(&self) -> u64 {
        self.skip_above
    }

    /// The path of a name, or why it has none; nothing where it is not meant.
    fn path(&self, name: &[u8]) -> Option<Result<MemoryPath, String>> {
        self.meant(name).map(path_of)
    }

    /// The name under the directory that is meant.
    fn meant<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let name = name.strip_prefix(b"./").unwrap_or(name);
        match &self.under {
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
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads a content of at most so many bytes; `None` where there are more.
pub(super) fn read_up_to(limit: u64, content: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    content.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}
