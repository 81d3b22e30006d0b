//! Finding the prefixes of stores in a bucket.

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;

use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::keys::Keys;

/// The most prefixes that are looked up. A bucket can have millions.
const MAX_PREFIXES: usize = 100;
const CONCURRENCY: usize = 16;

/// The prefixes of other stores near a store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct OtherPrefixes {
    /// The sorted prefixes.
    pub prefixes: Vec<Path>,
    /// Whether all prefixes near the store were looked up, not only the first 100.
    pub is_complete: bool,
}

impl Inner {
    pub(crate) async fn other_prefixes(&self) -> Result<OtherPrefixes, Failure> {
        let (keys, deadline) = (&self.bucket.keys, self.deadline());
        let mut near = self.bucket.directories(keys.prefix(), &deadline).await?;
        if let Some(parent) = keys.parent() {
            near.extend(self.bucket.directories(&parent, &deadline).await?);
        }
        let own = [keys.prefix().clone(), keys.log(), keys.checkpoints(), keys.contents()];
        near.retain(|prefix| !own.contains(prefix));
        near.sort_unstable();
        let is_complete = near.len() <= MAX_PREFIXES;
        near.truncate(MAX_PREFIXES);
        Ok(OtherPrefixes { prefixes: self.stores(near, &deadline).await?, is_complete })
    }

    /// The sorted prefixes of the stores at and right under this prefix.
    pub(crate) async fn prefixes(&self) -> Result<Vec<Path>, Failure> {
        let (keys, deadline) = (&self.bucket.keys, self.deadline());
        let mut prefixes = self.bucket.directories(keys.prefix(), &deadline).await?;
        prefixes.retain(|prefix| ![keys.log(), keys.checkpoints(), keys.contents()].contains(prefix));
        prefixes.push(keys.prefix().clone());
        prefixes.sort_unstable();
        self.stores(prefixes, &deadline).await
    }

    /// The prefixes that hold a store. It always has its first commit, also after it was trimmed.
    async fn stores(&self, prefixes: Vec<Path>, deadline: &Deadline) -> Result<Vec<Path>, Failure> {
        let stores = stream::iter(prefixes).map(|prefix| async move {
            let first = Keys::new(prefix.clone()).commit(1);
            Ok::<_, Failure>(self.bucket.head(&first, deadline).await?.map(|_| prefix))
        });
        stores.buffered(CONCURRENCY).try_filter_map(async |found| Ok(found)).try_collect().await
    }
}
