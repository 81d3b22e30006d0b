//! [`NativeWatch`]: the changes of a memory.

use std::sync::Arc;

use memory_tool::requests::Changes;
use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

use crate::call::start;

/// The changes of a memory. The class `Watch` calls it.
#[napi]
pub struct NativeWatch(Arc<Changes>);

impl From<Changes> for NativeWatch {
    fn from(changes: Changes) -> Self {
        Self(Arc::new(changes))
    }
}

impl Drop for NativeWatch {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[napi]
impl NativeWatch {
    /// Waits for the next changes, as JSON. It is `null` after the end.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot start.
    #[napi(ts_return_type = "Promise<string | null>")]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let changes = Arc::clone(&self.0);
        let work = async move { changes.next().await.map(|changes| changes.to_string()) };
        start(env, Box::pin(work), None)
    }

    /// Ends it.
    #[napi]
    pub fn close(&self) {
        self.0.close();
    }
}
