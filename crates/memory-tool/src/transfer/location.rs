//! [`TransferContext`] and [`MemoryLocation`], for detecting copies of a memory into itself.

use std::fs;
use std::path::{self, Component, Path, PathBuf};
use std::sync::Arc;

use memory_tool_core::MemoryPath;
use memory_tool_policies::Screen;

use crate::store_url::StoreUrl;
use crate::transfer::blocking;

/// The properties of a memory that transfers use, in addition to its store.
#[derive(Debug)]
pub(crate) struct TransferContext {
    /// The location of its files, if the memory has a URL.
    pub(crate) location: Option<MemoryLocation>,
    pub(crate) is_dry_run: bool,
    pub(crate) screen: Option<Arc<dyn Screen>>,
}

/// The URL and scope of a memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLocation {
    pub(crate) url: StoreUrl,
    /// The directory of the scope.
    pub(crate) directory: MemoryPath,
}

impl MemoryLocation {
    /// Whether the memories may share files.
    pub(super) async fn overlap(one: &Option<Self>, other: &Option<Self>) -> bool {
        let (Some(one), Some(other)) = (one.clone(), other.clone()) else { return false };
        // Resolving symbolic links blocks.
        let overlap =
            blocking::run(move || one.resolve().zip(other.resolve()).is_some_and(|(one, other)| one.overlaps(&other)));
        overlap.await.unwrap_or(false)
    }

    /// The location, or `None` for an in-process memory.
    fn resolve(&self) -> Option<ResolvedLocation> {
        let part = |memory: &str| Some((memory.to_owned(), self.directory.clone()));
        let (place, part) = match &self.url {
            StoreUrl::Local(base) | StoreUrl::TrustedDirectory { path: base, .. } => {
                let below = self.directory.as_str().trim_start_matches('/');
                (Place::Path(resolved(&base.join(below))), None)
            }
            StoreUrl::Sqlite { path, memory } => (Place::Path(resolved(path)), part(memory)),
            StoreUrl::Postgres { url, memory } => (Place::Url(normalized(url)), part(memory)),
            StoreUrl::Bucket { url } => (Place::Url(normalized(url)), part("")),
            StoreUrl::InProcess => return None,
        };
        Some(ResolvedLocation { place, part })
    }
}

/// A location in canonical form, which does not depend on the spelling of the URL.
struct ResolvedLocation {
    place: Place,
    /// The memory and the directory in a database or bucket. `None` if the place is a directory.
    part: Option<(String, MemoryPath)>,
}

#[derive(Eq, PartialEq)]
enum Place {
    Path(PathBuf),
    /// Two URLs that differ can still name the same database.
    Url(String),
}

impl ResolvedLocation {
    fn overlaps(&self, other: &Self) -> bool {
        match (&self.part, &other.part) {
            (Some((memory, directory)), Some((other_memory, other_directory))) => {
                self.place == other.place && memory == other_memory && directory.overlaps(other_directory)
            }
            _ => match (&self.place, &other.place) {
                (Place::Path(one), Place::Path(other)) => one.starts_with(other) || other.starts_with(one),
                _ => false,
            },
        }
    }
}

/// Resolves links, `.` and `..`. Components that do not exist are kept.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = resolved.pop(),
            component => {
                resolved.push(component);
                if let Ok(target) = fs::canonicalize(&resolved) {
                    resolved = target;
                }
            }
        }
    }
    resolved
}

fn normalized(url: &str) -> String {
    let (scheme, location) = url.split_once(':').unwrap_or(("", url));
    format!("{}:{}", scheme.to_ascii_lowercase(), location.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: &str, directory: &str) -> ResolvedLocation {
        MemoryLocation { url: url.parse().unwrap(), directory: directory.parse().unwrap() }.resolve().unwrap()
    }

    #[test]
    fn the_spelling_of_a_bucket_url_does_not_matter() {
        let bucket = |url| location(url, "/memories");
        assert!(bucket("s3://bucket/a").overlaps(&bucket("S3://bucket/a/")));
        assert!(bucket("s3://bucket").overlaps(&bucket("s3://bucket/")));
        for other in ["s3://bucket/b", "s3://bucket", "gs://bucket/a", "s3://other/a", "./bucket/a"] {
            assert!(!bucket("s3://bucket/a").overlaps(&bucket(other)), "{other}");
        }
    }

    #[test]
    fn scopes_overlap_the_whole_store_but_not_each_other() {
        let (whole, a, b, ab) = ("/memories", "/memories/scope-a", "/memories/scope-b", "/memories/scope-ab");
        for url in ["none", "sqlite:none.db", "s3://bucket/a", "postgres://host/a"] {
            let overlap = |one, other| location(url, one).overlaps(&location(url, other));
            assert!(!overlap(a, b) && !overlap(a, ab), "{url}");
            assert!(overlap(whole, a) && overlap(a, whole) && overlap(a, a), "{url}");
        }
    }
}
