//! [`NativeMemory`]: an open memory.

use memory_tool::Memory;
use memory_tool::command::InputError;
use memory_tool_bindings::{self as bindings, Argument, CallError, Operation, Outcome};
use napi::Env;
use napi::bindgen_prelude::{ClassInstance, Either4, Null, Uint8Array};
use napi_derive::napi;
use serde_json::Value;

use crate::answer::Answer;
use crate::call::{Abort, Started, runtime, start, start_read};
use crate::queue::Place;

/// An open memory. The classes `Memory` and `MemoryTool` call it.
#[napi]
pub struct NativeMemory {
    /// It is `None` after the memory is closed.
    memory: Option<Memory>,
}

impl From<Memory> for NativeMemory {
    fn from(memory: Memory) -> Self {
        Self { memory: Some(memory) }
    }
}

impl Drop for NativeMemory {
    fn drop(&mut self) {
        self.close();
    }
}

/// The operations that read, and so can end without waiting.
const READS: [&str; 5] = ["read_text", "read_bytes", "exists", "list", "usage"];

impl NativeMemory {
    pub(crate) fn memory(&self) -> napi::Result<Memory> {
        self.memory.clone().ok_or_else(|| napi::Error::from_reason("the memory is closed"))
    }
}

#[napi]
impl NativeMemory {
    /// Closes this handle. Operations that run still end.
    #[napi]
    pub fn close(&mut self) {
        // A store may end its tasks.
        let _context = runtime().map(|runtime| runtime.enter());
        drop(self.memory.take());
    }

    /// Calls the tool with an input as JSON, when the turn of the place comes. `is_worded` is whether a function words
    /// the reply.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot start.
    #[napi(catch_unwind, ts_return_type = "Answer | Promise<Answer>")]
    pub fn call<'env>(
        &self,
        env: &'env Env,
        input: String,
        place: Option<&Place>,
        is_worded: bool,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let input = match parse_input(&input) {
            Ok(input) => input,
            Err(error) => return Ok(Started::A(error.into())),
        };
        let is_read = input["command"] == "view";
        let turn = place.and_then(|place| place.0.take());
        self.start(env, Operation::call(input, turn, is_worded), is_read, abort)
    }

    /// Performs the operation of a method of `Memory`. `destination` is the first argument of a copy.
    ///
    /// # Errors
    ///
    /// Fails if there is no such method with these arguments, or the runtime cannot start.
    #[napi(catch_unwind, ts_return_type = "Answer | Promise<Answer>")]
    pub fn perform<'env>(
        &self,
        env: &'env Env,
        name: String,
        arguments: Vec<Either4<String, bool, Null, Uint8Array>>,
        destination: Option<&NativeMemory>,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let destination = destination.map(|destination| destination.memory().map(Argument::Memory)).transpose()?;
        let arguments = arguments.into_iter().map(|argument| match argument {
            Either4::A(text) => Argument::Text(text),
            Either4::B(flag) => Argument::Flag(flag),
            Either4::C(Null) => Argument::Nothing,
            Either4::D(bytes) => Argument::Bytes(bytes.to_vec()),
        });
        match Operation::of_method(&name, destination.into_iter().chain(arguments).collect()) {
            Some(operation) => self.start(env, operation, READS.contains(&name.as_str()), abort),
            None => Ok(Started::A(Answer::raise("TypeError", &format!("wrong arguments of {name}")))),
        }
    }

    fn start<'env>(
        &self,
        env: &'env Env,
        operation: Operation,
        is_read: bool,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let memory = self.memory()?;
        let work = Box::pin(async { Answer::from(operation.run(memory).await) });
        if is_read { start_read(env, work, abort) } else { start(env, work, abort) }
    }
}

/// The URLs of the memories at a location, as JSON.
///
/// # Errors
///
/// Fails if the runtime cannot start.
#[napi(ts_return_type = "Answer | Promise<Answer>")]
pub fn memories<'env>(
    env: &'env Env,
    url: String,
    abort: Option<ClassInstance<'_, Abort>>,
) -> napi::Result<Started<'env>> {
    let work = async { Answer::from(bindings::memories(url.into()).await.map(|urls| Outcome::Json(urls.into()))) };
    start(env, Box::pin(work), abort)
}

pub(crate) fn parse_input(json: &str) -> Result<Value, CallError> {
    let input = serde_json::from_str(json);
    input.map_err(|error| CallError::Tool(InputError::NotJson { reason: error.to_string() }.into()))
}
