//! [`States`]: the states that a search comes to, and the ways between them, each found out once.

use std::collections::HashMap;
use std::hash::Hash;

/// Stands for a state: equal where the states are.
pub(crate) type StateId = usize;

/// States, each kept once.
#[derive(Debug)]
pub(crate) struct States<S> {
    by_id: Vec<S>,
    ids: HashMap<S, StateId>,
}

impl<S: Clone + Eq + Hash> States<S> {
    pub(crate) fn new() -> Self {
        Self { by_id: Vec::new(), ids: HashMap::new() }
    }

    pub(crate) fn id(&mut self, state: S) -> StateId {
        if let Some(&id) = self.ids.get(&state) {
            return id;
        }
        let id = self.by_id.len();
        self.by_id.push(state.clone());
        self.ids.insert(state, id);
        id
    }

    pub(crate) fn get(&self, id: StateId) -> &S {
        &self.by_id[id]
    }
}
