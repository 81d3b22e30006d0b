//! [`lock`]: for values that a panic cannot leave half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after another thread panicked while it held the lock.
///
/// Use it if each change under the lock is a single step, such as an assignment, an insertion or a removal. A panic
/// then leaves a whole value, and a poisoned lock would only turn one failed operation into a store that fails forever.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
