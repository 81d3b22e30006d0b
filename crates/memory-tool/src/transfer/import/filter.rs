//! [`ImportFilter`]: selects the files of a directory or an archive to import.

use std::collections::HashSet;
use std::io::{self, Read};

use memory_tool_core::{FileTimes, MemoryPath, PathError};

use crate::transfer::export::target::PARTIAL_PREFIX;
use crate::transfer::report::{FileProblem, add};

/// The maximum length of a reported name or reason in characters. The maximum length of a path is 1,024 bytes.
const MAX_CHARACTERS: usize = 1_024;

type Take = Box<dyn FnMut(MemoryPath, Vec<u8>, FileTimes) -> Result<(), Disconnected> + Send>;

/// The receiver of the files was dropped.
pub(crate) struct Disconnected;

/// Selects the files of a source to import, and records the skipped ones.
///
/// # Behavior
/// 1. A name must be a valid path relative to `/memories`. One leading `./` is ignored.
/// 2. If two files have the same name, the first one is imported.
/// 3. A file over the size limit is not read into RAM.
pub(crate) struct ImportFilter {
    pub(super) under: Option<String>,
    pub(super) skip_above: u64,
    pub(super) take: Take,
    /// Whether the source contains anything under the selected directory.
    found_any: bool,
    taken: HashSet<MemoryPath>,
    skipped: SkippedFiles,
}

/// The skipped files.
#[derive(Default)]
pub(crate) struct SkippedFiles {
    pub(super) reported: Vec<FileProblem>,
    /// The number of further skipped files.
    pub(super) more: u64,
}

impl ImportFilter {
    pub(crate) fn new(under: Option<String>, skip_above: u64, take: Take) -> Self {
        let (taken, skipped) = (HashSet::new(), SkippedFiles::default());
        Self { under, skip_above, take, found_any: false, taken, skipped }
    }

    /// The skipped files, and the selected directory if the source contains nothing under it.
    pub(super) fn finish(self) -> (SkippedFiles, Option<String>) {
        (self.skipped, self.under.filter(|_| !self.found_any))
    }

    /// The path for a file with this name and size. A file without a valid path is recorded as skipped.
    pub(super) fn accept(&mut self, name: &[u8], size: u64) -> Option<MemoryPath> {
        let path = self.path(name)?;
        self.found_any = true;
        let reason = match path {
            Ok(_) if size > self.skip_above => self.too_large(),
            Ok(path) if self.taken.insert(path.clone()) => return Some(path),
            Ok(_) => "an earlier file has the same name".to_owned(),
            Err(reason) => reason,
        };
        self.skip(name, &reason);
        None
    }

    /// Records a skipped name, unless it is outside the selected directory.
    pub(super) fn skip(&mut self, name: &[u8], reason: &str) {
        if self.relative_name(name).is_none() {
            return;
        }
        self.found_any = true;
        let problem = FileProblem::new(shortened(&String::from_utf8_lossy(name)), shortened(reason));
        add(problem, &mut self.skipped.reported, &mut self.skipped.more);
    }

    /// Whether files under a directory with this name can be imported. Otherwise the directory is recorded as skipped.
    pub(super) fn accepts_directory(&mut self, name: &[u8]) -> bool {
        match self.path(name) {
            None | Some(Ok(_)) => true,
            Some(Err(reason)) => {
                self.skip(name, &reason);
                false
            }
        }
    }

    pub(super) fn too_large(&self) -> String {
        let noun = if self.skip_above == 1 { "byte" } else { "bytes" };
        format!("it has more than {} {noun}", self.skip_above)
    }

    /// The path for a name, or the reason why the name is invalid. Returns `None` outside the selected directory.
    fn path(&self, name: &[u8]) -> Option<Result<MemoryPath, String>> {
        self.relative_name(name).map(path_of)
    }

    /// The name relative to the selected directory, or `None` outside of it.
    fn relative_name<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
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
        return Err("the name is empty".to_owned());
    }
    if name.starts_with('/') {
        return Err("the name is an absolute path".to_owned());
    }
    if name.starts_with(PARTIAL_PREFIX) {
        return Err("it is an incomplete file from an interrupted export".to_owned());
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

/// Reads contents of at most `limit` bytes. Returns `None` if there are more.
pub(super) fn read_up_to(limit: u64, content: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    content.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}
