//! The conformance suite on stores in TypeScript.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool::Store;
use memory_tool::conformance::{BackendFixture, DEFAULT_CASE_TIMEOUT, DEFAULT_RACES, FixtureError, Suite};
use memory_tool::requests;
use napi::Env;
use napi::bindgen_prelude::{Function, Object};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use tokio::sync::oneshot;

use crate::answer::{Answer, SuiteReport};
use crate::call::start;
use crate::opening::Location;
use crate::store::Dispatch;

/// A store and its number in TypeScript, or the message of an error.
type Created = Result<(Arc<dyn Store>, u32), String>;

/// Creates stores with a function in TypeScript.
struct Fixture {
    /// It is missing if the suite only lists its cases.
    dispatch: Option<Dispatch<FixtureCall>>,
    can_reopen: bool,
}

impl Fixture {
    async fn call(&self, of: Option<u32>) -> Result<(Arc<dyn Store>, u32), FixtureError> {
        let (sender, receiver) = oneshot::channel();
        if let Some(dispatch) = &self.dispatch {
            let call = FixtureCall { of, answer: Mutex::new(Some(sender)) };
            dispatch.call(call, ThreadsafeFunctionCallMode::NonBlocking);
        }
        let created = receiver.await.unwrap_or_else(|_| Err("the call ended without a result".to_owned()));
        created.map_err(FixtureError::failed)
    }
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = u32;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        self.call(None).await
    }

    async fn reopen(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        if !self.can_reopen {
            return Err(FixtureError::unsupported("`reopen` is not given"));
        }
        Ok(self.call(Some(*guard)).await?.0)
    }
}

/// A call for a new store, or for the storage of a store to be opened again.
#[napi]
pub struct FixtureCall {
    of: Option<u32>,
    answer: Mutex<Option<oneshot::Sender<Created>>>,
}

#[napi]
impl FixtureCall {
    /// The number of the store to open again.
    #[napi(getter)]
    pub fn of(&self) -> Option<u32> {
        self.of
    }

    /// Returns a store and its number to the suite.
    #[napi]
    pub fn succeed(&self, store: &Location, number: u32) {
        self.send(match &store.0 {
            requests::Location::Store(store) => Ok((Arc::clone(store), number)),
            requests::Location::Url(_) | requests::Location::Memory(_) => Err("expected a store".to_owned()),
        });
    }

    /// Returns an error to the suite.
    #[napi]
    pub fn fail(&self, message: String) {
        self.send(Err(message));
    }

    fn send(&self, created: Created) {
        if let Some(sender) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It fails if the suite has ended.
            drop(sender.send(created));
        }
    }
}

/// Runs the suite. `dispatch` performs the calls, and never throws.
///
/// # Errors
///
/// Fails if the function cannot be shared between threads, or the runtime cannot start.
#[napi(ts_return_type = "Promise<Answer>")]
pub fn run_conformance<'env>(
    env: &'env Env,
    dispatch: Function<'_, FixtureCall, ()>,
    can_reopen: bool,
    filters: Vec<String>,
    jobs: Option<u32>,
    races: Option<u32>,
    case_timeout: Option<f64>,
) -> napi::Result<Object<'env>> {
    let builder = dispatch.build_threadsafe_function::<FixtureCall>().callee_handled::<false>().weak::<true>();
    let dispatch = builder.build_callback(|context| Ok(context.value))?;
    let suite = Suite::for_store(Fixture { dispatch: Some(dispatch), can_reopen });
    let suite = filters.into_iter().fold(suite, Suite::filter);
    let suite = suite.races(races.map_or(DEFAULT_RACES, |races| races as usize));
    let suite = suite.case_timeout(
        case_timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(DEFAULT_CASE_TIMEOUT),
    );
    let suite = match jobs {
        Some(jobs) => suite.jobs(jobs as usize),
        None => suite,
    };
    let work = async move {
        let report = suite.run().await;
        match serde_json::to_string(&report) {
            Ok(json) => {
                let report = SuiteReport { is_success: report.is_success(), text: report.to_string(), json };
                Answer { report: Some(report), ..Answer::default() }
            }
            Err(error) => Answer::raise("Error", &error.to_string()),
        }
    };
    start(env, Box::pin(work), None)
}

/// The cases that a store can run, as JSON.
///
/// # Errors
///
/// Fails if a case is not JSON.
#[napi]
pub fn cases() -> napi::Result<String> {
    let suite = Suite::for_store(Fixture { dispatch: None, can_reopen: false });
    serde_json::to_string(&suite.cases()).map_err(|error| napi::Error::from_reason(error.to_string()))
}
