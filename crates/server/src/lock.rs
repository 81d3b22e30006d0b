//! [`lock`]: access to shared state.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value that is valid even if a lock holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
