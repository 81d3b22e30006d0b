//! [`Changes`]: a watch of a memory that can be closed, and changes as JSON.

use memory_tool::{MemoryChange, Operation, Watch};
use serde_json::{Value, json};
use tokio::select;
use tokio::sync::{Mutex, watch};

/// Receives each change of a memory as JSON. It must not block.
pub type OnChange = Box<dyn Fn(Value) + Send + Sync>;

/// The changes of a memory by anyone.
pub struct Changes {
    watch: Mutex<Option<Watch>>,
    is_closed: watch::Sender<bool>,
}

impl Changes {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch: Mutex::new(Some(watch)), is_closed: watch::Sender::new(false) }
    }

    /// Waits for the next changes. Returns `None` after the end.
    pub async fn next(&self) -> Option<Value> {
        let mut closed = self.is_closed.subscribe();
        let next = async {
            let mut watch = self.watch.lock().await;
            Some(watch.as_mut()?.next().await?.iter().map(describe_change).collect())
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

/// A change as JSON.
pub(crate) fn describe_change(change: &MemoryChange) -> Value {
    let operation = match change.operation {
        Operation::Edit => "edit",
        Operation::Remove => "remove",
        Operation::Rename => "rename",
        _ => "write",
    };
    json!({
        "operation": operation,
        "path": change.path.as_str(),
        "old_path": change.old_path.as_ref().map(|path| path.as_str()),
        "size": change.size,
        "actor": change.actor.as_ref().map(|actor| actor.name()),
    })
}
