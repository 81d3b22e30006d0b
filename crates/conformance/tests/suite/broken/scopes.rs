//! Stores with several named memories that do not keep them separate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::{InMemoryStore, Store};

/// Returns the key of a memory from its name. An empty key refuses the name.
type Key = fn(&str) -> String;

type Memories = Arc<Mutex<BTreeMap<String, Arc<InMemoryStore>>>>;

const FAULTS: [(&str, Key); 5] = [
    ("shares-scopes-of-one-prefix", |name| name.chars().take(5).collect()),
    ("shares-scopes-of-two-cases", |name| name.to_lowercase()),
    ("shares-scopes-of-odd-names", |name| {
        name.replace(|letter: char| !"abcdefghijklmnopqrstuvwxyz2-".contains(letter.to_ascii_lowercase()), "_")
    }),
    ("shares-the-nameless-scope", |name| format!("memory of {name}")),
    ("opens-a-new-scope", |name| match name {
        "" => String::new(),
        name => format!("{name} {:?}", std::time::Instant::now()),
    }),
];

pub(crate) fn all() -> Vec<(String, Suite)> {
    FAULTS.into_iter().map(|(fault, key)| (fault.to_owned(), Suite::for_store(Fixture { key }))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { key: str::to_owned })
}

struct Fixture {
    key: Key,
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = Memories;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Memories), FixtureError> {
        let memories = Memories::default();
        Ok((self.scope(&memories, "first").await?, memories))
    }

    async fn scope(&self, memories: &Memories, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        match (self.key)(name) {
            key if key.is_empty() => Err(FixtureError::failed("the name of a memory must not be empty")),
            key => Ok(Arc::<InMemoryStore>::clone(memories.lock().unwrap().entry(key).or_default())),
        }
    }
}
