//! Errors of the workbench as the exceptions of `homeostat.errors`, with their own text.

use homeostat_env::Error as EnvError;
use homeostat_lab::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The classes of `homeostat.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    /// Something failed.
    Error,
    /// The caller can mend it by calling differently; a `ValueError`.
    Usage,
    /// Something of another type was expected; a `TypeError`.
    WrongType,
    /// Gymnasium's `ResetNeeded`.
    ResetNeeded,
    /// Gymnasium's `ClosedEnvironmentError`.
    Closed,
}

impl Class {
    /// An exception of this class.
    pub(crate) fn with(self, py: Python<'_>, text: impl Into<String>) -> PyErr {
        static CLASSES: [PyOnceLock<Py<PyType>>; 5] = [const { PyOnceLock::new() }; 5];
        let (place, name) = match self {
            Self::Error => (0, "Error"),
            Self::Usage => (1, "UsageError"),
            Self::WrongType => (2, "WrongType"),
            Self::ResetNeeded => (3, "ResetNeeded"),
            Self::Closed => (4, "Closed"),
        };
        match CLASSES[place].import(py, "homeostat.errors", name) {
            Ok(class) => PyErr::from_type(class.clone(), text.into()),
            Err(error) => error,
        }
    }
}

/// The exception for an error of the workbench.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Env(error) => class_of(error),
        error if error.is_usage() => Class::Usage,
        _ => Class::Error,
    };
    class.with(py, error.to_string())
}

/// The exception for an error of an environment.
pub(crate) fn raise_env(py: Python<'_>, error: &EnvError) -> PyErr {
    class_of(error).with(py, error.to_string())
}

fn class_of(error: &EnvError) -> Class {
    match error {
        EnvError::StepBeforeReset { .. } | EnvError::StepAfterEnd { .. } => Class::ResetNeeded,
        EnvError::State(_) | EnvError::CannotBeMade { .. } => Class::Error,
        _ => Class::Usage,
    }
}
