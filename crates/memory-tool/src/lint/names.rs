//! Names of files in other files, and names that differ by case: `orphan` and `case`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use memory_tool_core::{FileEntry, MAX_PATH_BYTES, MemoryPath, StorePath};

use crate::lint::{Findings, LintRule, is_index, is_visible};

/// The levels of directories whose names count, and the most names of a shortened path. Both limit the memory that deep
/// paths take.
const MAX_LEVELS: usize = 4;

/// The most keys that are compared at one position.
const MAX_COMPARED: usize = 8;

/// The files that name a key.
#[derive(Clone, Copy, Debug, Default)]
enum NamedBy {
    #[default]
    None,
    File(usize),
    Several,
}

/// The files of a memory with the names that other files use: the paths, and their last one to four names.
pub(super) struct Names<'a> {
    files: &'a [FileEntry],
    /// Paths of files, and of directories with a slash at the end.
    keys: BTreeMap<&'a str, NamedBy>,
    /// The same of files in lower case, with and without their extensions: Obsidian ignores the case of wiki links.
    wiki_names: HashMap<String, NamedBy>,
}

impl<'a> Names<'a> {
    /// The names of files that are sorted by path.
    pub(super) fn new(files: &'a [FileEntry]) -> Self {
        let (mut keys, mut wiki_names) = (BTreeMap::new(), HashMap::new());
        for path in files.iter().map(|file| file.path.as_str()) {
            for key in directories(path).chain([path]).flat_map(tails) {
                keys.insert(key, NamedBy::None);
            }
            wiki_names.extend(wiki_names_of(path).map(|name| (name, NamedBy::None)));
        }
        Self { files, keys, wiki_names }
    }

    /// Notes that a file links to a path. Returns whether the path exists.
    pub(super) fn link(&mut self, by: usize, path: &MemoryPath) -> bool {
        let path = path.as_str();
        if let Some(named) = self.keys.get_mut(path) {
            note(named, by);
            return true; // a whole path, because it starts with a slash
        }
        let directory = format!("{path}/");
        if let Some(named) = self.keys.get_mut(&*directory) {
            note(named, by);
        }
        let next = self.files.partition_point(|file| file.path.as_str() < &*directory);
        path == StorePath::memories().as_str()
            || self.files.get(next).is_some_and(|file| file.path.as_str().starts_with(&directory))
    }

    /// Notes that a file has a wiki link. Returns whether a file has this name.
    pub(super) fn wiki_link(&mut self, by: usize, link: &str) -> bool {
        let name = link.split('#').next().unwrap_or_default().trim();
        let found = [self.keys.get_mut(name), self.wiki_names.get_mut(&name.to_lowercase())];
        let exists = found.into_iter().flatten().map(|named| note(named, by)).count() > 0;
        let is_test = link.starts_with(' '); // of a shell: `[[ -f a ]]`
        exists || is_test || name.is_empty() || name.contains("://")
    }

    /// Notes the names in the text of a file.
    pub(super) fn find_in(&mut self, by: usize, text: &str, findings: &Findings<'_>) {
        if !findings.is_on(LintRule::Orphan) {
            return;
        }
        let (mut position, mut is_start) = (0, true);
        while let Some(next) = text[position..].chars().next() {
            let key = if is_start { self.longest_at(&text[position..]) } else { None };
            position += key.map_or(next.len_utf8(), str::len);
            is_start = key.is_some() || !(is_of_name(next) || next == '.');
            if let Some(named) = key.and_then(|key| self.keys.get_mut(key)) {
                note(named, by);
            }
        }
    }

    /// The longest key that starts the text and ends with a name.
    ///
    /// The greatest key up to the text shares the longest start with it. A shorter key has a part of this start.
    fn longest_at(&self, text: &str) -> Option<&'a str> {
        let mut start = &text[..text.floor_char_boundary(MAX_PATH_BYTES)];
        for _ in 0..MAX_COMPARED {
            let (key, _) = self.keys.range::<str, _>((Bound::Unbounded, Bound::Included(start))).next_back()?;
            let common = key.bytes().zip(start.bytes()).take_while(|(one, other)| one == other).count();
            if common == key.len() && ends_name(&text[common..]) {
                return Some(key);
            }
            let shorter = if common == key.len() { common.checked_sub(1)? } else { common };
            start = &start[..start.floor_char_boundary(shorter)];
        }
        None
    }

    /// Reports the files that no other one names, if there is an index in or above their directory.
    pub(super) fn check_orphans(&self, findings: &mut Findings<'_>) {
        let indexes = self.files.iter().map(|file| &file.path).filter(|path| is_index(path));
        let indexed: BTreeSet<_> = indexes.filter_map(StorePath::parent).collect();
        for (number, FileEntry { path, .. }) in self.files.iter().enumerate() {
            let is_listed = path.segments().all(is_visible) && !is_index(path);
            if is_listed && path.parents().any(|above| indexed.contains(&above)) && !self.is_named(number) {
                findings.add(LintRule::Orphan, path, None, "no other file names this one");
            }
        }
    }

    fn is_named(&self, file: usize) -> bool {
        let path = self.files[file].path.as_str();
        let is_by_other = |named: Option<&NamedBy>| match named {
            None | Some(NamedBy::None) => false,
            Some(NamedBy::File(by)) => *by != file,
            Some(NamedBy::Several) => true,
        };
        directories(path).chain([path]).flat_map(tails).any(|key| is_by_other(self.keys.get(key)))
            || wiki_names_of(path).any(|name| is_by_other(self.wiki_names.get(&name)))
    }
}

fn note(named: &mut NamedBy, by: usize) {
    *named = match *named {
        NamedBy::None => NamedBy::File(by),
        NamedBy::File(before) if before == by => NamedBy::File(by),
        NamedBy::File(_) | NamedBy::Several => NamedBy::Several,
    };
}

/// The directories above a file and below `/memories`, with a slash at the end.
fn directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(2).take(MAX_LEVELS).map(|(slash, _)| &path[..=slash])
}

/// The path, and its last names.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.trim_end_matches('/').rmatch_indices('/').take(MAX_LEVELS);
    slashes.map(|(slash, _)| &path[slash + 1..]).chain([path])
}

/// The names of a file in wiki links, in lower case.
fn wiki_names_of(path: &str) -> impl Iterator<Item = String> {
    tails(path).flat_map(|tail| [Some(tail), stem(tail)]).flatten().map(str::to_lowercase)
}

/// A path without the extension of its file.
fn stem(path: &str) -> Option<&str> {
    let (stem, extension) = path.rsplit_once('.')?;
    (!extension.contains('/') && !stem.is_empty() && !stem.ends_with('/')).then_some(stem)
}

/// Whether a longer name continues with the character.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Whether a name ends before the text, which can be the end of a sentence.
fn ends_name(after: &str) -> bool {
    let after = after.strip_prefix('.').unwrap_or(after);
    !after.starts_with(is_of_name)
}

/// Reports files and directories whose names differ only by case from another one in the same directory.
pub(super) fn check_case(files: &[FileEntry], findings: &mut Findings<'_>) {
    let (mut first, mut reported) = (HashMap::new(), HashSet::new());
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    for path in files.iter().map(|file| file.path.as_str()) {
        for path in directories(path).map(|directory| directory.trim_end_matches('/')).chain([path]) {
            let other = *first.entry(path.to_lowercase()).or_insert(path);
            // If the directories above differ, they are reported.
            let is_new = name(other) != name(path) && reported.insert(path);
            if let (true, Ok(found)) = (is_new, MemoryPath::parse(path)) {
                let message = format!("the path differs from {other} only by upper and lower case");
                findings.add(LintRule::Case, &found.into(), None, message);
            }
        }
    }
}
