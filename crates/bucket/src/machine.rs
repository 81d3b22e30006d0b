//! [`MachineCredentials`]: credentials that come from the metadata service of the machine, because nothing else names any.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::open_failure::OpenFailure;

/// How long the metadata service may take. It runs on the machine itself, and is asked again and again where it does not exist.
const PATIENCE: Duration = Duration::from_secs(2);

/// Credentials that the metadata service of the machine gives, where it runs in the cloud with a role or identity of its own.
#[derive(Clone)]
pub(crate) struct MachineCredentials {
    ask: Arc<dyn Fn() -> BoxFuture<'static, object_store::Result<()>> + Send + Sync>,
    cloud: &'static str,
    /// What to set where there are none.
    advice: &'static str,
}

impl MachineCredentials {
    /// Credentials that `ask` gets, once they are there.
    #[cfg_attr(
        not(any(feature = "s3", feature = "gcs", feature = "azure")),
        allow(dead_code, reason = "no client, no credentials")
    )]
    pub(crate) fn new<F>(ask: impl Fn() -> F + Send + Sync + 'static, cloud: &'static str, advice: &'static str) -> Self
    where
        F: Future<Output = object_store::Result<()>> + Send + 'static,
    {
        Self { ask: Arc::new(move || ask().boxed()), cloud, advice }
    }

    /// Gets them once, so that a machine without any is reported at once, and not when the first request is given up.
    pub(crate) async fn check(&self) -> Result<(), OpenFailure> {
        match timeout(PATIENCE, (self.ask)()).await {
            Ok(Ok(())) => Ok(()),
            // What the service answered, and where, says nothing to somebody who has not set anything.
            Ok(Err(_)) | Err(_) => Err(OpenFailure::NoCredentials { cloud: self.cloud, advice: self.advice }),
        }
    }
}
