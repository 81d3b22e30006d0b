//! [`Place`]: the place of an overridden command in the queue of a tool object.

use std::mem;
use std::sync::{Arc, Mutex};

use memory_tool_core::lock;

use crate::command_queue::{CommandQueue, Turn, TurnGuard};

/// A place in the queue of a tool object. The garbage collector of a language can keep it for long, so it is left
/// explicitly.
pub struct Place(Arc<Mutex<State>>);

enum State {
    Waiting(Turn),
    /// A future waits for the turn.
    Coming,
    Held(#[expect(dead_code, reason = "held, not read")] TurnGuard),
    /// It was left, or its turn was taken.
    Left,
}

impl Place {
    /// Takes the next place in the queue, before this returns. `command` is `None` if it can be more than one command.
    pub fn enter(queue: &CommandQueue, command: Option<&str>) -> Self {
        let command = command.and_then(|name| name.parse().ok());
        Self(Arc::new(Mutex::new(State::Waiting(queue.enter(command)))))
    }

    /// Takes the turn out of the place, for one command.
    pub fn take(&self) -> Option<Turn> {
        self.replace(State::Left)
    }

    /// Waits for the turn, which lasts until the place is left.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let (turn, state) = (self.replace(State::Coming), Arc::clone(&self.0));
        async move {
            let Some(turn) = turn else { return };
            let guard = turn.await;
            let mut state = lock(&state);
            if matches!(*state, State::Coming) {
                *state = State::Held(guard);
            }
        }
    }

    /// Lets the next command run. Does nothing if the place was left before.
    pub fn leave(&self) {
        drop(self.replace(State::Left));
    }

    fn replace(&self, state: State) -> Option<Turn> {
        match mem::replace(&mut *lock(&self.0), state) {
            State::Waiting(turn) => Some(turn),
            State::Coming | State::Held(_) | State::Left => None,
        }
    }
}
