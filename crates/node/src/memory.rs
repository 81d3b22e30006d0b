//! [`NativeMemory`]: an open memory.

use memory_tool::requests::{self, Outcome, Request};
use memory_tool::{Actor, Memory};
use napi::bindgen_prelude::{ClassInstance, Object};
use napi::{De, Env};
use napi_derive::napi;

use crate::answer::Answer;
use crate::call::{Abort, Started, runtime, start, start_read};
use crate::queue::{Place, parse_input};

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

    /// A handle on the same memory whose changes are by this actor, for this reason unless it is empty.
    ///
    /// # Errors
    ///
    /// Fails if the memory is closed, or the name is invalid.
    #[napi]
    pub fn by(&self, actor: String, reason: String) -> napi::Result<Self> {
        let actor = Actor::from_trusted_name(&actor);
        let actor = actor.map_err(|error| napi::Error::from_reason(format!("invalid actor: {error}")))?;
        Ok(self.memory()?.by(actor.because(&reason)).into())
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
    ) -> napi::Result<Started<'env, Answer>> {
        let input = match parse_input(&input) {
            Ok(input) => input,
            Err(error) => return Ok(Started::A(error.into())),
        };
        let turn = place.and_then(|place| place.0.take());
        self.start(env, Request::Call(requests::Call { input, turn, is_worded }), abort)
    }

    /// Performs a request. A copy goes to `destination`.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot start.
    #[napi(catch_unwind, ts_return_type = "Answer | Promise<Answer>")]
    pub fn perform<'env>(
        &self,
        env: &'env Env,
        request: Object<'_>,
        destination: Option<&NativeMemory>,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env, Answer>> {
        match (Request::parse(&mut De::new(&request)), destination) {
            (Err(error), _) => Ok(Started::A(error.into())),
            (Ok(request), None) => self.start(env, request, abort),
            (Ok(request), Some(destination)) => self.start(env, request.to(destination.memory()?), abort),
        }
    }

    fn start<'env>(
        &self,
        env: &'env Env,
        request: Request,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env, Answer>> {
        let (memory, is_read) = (self.memory()?, request.is_read());
        let work = Box::pin(async move { Answer::from(memory.perform(request).await) });
        if is_read { start_read(env, work, abort) } else { start(env, work, abort).map(Started::B) }
    }
}

/// The URLs of the memories at a location, as JSON.
///
/// # Errors
///
/// Fails if the runtime cannot start.
#[napi(ts_return_type = "Promise<Answer>")]
pub fn memories<'env>(
    env: &'env Env,
    url: String,
    abort: Option<ClassInstance<'_, Abort>>,
) -> napi::Result<Object<'env>> {
    let work = async { Answer::from(requests::memories(url.into()).await.map(|urls| Outcome::Data(urls.into()))) };
    start(env, Box::pin(work), abort)
}
