//! Arrays, spaces and observations as Python sees them.

use homeostat_env::Space;
use numpy::{
    Element, PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};

use crate::exceptions::Class;

/// What was given as an array of `T`. One that can be read where it is is not copied; anything else
/// is converted, if its numbers are of these kinds and `fits` says nothing against its shape.
pub(crate) fn numbers<'py, T: Element>(
    given: &Bound<'py, PyAny>,
    kinds: &str,
    expected: impl Fn() -> String,
    fits: impl Fn(&[usize]) -> bool,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let py = given.py();
    if let Ok(array) = given.cast::<PyArrayDyn<T>>()
        && fits(array.shape())
        && let Ok(readable) = array.try_readonly()
        // Neither strided nor misaligned.
        && readable.as_slice().is_ok()
    {
        return Ok(readable);
    }
    let wrong_type = |got: String| Class::WrongType.with(py, format!("{}, got {got}", expected()));
    let numpy = py.import("numpy")?;
    let any = match numpy.call_method1("asarray", (given,)) {
        Ok(array) => array.cast_into::<PyUntypedArray>()?,
        // Rows of different lengths and other things that are no array; but not Ctrl-C.
        Err(error) if error.is_instance_of::<PyException>(py) => {
            return Err(wrong_type(given.get_type().name()?.to_string()));
        }
        Err(error) => return Err(error),
    };
    let dtype = any.dtype();
    if !kinds.contains(dtype.kind() as char) {
        return Err(wrong_type(format!("{dtype} of shape {}", tuple(any.shape()))));
    }
    if !fits(any.shape()) {
        let text = format!("{}, got shape {}", expected(), tuple(any.shape()));
        return Err(Class::Usage.with(py, text));
    }
    let how =
        [("dtype", T::get_dtype(py).into_any()), ("order", "C".into_pyobject(py)?.into_any())];
    let typed = numpy.call_method("array", (any,), Some(&how.into_py_dict(py)?))?;
    Ok(typed.cast_into::<PyArrayDyn<T>>()?.readonly())
}

/// A shape as Python writes it.
pub(crate) fn tuple(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        several => {
            let sizes: Vec<String> = several.iter().map(usize::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}

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
