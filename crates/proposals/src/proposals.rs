//! [`Proposals`]: people decide about changes that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_tool_core::{
    Actor, Batch, ErrorKind, MAX_ATTEMPTS, Node, Precondition, ReadOptions, Store, StoreError, StorePath,
};
use memory_tool_history::Id;

use crate::error::ProposalError;
use crate::name::ProposalName;
use crate::overlay::Overlay;
use crate::proposal::{Outcome, Proposal, ProposalSummary, ProposedChange};
use crate::records::{self, Index, Proposed, Text, damaged, now, time};
use crate::report::{Files, Report};
use crate::selection::Selection;
use crate::store::{is_mismatch_of, note_end, read_overlay, replace_index};

/// How many files are read at once.
const PARALLEL_READS: usize = 8;

/// The bytes of the files that a report reads.
const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;

/// The proposals of a memory, for a person who decides. Not for a session of the tool.
///
/// # Behavior
/// 1. Taking is one batch, with the policies of `store`. If the proposal has changed since it was read, nothing is
///    taken.
/// 2. A file that changed in the memory since the proposal changed it is merged by line. If the changes are of the same
///    or neighboring lines, nothing is taken.
/// 3. No change is taken twice, also if several people decide at once.
#[derive(Clone, Debug)]
pub struct Proposals<S> {
    store: S,
}

impl<S: Store> Proposals<S> {
    /// The proposals of the memory in `store`, whose policies apply to the files that are taken.
    pub fn new(store: S) -> Self {
        Self { store }
    }

    /// Lists the proposals, sorted by name.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`].
    pub async fn list(&self) -> Result<Vec<ProposalSummary>, StoreError> {
        let listing = self.store.read_opts(&records::root(), ReadOptions::new()).await?.into_listing();
        let mut names: Vec<_> = listing.files.iter().filter_map(|file| records::name_of(&file.path)).collect();
        names.sort_unstable();
        let mut summaries = Vec::new();
        for name in names {
            let (index, is_damaged) = match read_overlay(&self.store, &name).await {
                Err(error) if error.kind() == ErrorKind::Damaged => (Index::default(), true),
                read => (read?.index, false),
            };
            if is_damaged || !index.files.is_empty() {
                let changed = index.files.values().map(|file| file.modified).max().map_or(UNIX_EPOCH, time);
                let (files, bytes, created) = (index.files.len(), index.bytes(), index.created());
                summaries.push(ProposalSummary { name, files, bytes, created, changed, is_damaged });
            }
        }
        Ok(summaries)
    }

    /// The number of files that wait, at least one for each proposal.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list).
    pub async fn waiting(&self) -> Result<usize, StoreError> {
        Ok(self.list().await?.iter().map(|proposal| proposal.files.max(1)).sum())
    }

    /// Reads a proposal, with the present files.
    ///
    /// # Errors
    /// [`ProposalError::NotFound`], [`ProposalError::Damaged`], and the errors of [`Store::read_opts`].
    pub async fn get(&self, name: &ProposalName) -> Result<Proposal, ProposalError> {
        for _ in 1..MAX_ATTEMPTS {
            match self.read(name).await {
                // The proposal was changed while it was read.
                Err(ProposalError::Store(error)) if is_mismatch_of(&error).is_some() => {}
                outcome => return outcome.map(|(proposal, _)| proposal),
            }
        }
        self.read(name).await.map(|(proposal, _)| proposal)
    }

    /// The files of all proposals that have this text in their names or contents, before or after the change. The
    /// history does not reach them when it [erases](memory_tool_history::History::redact_text) the text.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list).
    pub async fn find_text(&self, text: &str) -> Result<Vec<(ProposalName, StorePath)>, StoreError> {
        let mut found = Vec::new();
        for summary in self.list().await? {
            let proposal = match self.get(&summary.name).await {
                Ok(proposal) => proposal,
                Err(ProposalError::Store(error)) => return Err(error),
                Err(error @ ProposalError::Damaged { .. }) => return Err(damaged(error)), // it may have the text
                Err(_) => continue,                                                       // it was decided
            };
            let contains = |content: &Option<Vec<u8>>| {
                content.as_ref().is_some_and(|content| String::from_utf8_lossy(content).contains(text))
            };
            let has_text = |change: &&ProposedChange| {
                change.path.as_str().contains(text) || contains(&change.before) || contains(&change.after)
            };
            let paths = proposal.changes.iter().filter(has_text).map(|change| change.path.clone());
            found.extend(paths.map(|path| (summary.name.clone(), path)));
        }
        Ok(found)
    }

    /// Compares the memory with the one in which these changes of a proposal are taken. Changes that conflict count as
    /// proposed. Without changes, it finds the dead links and duplicates that the memory has.
    ///
    /// # Errors
    /// [`ProposalError::TooLarge`] if the unchanged files have more than 64 MiB, and the errors of
    /// [`Store::read_opts`].
    pub async fn report(&self, changes: &[ProposedChange]) -> Result<Report, ProposalError> {
        let listing = self.store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing();
        let changed: BTreeSet<_> = changes.iter().map(|change| &change.path).collect();
        let unchanged: Vec<_> = listing.files.iter().filter(|file| !changed.contains(&file.path)).collect();
        let bytes = unchanged.iter().map(|file| file.size).sum();
        if bytes > MAX_READ_BYTES {
            return Err(ProposalError::TooLarge { bytes, limit: MAX_READ_BYTES });
        }
        let reads = unchanged.iter().map(|file| self.store.read_opts(&file.path, ReadOptions::new()));
        let reads: Vec<_> = reads.collect();
        let nodes: Vec<_> = stream::iter(reads).buffered(PARALLEL_READS).try_collect().await?;
        let nodes = unchanged.iter().zip(nodes);
        let unchanged: Vec<_> = nodes.filter_map(|(file, node)| Some((&file.path, node.into_file()?))).collect();
        let files = unchanged.iter().map(|(path, file)| (*path, file.content.as_slice())).collect();
        Ok(compared(&files, changes))
    }

    /// Whether taking the whole proposal [removes more than a third](Report::removes_much) of the memory's lines. If
    /// the memory is too large for a [report](Self::report), it is a third of the lines of the changed files.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`].
    pub async fn removes_much(&self, proposal: &Proposal) -> Result<bool, ProposalError> {
        // The other files can only add lines, and keep removed ones.
        if !compared(&Files::new(), &proposal.changes).removes_much() {
            return Ok(false);
        }
        match self.report(&proposal.changes).await {
            Err(ProposalError::TooLarge { .. }) => Ok(true),
            report => report.map(|report| report.removes_much()),
        }
    }

    /// Takes changes into the memory, with the other half of a rename. The proposal keeps the others.
    ///
    /// # Errors
    /// [`ProposalError::Changed`] if the proposal has changed since it was read, [`ProposalError::NotProposed`],
    /// [`ProposalError::NoPart`], [`ProposalError::Conflict`], [`ProposalError::FileAndDirectory`] and the errors of
    /// [`Store::apply`]. An error means that no file was taken.
    pub async fn take(&self, proposal: &Proposal, selection: &Selection) -> Result<(), ProposalError> {
        selection.check(proposal)?;
        let added = proposal.with_renames(selection.paths()).into_iter().filter(|path| !selection.has(path));
        let selection = added.cloned().fold(selection.clone(), Selection::file);
        let mut last = ProposalError::Changed;
        for _ in 0..MAX_ATTEMPTS {
            let (present, overlay) = match self.read(&proposal.name).await {
                Err(ProposalError::NotFound { .. }) => return Err(ProposalError::Changed),
                Err(ProposalError::Store(error)) if is_mismatch_of(&error).is_some() => continue,
                read => read?,
            };
            if present.revision != proposal.revision {
                return Err(ProposalError::Changed);
            }
            let batch = taking(&present, &overlay, &selection)?;
            match self.store.apply(batch).await {
                // A file changed after it was read here, or a disk has it under a name in other letters.
                Err(error) if is_mismatch_of(&error).is_some() => last = error.into(),
                outcome => return Ok(outcome?),
            }
        }
        Err(last)
    }

    /// Replaces the proposed contents of a file, for a person who corrects them. They become a change of the present
    /// contents in `proposal`, which resolves a conflict. Policies check them when they are taken.
    ///
    /// # Errors
    /// The errors of [`drop`](Self::drop).
    pub async fn edit(
        &self,
        proposal: &Proposal,
        path: &StorePath,
        content: impl Into<Vec<u8>> + Send,
        actor: Option<&Actor>,
    ) -> Result<(), ProposalError> {
        let not_proposed = || ProposalError::NotProposed { path: path.clone() };
        let change = proposal.change(path).ok_or_else(not_proposed)?;
        let overlay = self.unchanged(proposal).await?;
        let (mut index, mut texts) = (overlay.index.clone(), Vec::new());
        let mut add = |content: Vec<u8>| -> Result<Text, StoreError> {
            let (text, apart) = overlay.index.new_text(content)?;
            texts.extend(apart.map(|content| (text.id, content)));
            Ok(text)
        };
        let text = add(content.into())?;
        let present = change.present.clone().map(add).transpose()?;
        let file = index.files.get_mut(path).ok_or_else(not_proposed)?;
        if change.is_outdated() {
            file.base = present;
        }
        (file.text, file.modified) = (Some(text), now());
        file.add_author(actor);
        self.replace(&proposal.name, &overlay, index, texts, Batch::new().for_command("edit")).await
    }

    /// Drops the changes of files, with the other half of a rename. A history keeps the [reason](Actor::because), if
    /// there is one.
    ///
    /// # Errors
    /// [`ProposalError::Changed`] if the proposal has changed since it was read, [`ProposalError::NotProposed`], and
    /// the errors of [`Store::apply`].
    pub async fn drop<'a>(
        &self,
        proposal: &'a Proposal,
        paths: impl IntoIterator<Item = &'a StorePath>,
    ) -> Result<(), ProposalError> {
        let overlay = self.unchanged(proposal).await?;
        let (mut index, mut authors) = (overlay.index.clone(), BTreeSet::new());
        for path in proposal.with_renames(paths) {
            let not_proposed = || ProposalError::NotProposed { path: path.clone() };
            authors.extend(index.files.remove(path).ok_or_else(not_proposed)?.authors());
        }
        let batch = Batch::new().for_command(Batch::DROP).written_by(authors);
        self.replace(&proposal.name, &overlay, index, Vec::new(), batch).await
    }

    /// Drops all changes of a proposal, even if it is damaged. Returns the number of their files, if it can be read.
    ///
    /// # Errors
    /// [`ProposalError::NotFound`], and the errors of [`drop`](Self::drop).
    pub async fn clear(&self, name: &ProposalName) -> Result<Option<usize>, ProposalError> {
        let proposal = match self.get(name).await {
            Err(ProposalError::Damaged { .. }) => {
                self.store
                    .apply(note_end(Batch::new().for_command(Batch::DROP).remove(records::directory(name)))?)
                    .await?;
                return Ok(None);
            }
            proposal => proposal?,
        };
        self.drop(&proposal, proposal.paths()).await?;
        Ok(Some(proposal.changes.len()))
    }

    async fn replace(
        &self,
        name: &ProposalName,
        overlay: &Overlay,
        index: Index,
        texts: Vec<(Id, Vec<u8>)>,
        batch: Batch,
    ) -> Result<(), ProposalError> {
        let batch = replace_index(
            batch.require(records::index(name), overlay.precondition.clone()),
            name,
            overlay,
            index,
            texts,
        )?;
        self.store.apply(batch).await.map_err(|error| changed(error, name))
    }

    /// The overlay of a proposal that was not changed since it was read.
    async fn unchanged(&self, proposal: &Proposal) -> Result<Overlay, ProposalError> {
        let overlay = read_overlay(&self.store, &proposal.name).await?;
        if overlay.index.revision == proposal.revision { Ok(overlay) } else { Err(ProposalError::Changed) }
    }

    async fn read(&self, name: &ProposalName) -> Result<(Proposal, Overlay), ProposalError> {
        let overlay = read_overlay(&self.store, name).await.map_err(|error| unreadable(error, name))?;
        let index = &overlay.index;
        if index.files.is_empty() {
            return Err(ProposalError::NotFound { name: name.clone() });
        }
        let sources = sources(index);
        let reads = index.files.iter().map(|(path, file)| self.change(name, &overlay, path, file));
        let reads: Vec<_> = reads.collect();
        let mut changes: Vec<_> = stream::iter(reads).buffered(PARALLEL_READS).try_collect().await?;
        for change in &mut changes {
            let text = index.files.get(&change.path).and_then(|file| file.text.as_ref());
            change.renamed_from = text.and_then(|text| sources.get(&text.id)).map(|from| (*from).clone());
        }
        let (revision, created) = (index.revision, index.created());
        Ok((Proposal { name: name.clone(), revision, created, changes }, overlay))
    }

    async fn change(
        &self,
        name: &ProposalName,
        overlay: &Overlay,
        path: &StorePath,
        file: &Proposed,
    ) -> Result<ProposedChange, ProposalError> {
        let texts = futures::try_join!(
            self.content(name, overlay, file.base.as_ref()),
            self.content(name, overlay, file.text.as_ref())
        );
        let (before, after) = texts.map_err(|error| unreadable(error, name))?;
        // Under a later index, the present text may be one of a later change.
        let current = ReadOptions::new().require_all(overlay.required(name));
        let (present, required) = match self.store.read_opts(path, current).await? {
            Node::File(file) => (Some(file.content), Precondition::Version(file.version)),
            Node::Absent | Node::Directory(_) => (None, Precondition::Absent),
        };
        let (path, authors, modified) = (path.clone(), file.authors().collect(), time(file.modified));
        Ok(ProposedChange { path, before, after, present, renamed_from: None, authors, modified, required })
    }

    async fn content(
        &self,
        name: &ProposalName,
        overlay: &Overlay,
        text: Option<&Text>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(text) = text else { return Ok(None) };
        if let Some(inline) = &text.inline {
            return Ok(Some(inline.clone().into_bytes()));
        }
        let current = ReadOptions::new().require_all(overlay.required(name));
        let stored = self.store.read_opts(&records::text(name, text.id), current).await?.into_file();
        Ok(Some(stored.ok_or_else(|| damaged("a text is missing"))?.content))
    }
}

/// Compares unchanged and changed files before and after changes.
fn compared(unchanged: &Files<'_>, changes: &[ProposedChange]) -> Report {
    let contents = changes.iter().map(|change| match change.outcome() {
        Outcome::Content(content) => content,
        Outcome::Conflict => change.after.clone(),
    });
    let contents: Vec<_> = contents.collect();
    let (mut before, mut after) = (unchanged.clone(), unchanged.clone());
    for (change, content) in changes.iter().zip(&contents) {
        before.extend(change.present.iter().map(|present| (&change.path, present.as_slice())));
        after.extend(content.iter().map(|content| (&change.path, content.as_slice())));
    }
    Report::new(&before, &after)
}

/// The removed files, by their texts.
fn sources(index: &Index) -> BTreeMap<Id, &StorePath> {
    let removed = index.files.iter().filter(|(_, file)| file.text.is_none());
    removed.filter_map(|(path, file)| Some((file.base.as_ref()?.id, path))).collect()
}

fn unreadable(error: StoreError, name: &ProposalName) -> ProposalError {
    if error.kind() == ErrorKind::Damaged { ProposalError::Damaged { name: name.clone() } } else { error.into() }
}

/// A refusal because the index is another one means that the proposal was changed.
fn changed(error: StoreError, name: &ProposalName) -> ProposalError {
    let is_of_index = is_mismatch_of(&error).is_some_and(|path| *path == records::index(name));
    if is_of_index { ProposalError::Changed } else { error.into() }
}

/// The batch that takes changes.
fn taking(proposal: &Proposal, overlay: &Overlay, selection: &Selection) -> Result<Batch, ProposalError> {
    let (mut index, mut conflicts) = (overlay.index.clone(), Vec::new());
    let current = (records::index(&proposal.name), overlay.precondition.clone());
    let (mut batch, mut texts) = (Batch::new().for_command("take").require(current.0, current.1), Vec::new());
    let selected: Vec<_> = selection.changes(proposal).collect();
    let renames = renames(proposal, &selected);
    for (change, after) in &selected {
        let path = &change.path;
        batch = batch.require(path, change.required.clone());
        match change.outcome_of(after.as_deref()) {
            _ if renames.values().any(|to| *to == path) => {}
            Outcome::Content(content) if content == change.present => {}
            Outcome::Content(Some(content)) => batch = batch.write(path, content),
            Outcome::Content(None) => match renames.get(path) {
                Some(to) => batch = batch.rename(path, *to),
                None => batch = batch.remove(path),
            },
            Outcome::Conflict => conflicts.push(path.clone()),
        }
        let Some(mut rest) = index.files.remove(path) else { continue };
        if *after != change.after {
            let text = after.clone().map(|after| index.new_text(after)).transpose()?;
            texts.extend(text.iter().filter_map(|(text, apart)| Some((text.id, apart.clone()?))));
            rest.base = text.map(|(text, _)| text);
            index.files.insert(path.clone(), rest);
        }
    }
    if !conflicts.is_empty() {
        return Err(ProposalError::Conflict { paths: conflicts });
    }
    if batch.validate().is_err() {
        let paths = || selected.iter().map(|(change, _)| &change.path);
        let above = paths().find(|path| paths().any(|other| other.is_under(path)));
        if let Some(path) = above.cloned() {
            return Err(ProposalError::FileAndDirectory { path });
        }
    }
    let authors: BTreeSet<_> = selected.iter().flat_map(|(change, _)| change.authors.clone()).collect();
    Ok(replace_index(batch.written_by(authors), &proposal.name, overlay, index, texts)?)
}

/// The files that can be renamed, since nothing else changed them.
fn renames<'a>(
    proposal: &'a Proposal,
    selected: &[(&'a ProposedChange, Option<Vec<u8>>)],
) -> BTreeMap<&'a StorePath, &'a StorePath> {
    let is_selected = |path: &StorePath| selected.iter().any(|(change, _)| change.path == *path);
    let is_unchanged = |path: &StorePath| proposal.change(path).is_some_and(|from| !from.is_outdated());
    let rename = |change: &'a ProposedChange| {
        let from = change.renamed_from.as_ref().filter(|from| is_selected(from) && is_unchanged(from))?;
        change.present.is_none().then_some((from, &change.path))
    };
    selected.iter().filter_map(|(change, _)| rename(change)).collect()
}
