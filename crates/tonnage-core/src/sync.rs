//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Taking a lock whose data is whole between any two statements, so that a panic elsewhere leaves nothing half done.
pub trait Lock<T> {
    /// Waits for the lock, also where a thread that had it has panicked.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Lock<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
