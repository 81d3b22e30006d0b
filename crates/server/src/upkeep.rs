//! The removal of expired files and old entries of histories, without a request.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::service::Service;

/// The pause after the start, so that a server that is started each day gets to it.
const FIRST: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes them every day. Expired files are hidden before, so the time does not matter to clients.
pub(crate) async fn run(service: Arc<Service>) {
    sleep(FIRST).await;
    loop {
        if let Err(error) = remove_old(&service).await {
            tracing::error!(%error, "cannot list the memories to remove old data");
        }
        sleep(INTERVAL).await;
    }
}

async fn remove_old(service: &Service) -> Result<(), crate::error::ApiError> {
    for name in service.memories.names().await? {
        // The failure of one memory, which is in the log, does not keep the others from it.
        let Ok(open) = service.memories.open(&name).await else { continue };
        if let Err(error) = open.memory.expire().await {
            tracing::error!(error = &error as &dyn Error, "cannot remove expired files");
        }
        let Some(history) = open.memory.history() else { continue };
        if let Err(error) = history.trim().await {
            tracing::error!(error = &error as &dyn Error, "cannot remove old entries of a history");
        }
    }
    Ok(())
}
