//! [`BatchHook`] and [`HookedStore`]: something that is done around a batch, at the moment at which the store applies it.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::store::{Batch, Store};

/// Something that is done right before a batch is applied and right after it, such as recording both.
///
/// A [`HookedStore`] calls it on a thread that may block. Others wait for the store meanwhile, so it must be quick, and it must not use the
/// store.
pub trait BatchHook: Send + 'static {
    /// The batch is about to be applied. Whether its preconditions hold has not been looked at yet.
    ///
    /// # Errors
    /// One keeps the batch from being applied, and is what comes of it.
    fn before(&mut self) -> Result<(), StoreError>;

    /// The batch was applied or refused, or failed.
    fn after(self: Box<Self>, result: &Result<(), StoreError>);
}

impl dyn BatchHook {
    /// Applies a batch with the hook around it, as a store does that calls hooks.
    ///
    /// # Errors
    /// Those of [`before`](BatchHook::before) and of `apply`.
    pub fn around(mut self: Box<Self>, apply: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.before()?;
        let result = apply();
        self.after(&result);
        result
    }
}

/// The hook that does nothing.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to hold")]
pub struct NoHook;

impl BatchHook for NoHook {
    fn before(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn after(self: Box<Self>, _: &Result<(), StoreError>) {}
}

/// A store that works on threads that may block, with a lock of its own, and calls hooks there: [`Store::hooked`].
#[async_trait]
pub trait HookedStore: Store {
    /// Applies all changes of the batch, or none, with the hook around it.
    ///
    /// # Behavior
    /// 1. It is [`apply`](Store::apply) in all else.
    /// 2. Between [`before`](BatchHook::before) and the moment at which the changes hold, nobody applies another batch of this memory: the
    ///    order of the calls of `before` is that of the changes.
    /// 3. [`after`](BatchHook::after) comes once the changes hold or will not, with what came of the batch. It may come after the
    ///    next `before`.
    /// 4. Each is called once: `after` exactly where `before` gave `Ok`, unless the store panics. A batch that never has its turn, as where
    ///    the wait for a lock is over, has no call.
    /// 5. A future that is dropped has had no call, or the batch is applied to its end and both are made.
    ///
    /// # Errors
    /// Those of [`apply`](Store::apply), and that of the hook.
    async fn apply_hooked(&self, batch: Batch, hook: Box<dyn BatchHook>) -> Result<(), StoreError>;
}
