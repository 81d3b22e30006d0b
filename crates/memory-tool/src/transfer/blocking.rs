//! [`Blocking`]: a value whose methods block, in asynchronous code.

use std::io;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// A value that is used, and dropped, only on threads that may block.
pub(super) struct Blocking<T: Send + 'static>(
    /// `None` while it is on such a thread.
    Option<T>,
);

impl<T: Send + 'static> Blocking<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Does `work` with the value. If the future is dropped, the work still ends, and the value is dropped after it.
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

    /// Does the last work with the value.
    pub(super) async fn finish<R: Send + 'static>(
        mut self,
        work: impl FnOnce(T) -> R + Send + 'static,
    ) -> io::Result<R> {
        let value = self.take()?;
        run(move || work(value)).await
    }

    fn take(&mut self) -> io::Result<T> {
        self.0.take().ok_or_else(|| io::Error::other("the work before was not finished"))
    }
}

impl<T: Send + 'static> Drop for Blocking<T> {
    fn drop(&mut self) {
        if let (Some(value), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn_blocking(|| drop(value));
        }
    }
}

/// Does `work` on a thread that may block.
pub(super) async fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    spawn_blocking(work).await.map_err(io::Error::other)
}
