//! Spaces and observations as Python sees them.

use homeostat_env::Space;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A space as a word and its numbers; the package makes Gymnasium's spaces of it.
pub(crate) fn describe_space<'py>(py: Python<'py>, space: &Space) -> PyResult<Bound<'py, PyTuple>> {
    match space {
        Space::Box { low, high } => {
            let (low, high) = (PyArray1::from_slice(py, low), PyArray1::from_slice(py, high));
            ("box", low, high).into_pyobject(py)
        }
        Space::Discrete(n) => ("discrete", *n).into_pyobject(py),
        Space::MultiDiscrete(n) => {
            let counts: Vec<i64> = n.iter().map(|n| *n as i64).collect();
            ("multi-discrete", PyArray1::from_vec(py, counts)).into_pyobject(py)
        }
    }
}

/// One observation in the form of its space. The array owns the numbers.
pub(crate) fn observation<'py>(
    py: Python<'py>,
    space: &Space,
    obs: Vec<f32>,
) -> PyResult<Bound<'py, PyAny>> {
    match space {
        Space::Box { .. } => Ok(PyArray1::from_vec(py, obs).into_any()),
        Space::MultiDiscrete(_) => {
            let numbers = obs.iter().map(|number| *number as i64).collect();
            Ok(PyArray1::from_vec(py, numbers).into_any())
        }
        Space::Discrete(_) => {
            let number = PyArray1::from_vec(py, vec![obs[0] as i64]);
            number.get_item(0)
        }
    }
}

/// Named figures beside a step.
pub(crate) fn info<'py>(
    py: Python<'py>,
    figures: &[(&'static str, f64)],
) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    for (name, value) in figures {
        info.set_item(*name, *value)?;
    }
    Ok(info)
}
