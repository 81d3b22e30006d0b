//! Collecting the objects that no file refers to. Why it is safe is said at [`BucketStore::gc`](crate::BucketStore::gc).

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::Batch;
use object_store::path::Path;
use object_store::{Error as ObjectError, ObjectMeta};

use crate::bucket::retry;
use crate::commit::Write;
use crate::content::{ContentError, FileRecord};
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::index::Index;
use crate::inner::Inner;

/// An age from which on an object that no file refers to belongs to no write that is still going on, by far.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many objects are removed before one deadline: as many as S3 removes by one request.
const REMOVED_AT_ONCE: usize = 1_000;

/// What a collection found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct GcReport {
    /// How many objects were removed.
    pub removed_objects: u64,
    /// How many bytes they had.
    pub removed_bytes: u64,
    /// How many objects were kept: those that files refer to, and those that are too young.
    pub kept_objects: u64,
}

impl Inner {
    pub(crate) async fn gc(&self, older_than: Duration) -> Result<GcReport, Failure> {
        self.refuse_read_only()?;
        let listed = self.list_objects().await?;
        let old = listed.iter().filter(|object| age(object) >= older_than.max(self.least_age(object))).collect();
        let index_before = self.fetch(&Deadline::after(self.options.timeout)).await?;
        let mut unused = self.unused(old, &index_before.index)?;
        if !unused.is_empty() {
            let noted = self.commit(&Write { batch: Batch::new(), collects: true }).await?;
            unused = self.unused(unused, &noted.index)?;
            self.remove(unused.iter().map(|object| object.location.clone()).collect()).await?;
        }
        Ok(GcReport {
            removed_objects: unused.len() as u64,
            removed_bytes: unused.iter().fold(0, |sum, object| object.size.saturating_add(sum)),
            kept_objects: (listed.len() - unused.len()) as u64,
        })
    }

    /// The objects with contents, and those that were left behind by openings.
    async fn list_objects(&self) -> Result<Vec<ObjectMeta>, Failure> {
        let mut objects = Vec::new();
        for prefix in [self.bucket.keys.contents(), self.bucket.keys.probes()] {
            let listing = || self.bucket.objects.list(Some(&prefix)).try_collect::<Vec<_>>();
            objects.extend(retry(&Deadline::after(self.options.timeout), listing).await?);
        }
        Ok(objects)
    }

    /// The age below which an object stays in any case. An opening whose probe is taken away would blame the bucket.
    fn least_age(&self, object: &ObjectMeta) -> Duration {
        if object.location.prefix_matches(&self.bucket.keys.probes()) { DEFAULT_GRACE } else { Duration::ZERO }
    }

    /// Those of the objects that no file and no record of the index refers to.
    fn unused<'a>(&self, objects: Vec<&'a ObjectMeta>, index: &Index) -> Result<Vec<&'a ObjectMeta>, Failure> {
        let in_use: BTreeSet<Path> = index
            .files
            .values()
            .filter_map(FileRecord::object)
            .map(|name| self.bucket.keys.content(name))
            .collect::<Result<_, _>>()
            .map_err(ContentError::ImpossibleKey)?;
        Ok(objects.into_iter().filter(|object| !in_use.contains(&object.location)).collect())
    }

    async fn remove(&self, keys: Vec<Path>) -> Result<(), Failure> {
        for keys in keys.chunks(REMOVED_AT_ONCE) {
            retry(&Deadline::after(self.options.timeout), || self.remove_some(keys)).await?;
        }
        Ok(())
    }

    async fn remove_some(&self, keys: &[Path]) -> object_store::Result<()> {
        let keys = stream::iter(keys.to_vec()).map(Ok).boxed();
        let mut removed = self.bucket.objects.delete_stream(keys);
        while let Some(key) = removed.next().await {
            match key {
                Ok(_) | Err(ObjectError::NotFound { .. }) => {} // somebody else may have been first
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How old an object is, by the clocks of the bucket and of this machine.
fn age(object: &ObjectMeta) -> Duration {
    SystemTime::now().duration_since(object.last_modified.into()).unwrap_or_default()
}
