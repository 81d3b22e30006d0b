//! [`Copied`]: the result of copying a memory with its history.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_tool_core::{Batch, Precondition, ReadOptions, Store, StoreError, StorePath, UnlistedItem};

use crate::log::{Log, PARALLEL_READS};
use crate::records;
use crate::tip::Tip;

/// The result of [`History::copy_to`](crate::History::copy_to).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Copied {
    /// The number of files.
    pub files: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// The number of entries.
    pub entries: u64,
    /// The items that cannot be listed, which were left out.
    pub unlisted: Vec<UnlistedItem>,
}

/// Reads all files and records at this end of the log, and returns a batch that writes them.
pub(crate) async fn whole<S: Store>(log: &Log<S>, tip: &Tip) -> Result<(Batch, Copied), StoreError> {
    let mut batch = Batch::new().require(records::head(), Precondition::Absent);
    let mut copied = Copied { entries: tip.next.saturating_sub(tip.head.first), ..Copied::default() };
    for directory in [StorePath::memories(), records::root()] {
        let listing = log.store.read_opts(&directory, ReadOptions::new()).await?.into_listing();
        let reads: Vec<_> = listing.files.iter().map(|file| content(&log.store, &file.path)).collect();
        let contents: Vec<_> = stream::iter(reads).buffered(PARALLEL_READS).try_collect().await?;
        for (file, content) in listing.files.iter().zip(contents) {
            if !file.path.is_record() {
                copied.files += 1;
                copied.bytes += content.len() as u64;
            }
            batch = batch.require(file.path.clone(), Precondition::Absent);
            batch = batch.write_with_times(file.path.clone(), content, file.times());
        }
        copied.unlisted.extend(listing.unlisted);
    }
    log.store.read_opts(&records::head(), tip.require_in_read()).await?; // otherwise it is read again
    Ok((batch, copied))
}

async fn content(store: &impl Store, path: &StorePath) -> Result<Vec<u8>, StoreError> {
    let node = store.read_opts(path, ReadOptions::new()).await?;
    node.into_file().map(|file| file.content).ok_or_else(|| StoreError::NotFound { path: path.clone() })
}

/// Refuses a memory that has files.
pub(crate) async fn refuse_files(store: &impl Store) -> Result<(), StoreError> {
    let listing = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing();
    listing.files.into_iter().next().map_or(Ok(()), |file| Err(StoreError::AlreadyExists { path: file.path }))
}
