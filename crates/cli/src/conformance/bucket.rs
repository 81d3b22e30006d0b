//! [`BucketSandbox`]: a part of a bucket for the stores of a run's cases, emptied in the end.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use memory_tool::{OpenOptions, StoreUrl};
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::conformance::names::{PREFIX, beneath};
use crate::failure::{Failure, eprint_error, eprint_line};
use crate::memory;
use crate::run::start_runtime;

/// How long it may take to remove what a run made.
const REMOVAL: Duration = Duration::from_secs(60);

/// A prefix that no other run has. Dropping it removes all objects under it.
pub(crate) struct BucketSandbox {
    /// The URL of the prefix.
    url: String,
    /// What is random in it.
    name: String,
}

impl BucketSandbox {
    /// Chooses a prefix beneath the one of a URL. Opening a store there reports a mistake once, instead of for each case.
    pub(crate) fn make(url: &str, runtime: &Runtime) -> Result<Self, Failure> {
        let name = format!("{PREFIX}{:016x}", getrandom::u64().map_err(Failure::Randomness)?);
        let url = beneath(url, &name);
        // It removes what it puts, so where it fails nothing is left.
        runtime.block_on(StoreUrl::Bucket { url: url.clone() }.open(OpenOptions::new())).map_err(Failure::Store)?;
        Ok(Self { url, name })
    }

    /// The URL of the prefix.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What is random in the URL.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn remove(&self) -> Result<(), Failure> {
        // Another client than that of the cases: their runtime may be gone, and with it their connections.
        let builder = memory::bucket(&self.url)?;
        start_runtime()?.block_on(async {
            let removal = timeout(REMOVAL, remove_beneath(&*builder.bucket(), builder.prefix())).await;
            match removal {
                Ok(removed) => removed.map_err(|error| Failure::Removal(error.into())),
                Err(elapsed) => Err(Failure::Removal(elapsed.into())),
            }
        })
    }
}

impl Drop for BucketSandbox {
    fn drop(&mut self) {
        if let Err(failure) = self.remove() {
            eprint_error(&failure);
            eprint_line(&format!("memory-tool: objects of this run may be left under {}", self.url));
        }
    }
}

/// Removes all objects beneath a prefix, and those, too, that came while others were removed: the last requests of a case that
/// was stopped may still be on their way.
async fn remove_beneath(bucket: &dyn ObjectStore, prefix: &Path) -> object_store::Result<()> {
    loop {
        let listed: Vec<_> = bucket.list(Some(prefix)).map_ok(|object| object.location).try_collect().await?;
        if listed.is_empty() {
            return Ok(());
        }
        let mut removals = bucket.delete_stream(futures::stream::iter(listed.into_iter().map(Ok)).boxed());
        while let Some(removal) = removals.next().await {
            match removal {
                Err(object_store::Error::NotFound { .. }) => {} // its writer was first
                removal => drop(removal?),
            }
        }
    }
}
