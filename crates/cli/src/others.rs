//! Other memories and scopes near the one that a command reads.

#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
use memory_tool::StoreError;
use memory_tool::policies::Scope;
use memory_tool::store::MemoryName;
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
use memory_tool::store::{ReadOptions, StorePath};
use memory_tool::{Backend, Memory, StoreUrl};
use serde::Serialize;

use crate::failure::{Context as _, Failure, eprint_line};
use crate::terminal::escapes::on_one_line;

const MEMORIES: [&str; 2] = ["memory", "memories"];

const LISTING: &str = "cannot look for other memories and scopes";

/// A report for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct WithOthers<R> {
    #[serde(flatten)]
    pub(crate) report: R,
    /// The number of other memories and scopes, or `None` if they cannot be listed.
    pub(crate) others: Option<u64>,
    /// The number of files in proposals, if the command leaves these out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<usize>,
}

#[derive(Default)]
struct Others {
    /// In the singular and in the plural.
    nouns: [&'static str; 2],
    names: Vec<String>,
    /// Whether there can be more.
    is_cut: bool,
    /// The database, prefix or store that holds them.
    place: String,
    /// Whether the memory that the command reads has neither files nor a history.
    is_read_empty: bool,
}

impl Others {
    /// The other memories in the database of a URL, where these exist.
    fn in_database(url: &StoreUrl, own: &str, names: &[MemoryName], place: String) -> Self {
        let is_read_empty = names.iter().all(|other| other.as_str() != own);
        let others = names.iter().map(MemoryName::as_str).filter(|other| *other != own);
        let names = others.filter_map(|other| url.child(other)).map(|url| url.to_string()).collect();
        Self { nouns: MEMORIES, names, is_cut: false, place, is_read_empty }
    }

    fn in_words(&self) -> String {
        let Self { nouns: [one, many], names, is_cut, .. } = self;
        let least = if *is_cut { "at least " } else { "" };
        format!("{least}{} other {}", names.len(), if names.len() == 1 { one } else { many })
    }
}

/// Reports that other memories and scopes are not read, so that a mistyped name does not look like a complete copy or
/// check. If this memory is empty, that is an error. Returns the number of the others, if they can be listed.
pub(crate) async fn report_others(
    memory: &Memory,
    url: &StoreUrl,
    scope: Option<&Scope>,
) -> Result<Option<u64>, Failure> {
    let memories = other_memories(memory, url).await?;
    let scopes = match scope {
        Some(scope) => other_scopes(memory, url, scope).await?,
        None => Others::default(), // all scopes are read
    };
    for others in memories.iter().chain([&scopes]) {
        let Some(example) = others.names.first() else { continue };
        if others.is_read_empty {
            let (others, place, example) = (others.in_words(), others.place.clone(), example.clone());
            let message = format!(
                "there are no files in {url}, but {others} in {place}; name a memory, such as {example}, or add --all"
            );
            return Err(Failure::new(message));
        }
        let note = format!("memory-tool: {} has {}, not included here", others.place, others.in_words());
        eprint_line(&on_one_line(&note));
    }
    Ok(memories.map(|memories| (memories.names.len() + scopes.names.len()) as u64))
}

/// The other memories in the same database or near the same prefix, or `None` if they cannot be listed.
async fn other_memories(memory: &Memory, url: &StoreUrl) -> Result<Option<Others>, Failure> {
    match (url, memory.backend()) {
        (StoreUrl::Sqlite { path, memory: name }, Backend::Sqlite(store)) => {
            let names = store.memory_names().await.context(LISTING)?;
            Ok(Some(Others::in_database(url, name, &names, path.display().to_string())))
        }
        #[cfg(feature = "postgres")]
        (StoreUrl::Postgres { url: place, memory: name }, Backend::Postgres(store)) => {
            let names = store.memory_names().await.context(LISTING)?;
            Ok(Some(Others::in_database(url, name, &names, place.clone())))
        }
        #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
        (StoreUrl::Bucket { url }, Backend::Bucket(store)) => bucket::other_memories(url, store).await,
        _ => Ok(Some(Others::default())),
    }
}

async fn other_scopes(memory: &Memory, url: &StoreUrl, scope: &Scope) -> Result<Others, Failure> {
    let scopes = memory.scopes().await.context(LISTING)?;
    let names = scopes.iter().filter(|other| *other != scope).map(ToString::to_string).collect();
    // A scope with neither files nor a history does not exist, and cannot be opened.
    let is_read_empty = false;
    Ok(Others { nouns: ["scope", "scopes"], names, is_cut: false, place: url.to_string(), is_read_empty })
}

/// Whether a store has neither files nor records. A memory without files can have a history.
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
async fn is_empty(store: &impl memory_tool::Store) -> Result<bool, StoreError> {
    for root in [StorePath::memories(), StorePath::records()] {
        if !store.read_opts(&root, ReadOptions::new()).await?.into_listing().files.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
mod bucket {
    use memory_tool::{ErrorKind, StoreError};
    use memory_tool_bucket::BucketStore;
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

    use super::{LISTING, MEMORIES, Others, is_empty};
    use crate::failure::{Context as _, Failure, eprint_error};

    /// The characters that the prefix of a URL cannot contain.
    const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%').add(b'?');

    pub(super) async fn other_memories(url: &str, store: &BucketStore) -> Result<Option<Others>, Failure> {
        let found = match store.other_prefixes().await {
            Ok(found) => found,
            // The credentials of a tenant are often restricted to its prefix.
            Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. }) => return Ok(None),
            Err(error) => {
                eprint_error(&Failure::caused(LISTING, error));
                return Ok(None);
            }
        };
        let bucket = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let url_of = |prefix: &str| format!("{bucket}/{}", utf8_percent_encode(prefix, ENCODED));
        let names: Vec<_> = found.prefixes.iter().map(|prefix| url_of(prefix.as_ref())).collect();
        let is_read_empty = !names.is_empty() && is_empty(store).await.context(LISTING)?;
        let place = match url.trim_end_matches('/').rsplit_once('/') {
            Some((parent, _)) if parent.len() >= bucket.len() => parent.to_owned(),
            _ => bucket,
        };
        Ok(Some(Others { nouns: MEMORIES, names, is_cut: !found.is_complete, place, is_read_empty }))
    }
}

#[cfg(test)]
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
mod tests {
    use memory_tool::store::Batch;
    use memory_tool::{InMemoryStore, Store as _, StoreExt as _};

    use super::*;

    #[tokio::test]
    async fn a_memory_that_has_only_a_history_is_not_empty() {
        let store = InMemoryStore::new();
        assert!(is_empty(&store).await.unwrap());
        let record: StorePath = "/records/history/head".parse().unwrap();
        store.apply(Batch::new().write(record.clone(), "text")).await.unwrap();
        assert!(!is_empty(&store).await.unwrap());
        store.apply(Batch::new().remove(record)).await.unwrap();
        store.write("/memories/a", "text").await.unwrap();
        assert!(!is_empty(&store).await.unwrap());
    }
}
