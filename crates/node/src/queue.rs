//! [`Queue`]: the order of the commands of a tool object.

use memory_tool::command::{CommandQueue, InputError};
use memory_tool::requests::{self, RequestError};
use napi::Env;
use napi::bindgen_prelude::{ClassInstance, Object};
use napi_derive::napi;
use serde_json::Value;

use crate::call::{Abort, start};

/// The queue of a tool object. Its commands take effect in the order in which they took their places.
#[napi]
#[derive(Default)]
pub struct Queue(CommandQueue);

#[napi]
impl Queue {
    /// Creates an empty queue.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next place, for a command, or for an overridden method, which can run more than one.
    #[napi]
    pub fn enter(&self, command: Option<String>) -> Place {
        Place(requests::Place::enter(&self.0, command.as_deref()))
    }
}

/// A place in a queue.
#[napi]
pub struct Place(pub(crate) requests::Place);

#[napi]
impl Place {
    /// Waits for its turn, which lasts until the place is left.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot start.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn wait<'env>(&self, env: &'env Env, abort: Option<ClassInstance<'_, Abort>>) -> napi::Result<Object<'env>> {
        start(env, Box::pin(self.0.wait()), abort)
    }

    /// Lets the next command run. Does nothing if the place was left before.
    #[napi]
    pub fn leave(&self) {
        self.0.leave();
    }
}

/// The input of a call as an overridden method receives it, as JSON. Returns `null` if it is invalid.
#[napi]
pub fn parse_command(input: String) -> Option<String> {
    Some(requests::parse_command(parse_input(&input).ok()?)?.to_string())
}

/// The input of a call.
pub(crate) fn parse_input(json: &str) -> Result<Value, RequestError> {
    let input = serde_json::from_str(json);
    input.map_err(|error| RequestError::Tool(InputError::NotJson { reason: error.to_string() }.into()))
}
