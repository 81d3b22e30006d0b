//! The removal of expired files, old entries of histories and garbage, without a request.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use memory_tool::MemoryOptions;
use tokio::time::sleep;

use super::Memories;
use super::visit::{Door, Purpose};
use crate::http::error::ApiError;

/// The pause after the start, so that a server that is started each day gets to it.
const FIRST: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn has_work(options: &MemoryOptions) -> bool {
    options.expire_after.is_some() || options.history_age.is_some() || options.gc_every.is_some()
}

/// Removes them every day. Expired files are hidden before, so the time does not matter to clients.
pub(crate) async fn run(memories: Arc<Memories>) {
    sleep(FIRST).await;
    loop {
        if let Err(error) = remove_old(&memories).await {
            tracing::error!(%error, "cannot list the memories to remove old data");
        }
        sleep(INTERVAL).await;
    }
}

async fn remove_old(memories: &Arc<Memories>) -> Result<(), ApiError> {
    for name in memories.names().await? {
        // The failure of one memory, which is in the log, does not keep the others from it.
        let Ok(door) = Door::of_upkeep(memories, &name).await else { continue };
        remove_expired(&door).await;
        let memory = &door.open.memory;
        if let Some(history) = memory.history() {
            log_failure(history.trim().await, "cannot remove old entries of a history");
        }
        // An open memory collects its garbage at its own interval, but most memories are closed most of the time.
        if memories.options.gc_every.is_some() {
            log_failure(memory.backend().collect_garbage(INTERVAL).await, "cannot collect garbage");
        }
    }
    Ok(())
}

/// An archived memory keeps its files, also if it is archived at this moment.
async fn remove_expired(door: &Door) {
    let Ok(visit) = door.enter(Purpose::CHANGE).await else { return };
    match visit.expire().await {
        Ok(swept) if swept.held > 0 => tracing::error!(
            memory = visit.name(),
            held = swept.held,
            kept = swept.kept,
            "most files have expired: check the clock of this machine, or the files are removed tomorrow"
        ),
        swept => log_failure(swept, "cannot remove expired files"),
    }
}

fn log_failure<T, E: Error + 'static>(result: Result<T, E>, message: &str) {
    if let Err(error) = result {
        tracing::error!(error = &error as &dyn Error, "{message}");
    }
}

#[cfg(test)]
mod tests {
    use memory_tool::StoreUrl;
    use memory_tool::history::LogFilter;
    use memory_tool_test_fixtures::session::Place;

    use super::*;
    use crate::{Server, ServerOptions};

    /// The clock of the runtime goes to the next timeout whenever all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_server_removes_expired_files_and_old_entries() {
        let place = Place::in_memory();
        let (memories, file) = (place.outside("memories"), place.outside("memories/alice/memories/a"));
        let mut options = ServerOptions::new(StoreUrl::Local(memories.clone()), place.outside("tokens"));
        options.listen = "127.0.0.1:0".parse().unwrap();
        options.memory.history = true;
        options.memory.expire_after = Some(Duration::from_secs(60 * 60)); // not before all is written
        let memory = options.memory.build(StoreUrl::Local(memories.join("alice"))).await.unwrap();
        for number in 0..130 {
            memory.write("/memories/a", number.to_string()).await.unwrap();
        }
        std::thread::sleep(Duration::from_millis(2_100)); // access times are whole seconds

        options.memory.expire_after = Some(Duration::from_millis(1));
        options.memory.history_age = Some(Duration::from_millis(1));
        let server = tokio::spawn(async { Server::listen(options).await.unwrap().serve(std::future::pending()).await });
        let history = memory.history().unwrap();
        // The server removes whole blocks of entries.
        let is_done = async || !file.exists() && history.entries(&LogFilter::new()).await.unwrap().len() < 100;
        for _ in 0..600 {
            if is_done().await {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        assert!(is_done().await);
        server.abort();
    }
}
