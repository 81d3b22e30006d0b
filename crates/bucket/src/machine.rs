//! [`MachineCredentials`]: credentials from the metadata service of the machine, if the environment has no others.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::open_failure::OpenFailure;

/// The timeout of the metadata service. It runs on the machine, and requests are repeated if it does not exist.
const PATIENCE: Duration = Duration::from_secs(2);

/// Credentials from the metadata service of a machine in the cloud that has a role or identity.
#[derive(Clone)]
pub(crate) struct MachineCredentials {
    ask: Arc<dyn Fn() -> BoxFuture<'static, object_store::Result<()>> + Send + Sync>,
    cloud: &'static str,
    /// Advice if there are no credentials.
    advice: &'static str,
}

impl MachineCredentials {
    /// Credentials that `ask` fetches.
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

    /// Fetches the credentials once. This reports a machine without credentials immediately, not when the first request
    /// fails.
    pub(crate) async fn check(&self) -> Result<(), OpenFailure> {
        match timeout(PATIENCE, (self.ask)()).await {
            Ok(Ok(())) => Ok(()),
            // The error of the service is useless if no credentials are set.
            Ok(Err(_)) | Err(_) => Err(OpenFailure::NoCredentials { cloud: self.cloud, advice: self.advice }),
        }
    }
}
