//! Finding the prefixes of other stores in the same bucket.

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;

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
        // A store always has its first commit, also after it was trimmed.
        let stores = stream::iter(near).map(|prefix| async move {
            let first = Keys::new(prefix.clone()).commit(1);
            Ok::<_, Failure>(self.bucket.head(&first, &deadline).await?.map(|_| prefix))
        });
        let found = stores.buffered(CONCURRENCY).try_filter_map(async |found| Ok(found)).try_collect().await?;
        Ok(OtherPrefixes { prefixes: found, is_complete })
    }
}
