//! Calls that take time, on the runtime of this process.

use std::io;
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use napi::bindgen_prelude::{ClassInstance, Either, Object, ToNapiValue};
use napi::{Env, JsDeferred};
use napi_derive::napi;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// All threads of JavaScript share it. It runs until the process ends.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("memory-tool").build());

/// A call.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An answer, or the promise of one.
pub(crate) type Started<'env, T> = Either<T, Object<'env>>;

/// Returns the runtime.
pub(crate) fn runtime() -> napi::Result<&'static Runtime> {
    RUNTIME.as_ref().map_err(|error| napi::Error::from_reason(format!("cannot start the runtime: {error}")))
}

/// Starts a call, and returns a promise.
pub(crate) fn start<'env, T: ToNapiValue + Send + 'static>(
    env: &'env Env,
    work: Work<T>,
    abort: Option<ClassInstance<'_, Abort>>,
) -> napi::Result<Object<'env>> {
    let (deferred, promise) = env.create_deferred()?;
    let mut reply = Reply(Some(deferred));
    let task = runtime()?.spawn(async move {
        let answer = work.await;
        reply.send(answer);
    });
    if let Some(abort) = abort {
        *abort.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
    }
    Ok(promise)
}

/// Starts a call that reads. If it can answer without waiting, it does so on this thread: changing threads takes longer
/// than to read a file that is in memory.
pub(crate) fn start_read<'env, T: ToNapiValue + Send + 'static>(
    env: &'env Env,
    mut work: Work<T>,
    abort: Option<ClassInstance<'_, Abort>>,
) -> napi::Result<Started<'env, T>> {
    let context = runtime()?.enter();
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(Either::A(answer)),
        Poll::Pending => {
            drop(context);
            start(env, work, abort).map(Either::B)
        }
    }
}

/// Stops a call.
#[napi]
#[derive(Default)]
pub struct Abort(Mutex<Option<AbortHandle>>);

#[napi]
impl Abort {
    /// Creates it, for one call.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the call. Does nothing if it has ended.
    #[napi]
    pub fn abort(&self) {
        if let Some(task) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

type Resolver<T> = Box<dyn FnOnce(Env) -> napi::Result<T>>;

/// The reply to a call. If the call is stopped or panics, it is dropped, which rejects the promise.
struct Reply<T: ToNapiValue>(Option<JsDeferred<T, Resolver<T>>>);

impl<T: ToNapiValue + Send + 'static> Reply<T> {
    fn send(&mut self, answer: T) {
        if let Some(deferred) = self.0.take() {
            deferred.resolve(Box::new(|_| Ok(answer)));
        }
    }
}

impl<T: ToNapiValue> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(deferred) = self.0.take() {
            deferred.reject(napi::Error::from_reason("the call ended without a result"));
        }
    }
}
