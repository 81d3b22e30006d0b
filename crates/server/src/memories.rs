//! [`Memories`]: the memories of one store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_tool::store::MemoryName;
use memory_tool::{Memory, MemoryOptions, OpenOptions, StoreUrl};

use crate::api::ApiState;
use crate::error::ApiError;

/// The memories of one store, by their names. The name is the id of the memory in the API.
#[derive(Debug)]
pub struct Memories {
    place: StoreUrl,
    options: MemoryOptions,
    open: Mutex<HashMap<MemoryName, Arc<OpenMemory>>>,
}

/// An open memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenMemory {
    /// The name, which is also the id.
    pub name: MemoryName,
    /// The memory, with its policies and history.
    pub memory: Memory,
    pub(crate) api: ApiState,
}

impl Memories {
    /// The memories at a place, opened with these options.
    pub fn new(place: StoreUrl, options: MemoryOptions) -> Self {
        Self { place, options, open: Mutex::default() }
    }

    /// The names of all memories, sorted.
    ///
    /// # Errors
    /// [`ApiError`] if the storage fails.
    pub async fn names(&self) -> Result<Vec<MemoryName>, ApiError> {
        let found = self.place.memories(OpenOptions::new()).await.map_err(|_| ApiError::storage())?;
        let mut names: Vec<_> = found.iter().filter_map(|url| url.name()?.parse().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a memory that exists.
    ///
    /// # Errors
    /// [`ApiError`] 404 if it does not exist.
    pub async fn open(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, true).await
    }

    /// Creates a memory, or opens it if it exists.
    ///
    /// # Errors
    /// [`ApiError`] if the storage fails.
    pub async fn create(&self, name: &MemoryName) -> Result<Arc<OpenMemory>, ApiError> {
        self.open_with(name, false).await
    }

    async fn open_with(&self, name: &MemoryName, must_exist: bool) -> Result<Arc<OpenMemory>, ApiError> {
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(Arc::clone(open));
        }
        let place = self.place.child(name.as_str()).ok_or_else(|| ApiError::no_such_memory(name.as_str()))?;
        let mut options = self.options.clone();
        options.must_exist = must_exist;
        let memory = options.build(place).await.map_err(|_| ApiError::no_such_memory(name.as_str()))?;
        let opened = Arc::new(OpenMemory { name: name.clone(), memory, api: ApiState::default() });
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(all.entry(name.clone()).or_insert(opened)))
    }
}
