//! [`Relocated`]: a directory of one store shown at another path.

use memory_tool_core::{
    Batch, Change, Expected, FailureKind, FileEntry, Found, MAX_PATH_BYTES, MemoryPath, Node, PathError, Store,
    StoreError,
};

/// A precondition of a batch.
pub(crate) type Precondition = (MemoryPath, Expected);

/// A store of which one directory is shown, at another path.
#[derive(Clone, Debug)]
pub(crate) struct Relocated<S> {
    store: S,
    relocation: Relocation,
}

impl<S: Store> Relocated<S> {
    /// The directory `inner` of the store, shown at the path `outer`.
    pub(crate) fn new(store: S, outer: MemoryPath, inner: MemoryPath) -> Self {
        Self { store, relocation: Relocation { outer, inner } }
    }

    /// The path at which the directory is shown.
    pub(crate) fn outer(&self) -> &MemoryPath {
        &self.relocation.outer
    }

    pub(crate) async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        let path = self.relocation.to_inner(path)?;
        self.store.read(&path).await.map_err(|error| self.relocation.error_to_outer(error))
    }

    /// The files beneath the directory. As in every listing, those that have no legal path here are left out.
    pub(crate) async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        let directory = self.relocation.to_inner(directory)?;
        let listed = self.store.list(&directory).await;
        listed.map(|files| self.relocation.files_to_outer(files)).map_err(|error| self.relocation.error_to_outer(error))
    }

    pub(crate) async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        let path = self.relocation.to_inner(path)?;
        let found = self.store.read_or_list(&path).await.map_err(|error| self.relocation.error_to_outer(error))?;
        Ok(match found {
            Found::Directory(files) => Found::Directory(self.relocation.files_to_outer(files)),
            Found::Absent | Found::File(_) => found,
        })
    }

    pub(crate) async fn read_if(&self, path: &MemoryPath, preconditions: &[Precondition]) -> Result<Node, StoreError> {
        let path = self.relocation.to_inner(path)?;
        let preconditions = self.relocation.preconditions_to_inner(preconditions.to_vec())?;
        self.store.read_if(&path, &preconditions).await.map_err(|error| self.relocation.error_to_outer(error))
    }

    pub(crate) async fn apply(&self, preconditions: Vec<Precondition>, changes: Vec<Change>) -> Result<(), StoreError> {
        let batch = self.relocation.batch_to_inner(preconditions, changes)?;
        self.store.apply(batch).await.map_err(|error| self.relocation.error_to_outer(error))
    }
}

/// Where the inner store has no root of its own, what a batch requires of the root is judged by this instead: how it fails,
/// with that precondition and all after it taken away. The ones before it are still to be looked at. A capacity of the root is one
/// of what is beneath it, which the inner store judges.
pub(crate) fn cut_at_root(preconditions: &mut Vec<Precondition>) -> Option<StoreError> {
    let (index, error) = preconditions.iter().enumerate().find_map(|(index, (path, expected))| {
        let is_judged_here = path.is_root() && !matches!(expected, Expected::Capacity(_));
        let unmet = if is_judged_here { expected.check(path, &Node::Directory).err() } else { None };
        unmet.map(|error| (index, error))
    })?;
    preconditions.truncate(index);
    Some(error)
}

/// The directory `inner` of an inner store, shown at the path `outer`. Translates paths, batches, files and errors, so that
/// whoever sees the outer side learns nothing of the inner one.
#[derive(Clone, Debug)]
struct Relocation {
    outer: MemoryPath,
    inner: MemoryPath,
}

impl Relocation {
    /// Where the inner store keeps `path`, which lies at or beneath the outer directory.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where the inner store has no path that long.
    fn to_inner(&self, path: &MemoryPath) -> Result<MemoryPath, StoreError> {
        path.rebase(&self.outer, &self.inner).map_err(|_| {
            let (length, most) = (path.as_str().len(), self.max_outer_bytes());
            let reason = format!("The path has {length} bytes. In this memory a path may have up to {most} bytes");
            StoreError::Refused { path: path.clone(), reason }
        })
    }

    /// The batch of these preconditions and changes as the inner store has to apply it.
    ///
    /// # Errors
    /// Those of [`to_inner`](Self::to_inner).
    fn batch_to_inner(&self, preconditions: Vec<Precondition>, changes: Vec<Change>) -> Result<Batch, StoreError> {
        let mut batch = Batch::new().with_preconditions(self.preconditions_to_inner(preconditions)?);
        for change in changes {
            batch = match change {
                Change::Write { path, content } => batch.write(self.to_inner(&path)?, content)?,
                Change::Remove { path } => batch.remove(self.to_inner(&path)?)?,
                Change::Rename { from, to } => batch.rename(self.to_inner(&from)?, self.to_inner(&to)?)?,
            };
        }
        Ok(batch)
    }

    fn preconditions_to_inner(&self, preconditions: Vec<Precondition>) -> Result<Vec<Precondition>, StoreError> {
        let translate = |(path, expected)| Ok((self.to_inner(&path)?, self.expected_to_inner(expected)?));
        preconditions.into_iter().map(translate).collect()
    }

    fn expected_to_inner(&self, mut expected: Expected) -> Result<Expected, StoreError> {
        if let Expected::Capacity(capacity) = &mut expected {
            for file in &mut capacity.uncounted {
                *file = self.to_inner(file)?;
            }
        }
        Ok(expected)
    }

    /// What is shown as `path`, which the inner store keeps. `None` where that lies elsewhere, or is too long to be shown.
    fn to_outer(&self, path: &MemoryPath) -> Option<MemoryPath> {
        let is_within = *path == self.inner || path.is_beneath(&self.inner);
        if is_within { path.rebase(&self.inner, &self.outer).ok() } else { None }
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
            StoreError::OverCapacity { path, measure, limit, asked, left } => {
                StoreError::OverCapacity { path: outer(path), measure, limit, asked, left }
            }
            StoreError::Refused { path, reason } => {
                StoreError::Refused { path: outer(path), reason: self.text_to_outer(&reason) }
            }
            StoreError::Path(PathError::TooLong { path, length }) => self.too_long_to_outer(&path, length),
            // The model reads nothing of these but the kind of the failure.
            StoreError::Failure { .. } | StoreError::InvalidBatch(_) => error,
            // Nothing is shown of an error that this function does not know.
            error => StoreError::failure(FailureKind::Other, "using the inner store", error),
        }
    }

    /// What a rename is told that would give a file of the inner store a path of `length` bytes, beginning with `path`.
    fn too_long_to_outer(&self, path: &str, length: usize) -> StoreError {
        let path = self.text_to_outer(path);
        let length = (length + self.outer.as_str().len()).saturating_sub(self.inner.as_str().len());
        if length > MAX_PATH_BYTES {
            return StoreError::Path(PathError::TooLong { path, length });
        }
        let most = self.max_outer_bytes();
        let reason =
            format!("Path {path} would have {length} bytes. In this memory a path may have up to {most} bytes");
        StoreError::Refused { path: self.outer.clone(), reason }
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

/// Whether a name may well end with it, and a sentence before a path does not.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_with_the_paths_that_are_shown_and_names_stay() {
        let relocation =
            |outer: &str, inner: &str| Relocation { outer: outer.parse().unwrap(), inner: inner.parse().unwrap() };
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
