//! [`Relocated`]: a directory of one store shown at another path.

use memory_tool_core::{
    Batch, FailureKind, FileEntry, InvalidRecordName, MAX_PATH_BYTES, MemoryPath, Node, PathError, Precondition,
    ReadOptions, RecordChange, RecordName, Stat, Store, StoreError, StoredFile,
};

/// The policy that a refusal of a longer path names.
const POLICY: &str = "scope";

/// A store of which one directory is shown at another path, and of which the records have a prefix that is not shown.
#[derive(Clone, Debug)]
pub(crate) struct Relocated<S> {
    store: S,
    relocation: Relocation,
}

impl<S: Store> Relocated<S> {
    /// The directory `inner` of the store, shown at the path `outer`.
    pub(crate) fn new(store: S, outer: MemoryPath, inner: MemoryPath) -> Self {
        Self { store, relocation: Relocation { outer, inner, record_prefix: String::new() } }
    }

    /// Stores each record under this prefix and its name.
    pub(crate) fn with_record_prefix(mut self, prefix: String) -> Self {
        self.relocation.record_prefix = prefix;
        self
    }

    /// The path at which the directory is shown.
    pub(crate) fn outer(&self) -> &MemoryPath {
        &self.relocation.outer
    }

    /// Reads a path. As in every listing, files that have no legal path here are left out.
    pub(crate) async fn read(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let path = self.relocation.to_inner(path)?;
        let options = options.try_map(|path| self.relocation.required_to_inner(path))?;
        match self.store.read_opts(&path, options).await {
            Ok(Node::Directory(files)) => Ok(Node::Directory(self.relocation.files_to_outer(files))),
            Ok(node) => Ok(node),
            Err(error) => Err(self.relocation.error_to_outer(error)),
        }
    }

    /// Lists a directory. Where nothing is there, or a file, the list is empty.
    pub(crate) async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        Ok(self.read(directory, ReadOptions::new()).await?.into_entries())
    }

    pub(crate) async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        let name = self.relocation.record_to_inner(name)?;
        self.store.read_record(&name).await.map_err(|error| self.relocation.error_to_outer(error))
    }

    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.apply_to_inner(self.relocation.batch_to_inner(batch)?).await
    }

    /// Applies the changes of records alone, if the directory is absent in the inner store.
    pub(crate) async fn apply_records_if_absent(&self, batch: Batch) -> Result<(), StoreError> {
        let records = self.relocation.batch_to_inner(without_changes(batch))?;
        self.apply_to_inner(records.require(self.relocation.inner.clone(), Precondition::Absent)).await
    }

    async fn apply_to_inner(&self, batch: Batch) -> Result<(), StoreError> {
        self.store.apply(batch).await.map_err(|error| self.relocation.error_to_outer(error))
    }
}

/// The batch up to its first precondition on the root, without its changes, and the error of that precondition: the root is a
/// directory, also where the inner store has none for it. `None` if the batch requires nothing of the root.
pub(crate) fn cut_at_root(batch: &Batch) -> Option<(Batch, StoreError)> {
    let index = batch.preconditions().iter().position(|(path, _)| path.is_root())?;
    let (root, precondition) = &batch.preconditions()[index];
    let unmet = precondition.check(root, &Stat::Directory).err()?;
    Some((preconditions_alone(batch, index), unmet))
}

/// The batch without its changes of files.
fn without_changes(batch: Batch) -> Batch {
    let mut records = preconditions_alone(&batch, batch.preconditions().len());
    for change in batch.into_changes().1 {
        records = match change {
            RecordChange::Write { name, content } => records.write_record(name, content),
            RecordChange::Remove { name } => records.remove_record(name),
        };
    }
    records
}

/// A batch with the preconditions on records, and the first `count` of those on paths.
fn preconditions_alone(batch: &Batch, count: usize) -> Batch {
    let records = batch.record_preconditions().iter().cloned();
    let alone = records.fold(Batch::new(), |alone, (name, precondition)| alone.require_record(name, precondition));
    let paths = batch.preconditions().iter().take(count).cloned();
    paths.fold(alone, |alone, (path, precondition)| alone.require(path, precondition))
}

/// The directory `inner` of an inner store, shown at the path `outer`. Translates paths, batches, files and errors, so that the
/// outer side learns nothing of the inner one.
#[derive(Clone, Debug)]
struct Relocation {
    outer: MemoryPath,
    inner: MemoryPath,
    record_prefix: String,
}

impl Relocation {
    /// Where the inner store keeps `path`, which lies at or under the outer directory.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where the inner store has no path that long.
    fn to_inner(&self, path: &MemoryPath) -> Result<MemoryPath, StoreError> {
        path.replace_prefix(&self.outer, &self.inner).map_err(|_| {
            let (length, most) = (path.as_str().len(), self.max_outer_bytes());
            let reason =
                format!("The path is {length} bytes long; the limit in this memory is {most}. Use a shorter path.");
            StoreError::refused(path, POLICY, reason)
        })
    }

    /// Where the inner store checks a precondition of a read on `path`. The root is always a directory, but the inner store may have none
    /// for it: a precondition on the root is one on the root of the inner store, and fails in the same way.
    fn required_to_inner(&self, path: &MemoryPath) -> Result<MemoryPath, StoreError> {
        if path.is_root() { Ok(MemoryPath::root()) } else { self.to_inner(path) }
    }

    fn record_to_inner(&self, name: &RecordName) -> Result<RecordName, StoreError> {
        if self.record_prefix.is_empty() {
            return Ok(name.clone());
        }
        let prefixed = format!("{}{name}", self.record_prefix).parse();
        prefixed.map_err(|error: InvalidRecordName| StoreError::failure(FailureKind::Other, "naming a record", error))
    }

    /// The batch as the inner store has to apply it.
    ///
    /// # Errors
    /// Those of [`to_inner`](Self::to_inner) and [`record_to_inner`](Self::record_to_inner).
    fn batch_to_inner(&self, batch: Batch) -> Result<Batch, StoreError> {
        batch.try_map(|path| self.to_inner(path), |name| self.record_to_inner(name))
    }

    /// What is shown as `path`, which the inner store keeps. `None` where that lies elsewhere, or is too long to be shown.
    fn to_outer(&self, path: &MemoryPath) -> Option<MemoryPath> {
        let is_within = *path == self.inner || path.is_under(&self.inner);
        if is_within { path.replace_prefix(&self.inner, &self.outer).ok() } else { None }
    }

    fn record_to_outer(&self, name: &RecordName) -> Option<RecordName> {
        name.as_str().strip_prefix(&self.record_prefix)?.parse().ok()
    }

    fn files_to_outer(&self, files: Vec<FileEntry>) -> Vec<FileEntry> {
        let shown = |mut file: FileEntry| {
            file.path = self.to_outer(&file.path)?;
            Some(file)
        };
        files.into_iter().filter_map(shown).collect()
    }

    /// The error with the paths that are shown in place of those of the inner store.
    fn error_to_outer(&self, error: StoreError) -> StoreError {
        // A link may stand above the inner directory. Whoever is shown that directory sees it at its root.
        let outer = |path: MemoryPath| self.to_outer(&path).unwrap_or_else(|| self.outer.clone());
        match error {
            StoreError::AlreadyExists { path } => StoreError::AlreadyExists { path: outer(path) },
            StoreError::NotFound { path } => StoreError::NotFound { path: outer(path) },
            StoreError::VersionMismatch { path } => StoreError::VersionMismatch { path: outer(path) },
            StoreError::NotADirectory { path } => StoreError::NotADirectory { path: outer(path) },
            StoreError::SymbolicLink { path } => StoreError::SymbolicLink { path: outer(path) },
            StoreError::NotARegularFile { path } => StoreError::NotARegularFile { path: outer(path) },
            StoreError::NotAFile { path } => StoreError::NotAFile { path: outer(path) },
            StoreError::NotText { path } => StoreError::NotText { path: outer(path) },
            StoreError::RecordMismatch { ref name } => match self.record_to_outer(name) {
                Some(name) => StoreError::RecordMismatch { name },
                None => hidden(error),
            },
            StoreError::OverQuota { path, kind, limit, asked, left } => {
                StoreError::OverQuota { path: outer(path), kind, limit, asked, left }
            }
            StoreError::Refused { path, policy, reason } => {
                StoreError::Refused { path: outer(path), policy, reason: self.text_to_outer(&reason) }
            }
            StoreError::Path(PathError::TooLong { path, length }) => self.too_long_to_outer(&path, length),
            // The model reads nothing of these but the kind of the failure.
            StoreError::Failure { .. } | StoreError::InvalidBatch(_) => error,
            error => hidden(error),
        }
    }

    /// The refusal of a rename that would give a file of the inner store a path of `length` bytes, beginning with `path`.
    fn too_long_to_outer(&self, path: &str, length: usize) -> StoreError {
        let path = self.text_to_outer(path);
        let length = (length + self.outer.as_str().len()).saturating_sub(self.inner.as_str().len());
        if length > MAX_PATH_BYTES {
            return StoreError::Path(PathError::TooLong { path, length });
        }
        let most = self.max_outer_bytes();
        let reason = format!(
            "The path {path} would be {length} bytes long; the limit in this memory is {most}. Use a shorter path."
        );
        StoreError::refused(&self.outer, POLICY, reason)
    }

    /// Text with paths of the inner store in it, as it is shown.
    fn text_to_outer(&self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(self.inner.as_str()) {
            let (before, found) = rest.split_at(at);
            let (found, after) = found.split_at(self.inner.as_str().len());
            // A path begins with `/memories`, and may hold a name that does.
            let is_within_path = before.chars().next_back().is_some_and(is_of_name);
            shown.push_str(before);
            shown.push_str(if is_within_path { found } else { self.outer.as_str() });
            rest = after;
        }
        shown + rest
    }

    /// The length of the longest path on the outer side for which the inner store has one.
    fn max_outer_bytes(&self) -> usize {
        MAX_PATH_BYTES + self.outer.as_str().len() - self.inner.as_str().len()
    }
}

/// An error of which nothing is shown, because its paths cannot be translated.
fn hidden(error: StoreError) -> StoreError {
    StoreError::failure(FailureKind::Other, "using the inner store", error)
}

/// Whether a name may well end with it, and a sentence before a path does not.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_with_the_paths_that_are_shown_and_names_stay() {
        let relocation = |outer: &str, inner: &str| Relocation {
            outer: outer.parse().unwrap(),
            inner: inner.parse().unwrap(),
            record_prefix: String::new(),
        };
        let mounted = relocation("/memories/team", "/memories");
        for (text, shown) in [
            ("/memories/a is too long", "/memories/team/a is too long"),
            ("from /memories/a to (/memories/b)", "from /memories/team/a to (/memories/team/b)"),
            ("Path /memories/a/memories-old is full", "Path /memories/team/a/memories-old is full"),
            ("/memories", "/memories/team"),
            ("no path", "no path"),
        ] {
            assert_eq!(mounted.text_to_outer(text), shown);
        }
        let scoped = relocation("/memories", "/memories/scope-alice");
        assert_eq!(scoped.text_to_outer("\u{201c}/memories/scope-alice/a\u{201d}"), "\u{201c}/memories/a\u{201d}");
    }
}
