//! [`Place`]: where the files of a store lie, and whether those of another can be among them.

use std::fs;
use std::path::{self, Component, Path, PathBuf};

use memory_tool_core::MemoryPath;
use memory_tool_policies::Scope;
use memory_tool_url::StoreUrl;

/// Where the files of a store lie, or those of one scope of it, however the store was named.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Directory(PathBuf),
    Database { file: PathBuf, store: String, directory: MemoryPath },
    Bucket { url: String, directory: MemoryPath },
}

impl Place {
    /// The place of a store; `None` where it keeps nothing.
    pub(crate) fn of(url: &StoreUrl, scope: Option<&Scope>) -> Option<Self> {
        let directory = scope.map_or_else(MemoryPath::root, |scope| scope.directory().clone());
        match url {
            StoreUrl::Local(base) => {
                let below = directory.as_str().trim_start_matches('/');
                Some(Self::Directory(resolved(&base.join(below))))
            }
            StoreUrl::Sqlite { path, store } => {
                Some(Self::Database { file: resolved(path), store: store.clone(), directory })
            }
            StoreUrl::Bucket { url } => Some(Self::Bucket { url: normalized(url), directory }),
            _ => None,
        }
    }

    /// Whether what is written to one can be among the files of the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Database { file, store, directory },
                Self::Database { file: other_file, store: other_store, directory: other_directory },
            ) => file == other_file && store == other_store && directory.overlaps(other_directory),
            (Self::Bucket { url, directory }, Self::Bucket { url: other_url, directory: other_directory }) => {
                url == other_url && directory.overlaps(other_directory)
            }
            (Self::Bucket { .. }, _) | (_, Self::Bucket { .. }) => false,
            (
                Self::Directory(one) | Self::Database { file: one, .. },
                Self::Directory(other) | Self::Database { file: other, .. },
            ) => one.starts_with(other) || other.starts_with(one),
        }
    }
}

/// The path without links, `.` and `..`. What is not there yet is taken by its names.
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

/// The URL as all write it that mean this bucket and prefix.
fn normalized(url: &str) -> String {
    let (scheme, location) = url.split_once(':').unwrap_or(("", url));
    format!("{}:{}", scheme.to_ascii_lowercase(), location.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, scope: Option<&str>) -> Place {
        let scope = scope.map(|name| Scope::from_trusted_name(name).unwrap());
        Place::of(&url.parse().unwrap(), scope.as_ref()).unwrap()
    }

    #[test]
    fn a_bucket_is_one_however_it_is_written() {
        let bucket = |url| place(url, None);
        assert!(bucket("s3://bucket/a").overlaps(&bucket("S3://bucket/a/")));
        assert!(bucket("s3://bucket").overlaps(&bucket("s3://bucket/")));
        for other in ["s3://bucket/b", "s3://bucket", "gs://bucket/a", "s3://other/a", "./bucket/a"] {
            assert!(!bucket("s3://bucket/a").overlaps(&bucket(other)), "{other}");
        }
    }

    #[test]
    fn two_scopes_have_nothing_in_common_and_all_have_with_the_whole() {
        for url in ["none", "sqlite:none.db", "s3://bucket/a"] {
            let overlap = |one, other| place(url, one).overlaps(&place(url, other));
            assert!(!overlap(Some("a"), Some("b")) && !overlap(Some("a"), Some("ab")), "{url}");
            assert!(overlap(None, Some("a")) && overlap(Some("a"), None) && overlap(Some("a"), Some("a")), "{url}");
        }
    }
}
