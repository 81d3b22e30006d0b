//! [`States`]: the distinct states that a search visits.

use std::collections::BTreeMap;

/// Identifies a state: equal ids mean equal states.
pub(crate) type StateId = usize;

/// An interner for states.
#[derive(Debug)]
pub(crate) struct States<S> {
    by_id: Vec<S>,
    /// Comparisons of large states end early, while hashes read them whole.
    ids: BTreeMap<S, StateId>,
}

impl<S: Clone + Ord> States<S> {
    pub(crate) fn new() -> Self {
        Self { by_id: Vec::new(), ids: BTreeMap::new() }
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
