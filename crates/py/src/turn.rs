//! One thread at a time: a second one gets an error instead of waiting.

use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;

use crate::exceptions::Class;

/// Something that can be closed, and used by one thread at a time.
pub(crate) struct Turn<T> {
    name: String,
    inside: Mutex<Option<T>>,
}

/// Why a call is refused.
pub(crate) enum NoTurn {
    Closed(String),
    Busy(String),
    Broken(String),
}

impl<T: Send> Turn<T> {
    pub(crate) fn new(name: &str, inside: T) -> Self {
        Self { name: name.to_owned(), inside: Mutex::new(Some(inside)) }
    }

    /// Calls `work` with what is inside.
    pub(crate) fn take<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R, NoTurn> {
        match self.guard()?.as_mut() {
            Some(inside) => Ok(work(inside)),
            None => Err(NoTurn::Closed(self.name.clone())),
        }
    }

    /// Lets go of what is inside; again is no error.
    pub(crate) fn close(&self) -> Result<(), NoTurn> {
        self.guard()?.take();
        Ok(())
    }

    fn guard(&self) -> Result<MutexGuard<'_, Option<T>>, NoTurn> {
        self.inside.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => NoTurn::Busy(self.name.clone()),
            // A panic passed through: what is inside may be half done.
            TryLockError::Poisoned(_) => NoTurn::Broken(self.name.clone()),
        })
    }
}

impl NoTurn {
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(name) => {
                Class::Closed.with(py, format!("{name} is closed: make a new one"))
            }
            Self::Busy(name) => Class::Error
                .with(py, format!("{name} is in use by another thread: give each its own")),
            Self::Broken(name) => {
                Class::Error.with(py, format!("{name} failed in an earlier call: make a new one"))
            }
        }
    }
}
