//! [`BucketSandbox`]: a prefix in a bucket for the stores of the cases.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_cli::failure::{Context as _, Failure, eprint_error_of, eprint_line};
use memory_tool_cli::memory;
use memory_tool_cli::terminal::interruption::start_runtime;
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::NAME;

/// The start of the name of each directory and prefix, before a random part. It is short, because the path of a socket
/// is limited to about 100 bytes.
pub(super) const PREFIX: &str = "memory-tool-test-";
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The URL of a name under a prefix.
pub(super) fn url_under(url: &str, name: &str) -> String {
    format!("{}/{name}", url.trim_end_matches('/'))
}

/// The URL of a unique prefix. Dropping it removes all objects under it.
pub(crate) struct BucketSandbox(pub(crate) String);

impl BucketSandbox {
    /// Chooses a prefix under a URL, and opens a store there once to detect errors before the first case.
    pub(crate) fn make(url: &str, runtime: &Runtime) -> Result<Self, Failure> {
        let name = format!("{PREFIX}{:016x}", getrandom::u64().context("cannot generate a random name")?);
        let url = url_under(url, &name);
        runtime.block_on(StoreUrl::Bucket { url: url.clone() }.open(OpenOptions::new())).map_err(Failure::Store)?;
        Ok(Self(url))
    }

    fn remove(&self) -> Result<(), Failure> {
        // A new client, because the runtime of the cases may be closed, and its connections with it.
        let builder = memory::bucket(&self.0)?;
        start_runtime()?.block_on(async {
            let removal = timeout(REMOVAL_TIMEOUT, remove_all_under(&*builder.bucket(), builder.prefix())).await;
            match removal {
                Ok(removed) => removed.context("cannot remove the objects of this run"),
                Err(elapsed) => Err(elapsed).context("cannot remove the objects of this run"),
            }
        })
    }
}

impl Drop for BucketSandbox {
    fn drop(&mut self) {
        if let Err(failure) = self.remove() {
            eprint_error_of(NAME, &failure);
            eprint_line(&format!("{NAME}: objects of this run may be left under {}", self.0));
        }
    }
}

/// Removes all objects under a prefix until the listing is empty: requests of stopped cases may arrive late.
async fn remove_all_under(bucket: &dyn ObjectStore, prefix: &Path) -> object_store::Result<()> {
    loop {
        let listed: Vec<_> = bucket.list(Some(prefix)).map_ok(|object| object.location).try_collect().await?;
        if listed.is_empty() {
            return Ok(());
        }
        let mut removals = bucket.delete_stream(futures::stream::iter(listed.into_iter().map(Ok)).boxed());
        while let Some(removal) = removals.next().await {
            match removal {
                Err(object_store::Error::NotFound { .. }) => {} // removed by its writer
                removal => drop(removal?),
            }
        }
    }
}
