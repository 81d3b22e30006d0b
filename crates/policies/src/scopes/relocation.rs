//! [`Relocated`]: a directory of an inner store at another path.

use memory_tool_core::{
    Batch, Change, ErrorKind, FileEntry, Listing, MAX_PATH_BYTES, Node, PathError, Precondition, ReadOptions, Stat,
    Store, StoreError, StorePath, UnlistedItem,
};

/// The policy named in the refusal of a path that is too long.
const POLICY: &str = "scope";

/// One directory of a store at another path, perhaps with another directory for its records.
#[derive(Clone, Debug)]
pub(crate) struct Relocated<S> {
    store: S,
    relocation: Relocation,
}

impl<S: Store> Relocated<S> {
    /// Makes the directory `inner` of the store available at the path `outer`.
    pub(crate) fn new(store: S, outer: impl Into<StorePath>, inner: impl Into<StorePath>) -> Self {
        Self {
            store,
            relocation: Relocation { outer: outer.into(), inner: inner.into(), inner_records: StorePath::records() },
        }
    }

    /// Keeps the records in this directory of the inner store.
    pub(crate) fn with_records_in(mut self, directory: StorePath) -> Self {
        self.relocation.inner_records = directory;
        self
    }

    /// The path of the directory on the outer side.
    pub(crate) fn outer(&self) -> &StorePath {
        &self.relocation.outer
    }

    /// Reads a path. Listings omit files without a valid outer path.
    pub(crate) async fn read(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let path = self.relocation.to_inner(path)?;
        let options = options.try_map(|path| self.relocation.required_to_inner(path))?;
        match self.store.read_opts(&path, options).await {
            Ok(Node::Directory(listing)) => Ok(Node::Directory(self.relocation.listing_to_outer(listing))),
            Ok(node) => Ok(node),
            Err(error) => Err(self.relocation.error_to_outer(error)),
        }
    }

    /// Lists a directory. The list is empty if the path is absent or a file.
    pub(crate) async fn list(&self, directory: &StorePath) -> Result<Listing, StoreError> {
        Ok(self.read(directory, ReadOptions::new()).await?.into_listing())
    }

    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let batch = batch.try_map(|path| self.relocation.to_inner(path))?;
        self.store.apply(batch).await.map_err(|error| self.relocation.error_to_outer(error))
    }
}

/// Splits off a precondition on the root, which the inner store could not check because it may not have a directory for
/// it.
///
/// Returns the preconditions before the first one on the root, without changes, and the error of the latter: the root
/// is always a directory. Returns `None` if the batch has no precondition on the root.
pub(crate) fn cut_at_root(batch: &Batch) -> Option<(Batch, StoreError)> {
    let index = batch.preconditions().iter().position(|(path, _)| path.is_root())?;
    let (root, precondition) = &batch.preconditions()[index];
    let unmet = precondition.check(root, &Stat::Directory).err()?;
    let before = batch.actor().cloned().into_iter().fold(Batch::new(), Batch::by);
    let before = batch.command().into_iter().fold(before, Batch::for_command);
    Some((before.require_all(batch.preconditions()[..index].iter().cloned()), unmet))
}

/// Returns the batch without the removal of a root, provided that the root is empty.
pub(crate) fn without_clearing(batch: &Batch, root: &StorePath) -> Batch {
    let rest = batch.clone().retain(|change| !matches!(change, Change::Remove { path } if path == root));
    rest.require(root, Precondition::Absent)
}

/// Translates paths, batches, files and errors between the directory `inner` of an inner store and the path `outer`,
/// without revealing the inner paths.
#[derive(Clone, Debug)]
struct Relocation {
    outer: StorePath,
    inner: StorePath,
    inner_records: StorePath,
}

impl Relocation {
    /// Translates `path`, which must be at or under the outer directory, to the inner path.
    ///
    /// # Errors
    /// Returns [`StoreError::Refused`] if the inner path would be too long.
    fn to_inner(&self, path: &StorePath) -> Result<StorePath, StoreError> {
        if path.is_record() {
            let inner = path.replace_prefix(&StorePath::records(), &self.inner_records);
            return inner.map_err(|_| StoreError::failure(ErrorKind::Other, "naming a record", "its path is too long"));
        }
        path.replace_prefix(&self.outer, &self.inner).map_err(|_| {
            let (length, most) = (path.as_str().len(), self.max_outer_bytes());
            let reason =
                format!("The path is {length} bytes long; the limit in this memory is {most}. Use a shorter path.");
            StoreError::refused(path, POLICY, reason)
        })
    }

    /// Translates the path of a precondition of a read. The root stays the root, because the inner store may not have a
    /// directory for it: the precondition fails in the same way on the root of the inner store.
    fn required_to_inner(&self, path: &StorePath) -> Result<StorePath, StoreError> {
        if path.is_root() { Ok(path.clone()) } else { self.to_inner(path) }
    }

    /// Translates an inner path to the outer path. Returns `None` if it is outside the directory, or if the outer path
    /// would be too long.
    fn to_outer(&self, path: &StorePath) -> Option<StorePath> {
        let records = StorePath::records();
        let (inner, outer) =
            if path.is_record() { (&self.inner_records, &records) } else { (&self.inner, &self.outer) };
        let is_within = path == inner || path.is_under(inner);
        if is_within { path.replace_prefix(inner, outer).ok() } else { None }
    }

    fn listing_to_outer(&self, listing: Listing) -> Listing {
        let shown = |mut file: FileEntry| {
            file.path = self.to_outer(&file.path)?;
            Some(file)
        };
        let counted = |mut item: UnlistedItem| {
            item.directory = self.to_outer(&item.directory)?;
            Some(item)
        };
        Listing::from_iter(listing.files.into_iter().filter_map(shown))
            .with_unlisted(listing.unlisted.into_iter().filter_map(counted).collect())
    }

    fn error_to_outer(&self, error: StoreError) -> StoreError {
        // A symbolic link may be above the inner directory. It is reported at the outer directory.
        let outer = |path: StorePath| {
            let above = || if path.is_record() { StorePath::records() } else { self.outer.clone() };
            self.to_outer(&path).unwrap_or_else(above)
        };
        match error {
            StoreError::AlreadyExists { path } => StoreError::AlreadyExists { path: outer(path) },
            StoreError::NotFound { path } => StoreError::NotFound { path: outer(path) },
            StoreError::VersionMismatch { path } => StoreError::VersionMismatch { path: outer(path) },
            StoreError::NotADirectory { path } => StoreError::NotADirectory { path: outer(path) },
            StoreError::SymbolicLink { path } => StoreError::SymbolicLink { path: outer(path) },
            StoreError::NotARegularFile { path } => StoreError::NotARegularFile { path: outer(path) },
            StoreError::NotAFile { path } => StoreError::NotAFile { path: outer(path) },
            StoreError::NotText { path } => StoreError::NotText { path: outer(path) },
            StoreError::OverQuota { path, kind, limit, requested, remaining } => {
                StoreError::OverQuota { path: outer(path), kind, limit, requested, remaining }
            }
            StoreError::Refused { path, policy, reason } => {
                StoreError::Refused { path: outer(path), policy, reason: self.text_to_outer(&reason) }
            }
            StoreError::Path(PathError::TooLong { path, length }) => self.too_long_to_outer(&path, length),
            // The model reads only the kind of these errors.
            StoreError::Failure { .. } | StoreError::InvalidBatch(_) => error,
            error => hidden(error),
        }
    }

    /// Refuses a rename that would give a file of the inner store a path of `length` bytes, which begins with `path`.
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

    fn text_to_outer(&self, text: &str) -> String {
        let mut translated = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(self.inner.as_str()) {
            let (before, found) = rest.split_at(at);
            let (found, after) = found.split_at(self.inner.as_str().len());
            // A path begins with `/memories`, and may also contain a name that begins with `memories`.
            let is_within_path = before.chars().next_back().is_some_and(is_name_character);
            translated.push_str(before);
            translated.push_str(if is_within_path { found } else { self.outer.as_str() });
            rest = after;
        }
        translated + rest
    }

    /// The length of the longest outer path whose inner path is not too long.
    fn max_outer_bytes(&self) -> usize {
        MAX_PATH_BYTES + self.outer.as_str().len() - self.inner.as_str().len()
    }
}

/// Hides an error whose paths cannot be translated.
fn hidden(error: StoreError) -> StoreError {
    StoreError::failure(ErrorKind::Other, "using the inner store", error)
}

/// Whether the character before `/memories` is probably part of a path, not of a sentence.
fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_outer_translates_paths_and_leaves_names_alone() {
        let relocation = |outer: &str, inner: &str| Relocation {
            outer: outer.parse().unwrap(),
            inner: inner.parse().unwrap(),
            inner_records: StorePath::records(),
        };
        let mounted = relocation("/memories/team", "/memories");
        for (text, expected) in [
            ("/memories/a is too long", "/memories/team/a is too long"),
            ("from /memories/a to (/memories/b)", "from /memories/team/a to (/memories/team/b)"),
            ("Path /memories/a/memories-old is full", "Path /memories/team/a/memories-old is full"),
            ("/memories", "/memories/team"),
            ("no path", "no path"),
        ] {
            assert_eq!(mounted.text_to_outer(text), expected);
        }
        let scoped = relocation("/memories", "/memories/scope-alice");
        assert_eq!(scoped.text_to_outer("\u{201c}/memories/scope-alice/a\u{201d}"), "\u{201c}/memories/a\u{201d}");
    }
}
