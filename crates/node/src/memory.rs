//! [`NativeMemory`]: an open memory.

use memory_tool::Memory;
use memory_tool::command::InputError;
use memory_tool_bindings::{CallError, Operation};
use napi::Env;
use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use serde_json::Value;

use crate::answer::Answer;
use crate::call::{Abort, Started, runtime, start, start_read};
use crate::queue::Place;

/// An open memory. The classes `Memory` and `MemoryTool` call it.
#[napi]
pub struct NativeMemory {
    /// It is `None` only while it is dropped.
    memory: Option<Memory>,
}

impl From<Memory> for NativeMemory {
    fn from(memory: Memory) -> Self {
        Self { memory: Some(memory) }
    }
}

impl Drop for NativeMemory {
    fn drop(&mut self) {
        // A store may end its tasks.
        let _context = runtime().map(|runtime| runtime.enter());
        drop(self.memory.take());
    }
}

impl NativeMemory {
    pub(crate) fn memory(&self) -> napi::Result<Memory> {
        self.memory.clone().ok_or_else(|| napi::Error::from_reason("the memory is closed"))
    }
}

#[napi]
impl NativeMemory {
    /// Calls the tool with an input as JSON, when the turn of the place comes.
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
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let input = match parse_input(&input) {
            Ok(input) => input,
            Err(error) => return Ok(Started::A(error.into())),
        };
        let is_read = input["command"] == "view";
        let turn = place.and_then(|place| place.0.take());
        self.start(env, Operation::Call(input, turn), is_read, abort)
    }

    /// Performs the operation of a method of `Memory`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such method, or the runtime cannot start.
    #[napi(catch_unwind, ts_return_type = "Answer | Promise<Answer>")]
    pub fn perform<'env>(
        &self,
        env: &'env Env,
        name: String,
        arguments: Vec<String>,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let operation = Operation::of_method(&name, arguments)
            .ok_or_else(|| napi::Error::from_reason(format!("unknown operation {name}")))?;
        let is_read = matches!(operation, Operation::ReadText(_) | Operation::List(_) | Operation::Usage);
        self.start(env, operation, is_read, abort)
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

pub(crate) fn parse_input(json: &str) -> Result<Value, CallError> {
    let input = serde_json::from_str(json);
    input.map_err(|error| CallError::Tool(InputError::NotJson { reason: error.to_string() }.into()))
}
