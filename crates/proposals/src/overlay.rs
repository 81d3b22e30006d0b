//! [`Overlay`]: a proposal over the inner store.

use std::collections::BTreeMap;
use std::ops::Bound;

use memory_tool_core::{FileEntry, Listing, Node, Precondition, Stat, StorePath, StoredFile, Version};

use crate::name::ProposalName;
use crate::records::{self, Index, Proposed, Text, time};

/// The index of a proposal, with the preconditions that prove that it is current.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) index: Index,
    pub(crate) precondition: Precondition,
    /// The same for the record of [ended](records::ended) proposals. `None` if there is an index.
    pub(crate) ended: Option<Precondition>,
}

/// The place of a file or directory.
pub(crate) enum Place<'a> {
    /// A file of the proposal.
    Proposed(&'a Text),
    /// Nothing, since a proposed file is above it.
    Nowhere,
    /// The inner store, with the files that the proposal adds or hides.
    Inner,
}

impl Overlay {
    /// The preconditions under which the overlay is current.
    pub(crate) fn required(&self, name: &ProposalName) -> impl Iterator<Item = (StorePath, Precondition)> {
        let ended = self.ended.clone().map(|ended| (records::ended(), ended));
        [(records::index(name), self.precondition.clone())].into_iter().chain(ended)
    }

    /// Whether the proposal had this state at all times between the reads of both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.precondition, &self.ended) == (&other.precondition, &other.ended)
    }

    pub(crate) fn place(&self, path: &StorePath) -> Place<'_> {
        match self.proposed(path) {
            Some(text) => Place::Proposed(text),
            None if self.is_below_a_file(path) => Place::Nowhere,
            None => Place::Inner,
        }
    }

    fn proposed(&self, path: &StorePath) -> Option<&Text> {
        self.index.files.get(path)?.text.as_ref()
    }

    fn is_below_a_file(&self, path: &StorePath) -> bool {
        !self.index.files.is_empty() && path.parents().any(|above| self.proposed(&above).is_some())
    }

    /// Whether only the proposal decides what the path is, unless the inner store has a directory there.
    pub(crate) fn decides(&self, path: &StorePath) -> bool {
        self.index.files.contains_key(path) || self.is_below_a_file(path) || self.under(path).next().is_some()
    }

    /// Whether the proposal changes the path, or one above or under it.
    pub(crate) fn touches(&self, path: &StorePath) -> bool {
        let files = &self.index.files;
        let after = (Bound::Excluded(path), Bound::Unbounded);
        files.contains_key(path)
            || path.parents().any(|above| files.contains_key(&above))
            || files.range::<StorePath, _>(after).next().is_some_and(|(file, _)| file.is_under(path))
    }

    /// Whether a file of the inner store is visible.
    pub(crate) fn shows(&self, path: &StorePath) -> bool {
        !self.decides(path)
    }

    /// The files that the proposal adds under a directory.
    pub(crate) fn under(&self, directory: &StorePath) -> impl Iterator<Item = (&StorePath, FileEntry)> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        let range = self.index.files.range::<StorePath, _>(after).take_while(move |(path, _)| path.is_under(directory));
        range.filter_map(|(path, file)| Some((path, entry(path, file)?)))
    }

    /// The node of the inner store with the changes of the proposal.
    pub(crate) fn over(&self, path: &StorePath, node: Node) -> Node {
        if self.index.files.is_empty() || path.is_record() {
            return node;
        }
        let mut listing = match node {
            Node::File(file) if self.shows(path) => return Node::File(file),
            Node::File(_) | Node::Absent => Listing::default(),
            Node::Directory(listing) => listing,
        };
        listing.files.retain(|file| self.shows(&file.path));
        listing.files.extend(self.under(path).map(|(_, entry)| entry));
        let is_empty = listing.files.is_empty() && listing.unlisted.is_empty();
        if is_empty && !path.is_root() { Node::Absent } else { Node::Directory(listing) }
    }
}

/// The entry of a proposed file. `None` if it is removed.
fn entry(path: &StorePath, file: &Proposed) -> Option<FileEntry> {
    let entry = FileEntry::new(path.clone(), file.text.as_ref()?.size);
    Some(entry.with_created(time(file.created)).with_modified(time(file.modified)))
}

/// A file while a batch is planned.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    /// A file of the inner store, with its contents if the batch changes it.
    Inner { entry: FileEntry, file: Option<StoredFile> },
    /// A file of the proposal.
    Proposed { entry: FileEntry, text: Text },
    /// The file that the change with this number writes.
    Written { number: usize },
}

impl memory_tool_core::PathMapEntry for Member {
    fn version(&self) -> Version {
        match self {
            Self::Inner { file: Some(file), .. } => file.version.clone(),
            Self::Proposed { text, .. } => text.version(),
            // Only the inner store knows it, and checks it.
            Self::Inner { file: None, .. } | Self::Written { .. } => Version::new([]),
        }
    }

    fn to_entry(&self, path: &StorePath) -> FileEntry {
        match self {
            Self::Inner { entry, .. } | Self::Proposed { entry, .. } => {
                FileEntry::new(path.clone(), entry.size).with_created(entry.created).with_modified(entry.modified)
            }
            Self::Written { .. } => FileEntry::new(path.clone(), 0),
        }
    }
}

/// The parts of the inner store that a batch depends on.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The nodes at the paths that were read.
    pub(crate) stats: BTreeMap<StorePath, Stat>,
    pub(crate) files: BTreeMap<StorePath, Member>,
}

impl Seen {
    pub(crate) fn add(&mut self, path: &StorePath, node: &Node) {
        self.stats.insert(path.clone(), node.stat());
        match node {
            Node::Absent => {}
            Node::Directory(listing) => self.list(listing),
            Node::File(file) => {
                let entry = FileEntry::new(path.clone(), file.content.len() as u64);
                self.files.insert(path.clone(), Member::Inner { entry, file: Some(file.clone()) });
            }
        }
    }

    /// Adds files whose contents are not needed.
    pub(crate) fn list(&mut self, listing: &Listing) {
        for entry in &listing.files {
            let member = || Member::Inner { entry: entry.clone(), file: None };
            self.files.entry(entry.path.clone()).or_insert_with(member);
        }
    }

    /// The preconditions under which the inner store has not changed since.
    pub(crate) fn required(&self) -> impl Iterator<Item = (StorePath, Precondition)> {
        self.stats.iter().filter_map(|(path, stat)| match stat {
            Stat::Absent => Some((path.clone(), Precondition::Absent)),
            Stat::File(version) => Some((path.clone(), Precondition::Version(version.clone()))),
            Stat::Directory => None,
        })
    }

    /// The files of the memory with the proposal, as far as the batch depends on them.
    pub(crate) fn with(self, overlay: &Overlay) -> BTreeMap<StorePath, Member> {
        let mut files = self.files;
        files.retain(|path, _| overlay.shows(path));
        for (path, proposed) in &overlay.index.files {
            if let (Some(entry), Some(text)) = (entry(path, proposed), proposed.text.clone()) {
                files.insert(path.clone(), Member::Proposed { entry, text });
            }
        }
        files
    }
}
