//! [`Changes`]: a watch of a memory that can be closed.

use serde_json::{Value, json};
use tokio::select;
use tokio::sync::{Mutex, watch};

use crate::watch::Watch;

/// Receives each change of a memory as JSON. It must not block.
pub type OnChange = Box<dyn Fn(Value) + Send + Sync>;

/// The changes of a memory by anyone.
pub struct Changes {
    watch: Mutex<Option<Watch>>,
    is_closed: watch::Sender<bool>,
}

impl Changes {
    pub(super) fn new(watch: Watch) -> Self {
        Self { watch: Mutex::new(Some(watch)), is_closed: watch::Sender::new(false) }
    }

    /// Waits for the next changes. Returns `None` after the end.
    pub async fn next(&self) -> Option<Value> {
        let mut closed = self.is_closed.subscribe();
        let next = async {
            let mut watch = self.watch.lock().await;
            Some(json!(*watch.as_mut()?.next().await?))
        };
        select! {
            biased;
            _ = closed.wait_for(|is_closed| *is_closed) => {}
            changes = next => return changes,
        }
        *self.watch.lock().await = None;
        None
    }

    /// Ends it, and every call that waits for changes.
    pub fn close(&self) {
        self.is_closed.send_replace(true);
        if let Ok(mut watch) = self.watch.try_lock() {
            *watch = None; // otherwise the waiting call releases it
        }
    }
}
