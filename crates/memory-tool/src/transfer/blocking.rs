//! [`Blocking`]: a value with blocking methods, for asynchronous code.

use std::io;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// A value that is used and dropped only on blocking threads.
pub(super) struct Blocking<T: Send + 'static>(
    /// `None` while a blocking thread uses the value.
    Option<T>,
);

impl<T: Send + 'static> Blocking<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Runs `work` on a blocking thread. If the future is dropped, the work still completes, and then drops the value.
    pub(super) async fn run<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> io::Result<R> {
        let mut value = self.take()?;
        let (value, result) = run(move || {
            let result = work(&mut value);
            (value, result)
        })
        .await?;
        self.0 = Some(value);
        Ok(result)
    }

    /// Runs `work` on a blocking thread, and consumes the value.
    pub(super) async fn finish<R: Send + 'static>(
        mut self,
        work: impl FnOnce(T) -> R + Send + 'static,
    ) -> io::Result<R> {
        let value = self.take()?;
        run(move || work(value)).await
    }

    fn take(&mut self) -> io::Result<T> {
        self.0.take().ok_or_else(|| io::Error::other("the previous operation did not complete"))
    }
}

impl<T: Send + 'static> Drop for Blocking<T> {
    fn drop(&mut self) {
        if let (Some(value), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn_blocking(|| drop(value));
        }
    }
}

/// Runs `work` on a blocking thread.
pub(super) async fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    spawn_blocking(work).await.map_err(io::Error::other)
}
