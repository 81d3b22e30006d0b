//! [`Memories`]: the memories of one store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_tool::command::CommandQueue;
use memory_tool::store::MemoryName;
use memory_tool::{Memory, MemoryOptions, OpenOptions, OptionsError, StoreUrl};
use tokio::sync::OnceCell;

use crate::access::Caller;
use crate::api::ApiState;
use crate::error::{ApiError, log_failure};

/// The number of memories that stay open without being in use.
pub(crate) const DEFAULT_MAX_OPEN: usize = 256;

/// The memories of one store, by their names. The name is the id of the memory in the API.
#[derive(Debug)]
pub struct Memories {
    place: StoreUrl,
    options: MemoryOptions,
    max_open: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    memories: HashMap<MemoryName, Slot>,
    /// Grows with each use.
    clock: u64,
}

/// A memory that is open or being opened. Concurrent requests wait for the same opening.
#[derive(Debug)]
struct Slot {
    memory: Arc<OnceCell<Arc<OpenMemory>>>,
    last_use: u64,
}

impl Slot {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.memory) > 1 || self.memory.get().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

/// An open memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenMemory {
    /// The name, which is also the id.
    pub name: MemoryName,
    /// The memory, with its policies and history.
    pub memory: Memory,
    /// The order of the commands of all clients. Without it, many clients that change one file would fail each other's
    /// preconditions until some give up.
    pub(crate) queue: CommandQueue,
    /// The state of the memory for the Memory Stores API.
    pub(crate) api: ApiState,
}

impl OpenMemory {
    /// The memory for one request: its changes name the caller.
    pub fn by(&self, caller: &Caller) -> Memory {
        self.memory.by(caller.actor().clone())
    }
}

impl Memories {
    /// The memories at a place, opened with these options.
    pub fn new(place: StoreUrl, options: MemoryOptions) -> Self {
        Self { place, options, max_open: DEFAULT_MAX_OPEN, open: Mutex::default() }
    }

    /// Limits the number of memories that stay open. A memory in use is never closed. Default: 256.
    #[must_use]
    pub fn max_open(mut self, max_open: usize) -> Self {
        self.max_open = max_open;
        self
    }

    /// The names of all memories, sorted.
    ///
    /// # Errors
    /// [`ApiError`] if the storage fails.
    pub async fn names(&self) -> Result<Vec<MemoryName>, ApiError> {
        let found = match self.place.memories(OpenOptions::new()).await {
            Err(error) if error.is_not_found() => Vec::new(),
            found => found.map_err(|error| failed(&error.into()))?,
        };
        // A store at the place itself is also found, but has no name in it.
        let is_child = |url: &StoreUrl, name: &str| self.place.child(name).as_ref() == Some(url);
        let names = found.iter().filter_map(|url| url.name().filter(|name| is_child(url, name))?.parse().ok());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a memory that exists.
    ///
    /// # Errors
    /// [`ApiError`] 404 if it does not exist, 503 if the storage is busy, 500 if it fails.
    pub async fn open(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, true).await
    }

    /// Creates a memory, or opens it if it exists.
    ///
    /// # Errors
    /// [`ApiError`] if the storage is busy or fails.
    pub async fn create(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, false).await
    }

    async fn open_with(&self, name: &MemoryName, must_exist: bool) -> Result<Arc<OpenMemory>, ApiError> {
        let place = self.place.child(name.as_str()).ok_or_else(|| ApiError::no_such_memory(name.as_str()))?;
        let cell = self.slot(name);
        let opening = async || {
            let mut options = self.options.clone();
            options.must_exist |= must_exist;
            let memory = options.build(place).await.map_err(|error| match &error {
                OptionsError::Open(open) if open.is_not_found() => ApiError::no_such_memory(name.as_str()),
                _ => failed(&error),
            })?;
            Ok(Arc::new(OpenMemory {
                name: name.clone(),
                memory,
                queue: CommandQueue::new(),
                api: ApiState::default(),
            }))
        };
        let opened = cell.get_or_try_init(opening).await.cloned();
        drop(cell);
        if opened.is_err() {
            self.forget_unopened(name);
        }
        opened
    }

    /// The slot of a memory. Makes room for a new one.
    fn slot(&self, name: &MemoryName) -> Arc<OnceCell<Arc<OpenMemory>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clock += 1;
        let last_use = open.clock;
        if let Some(slot) = open.memories.get_mut(name) {
            slot.last_use = last_use;
            return Arc::clone(&slot.memory);
        }
        if open.memories.len() >= self.max_open {
            let idle = open.memories.iter().filter(|(_, slot)| !slot.is_in_use());
            let oldest = idle.min_by_key(|(_, slot)| slot.last_use).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| open.memories.remove(&oldest));
        }
        let memory = Arc::default();
        open.memories.insert(name.clone(), Slot { memory: Arc::clone(&memory), last_use });
        memory
    }

    fn forget_unopened(&self, name: &MemoryName) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.memories.get(name).is_some_and(|slot| slot.memory.get().is_none() && !slot.is_in_use()) {
            open.memories.remove(name);
        }
    }
}

/// Logs the causes, which no response contains.
fn failed(error: &OptionsError) -> ApiError {
    log_failure(error);
    match error {
        OptionsError::Open(error) => error.kind().into(),
        _ => ApiError::storage(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_children_of_the_place_have_names() {
        let place = tempfile::tempdir().unwrap();
        for memory in ["memories", "bob/memories", "alice/memories", "other"] {
            std::fs::create_dir_all(place.path().join(memory)).unwrap();
        }
        let url = StoreUrl::Local(place.path().to_owned());
        let names = Memories::new(url, MemoryOptions::default()).names().await.unwrap();
        assert_eq!(names.iter().map(MemoryName::as_str).collect::<Vec<_>>(), ["alice", "bob"]);
    }
}
