//! Actions as Python gives them, checked: what was expected and what came.

use homeostat_env::{Action, EnvSpec, Space};
use numpy::{
    IxDyn, PyArray, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::exceptions::Class;

/// One action of the space.
pub(crate) fn action_of(spec: &EnvSpec, given: &Bound<'_, PyAny>) -> PyResult<Action> {
    if let (Space::Discrete(_), Ok(number)) = (&spec.action, given.cast::<PyInt>()) {
        // A number too large or below zero is refused as any other outside the space.
        return index_of(spec, number.extract::<i64>().unwrap_or(-1), given);
    }
    let mut action = [spec.action.hold()];
    actions_of(spec, given, &[], &mut action)?;
    let [action] = action;
    Ok(action)
}

/// An action for each of several copies or agents, given as one array.
pub(crate) fn batch_of(
    spec: &EnvSpec,
    given: &Bound<'_, PyAny>,
    actions: &mut [Action],
) -> PyResult<()> {
    actions_of(spec, given, &[actions.len()], actions)
}

fn actions_of(
    spec: &EnvSpec,
    given: &Bound<'_, PyAny>,
    batch: &[usize],
    actions: &mut [Action],
) -> PyResult<()> {
    let width = match &spec.action {
        Space::Discrete(_) => None,
        space => Some(space.len()),
    };
    let shape: Vec<usize> = batch.iter().copied().chain(width).collect();
    match &spec.action {
        Space::Box { .. } => {
            let array = numbers::<f32>(spec, given, &shape, "numbers", "biuf")?;
            let values = array.as_slice()?;
            for (action, row) in actions.iter_mut().zip(values.chunks_exact(width.unwrap_or(1))) {
                match action {
                    Action::Continuous(values) if values.len() == row.len() => {
                        values.copy_from_slice(row);
                    }
                    other => *other = Action::Continuous(row.to_vec()),
                }
            }
        }
        Space::Discrete(_) => {
            let array = numbers::<i64>(spec, given, &shape, "integers", "iu")?;
            for (action, number) in actions.iter_mut().zip(array.as_slice()?) {
                *action = index_of(spec, *number, given)?;
            }
        }
        Space::MultiDiscrete(_) => {
            let array = numbers::<i64>(spec, given, &shape, "integers", "iu")?;
            let values = array.as_slice()?;
            for (action, row) in actions.iter_mut().zip(values.chunks_exact(width.unwrap_or(1))) {
                let choice = |number: &i64| usize::try_from(*number).unwrap_or(usize::MAX);
                match action {
                    Action::MultiDiscrete(choices) if choices.len() == row.len() => {
                        choices
                            .iter_mut()
                            .zip(row)
                            .for_each(|(slot, number)| *slot = choice(number));
                    }
                    other => *other = Action::MultiDiscrete(row.iter().map(choice).collect()),
                }
            }
        }
    }
    Ok(())
}

fn index_of(spec: &EnvSpec, number: i64, given: &Bound<'_, PyAny>) -> PyResult<Action> {
    match usize::try_from(number) {
        Ok(index) => Ok(Action::Discrete(index)),
        Err(_) => {
            let (space, env) = (&spec.action, &spec.id);
            let text = format!("action {given} is outside the action space {space} of {env}");
            Err(Class::Usage.with(given.py(), text))
        }
    }
}

/// What was given as an array of this shape. An array of the right type is read where it is;
/// anything else is converted, if it is of the right kind.
fn numbers<'py, T: numpy::Element>(
    spec: &EnvSpec,
    given: &Bound<'py, PyAny>,
    shape: &[usize],
    what: &str,
    kinds: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let py = given.py();
    if let Ok(array) = given.cast::<PyArrayDyn<T>>()
        && array.shape() == shape
        && array.is_c_contiguous()
    {
        return Ok(array.readonly());
    }
    let expected = || match shape {
        [] => format!("{} expects one of {what}", spec.id),
        shape => format!("{} expects {what} of shape {}", spec.id, tuple(shape)),
    };
    let wrong_type = |got: String| Class::WrongType.with(py, format!("{}, got {got}", expected()));
    let numpy = py.import("numpy")?;
    let any = match numpy.call_method1("asarray", (given,)) {
        Ok(array) => array.cast_into::<PyUntypedArray>()?,
        // Rows of different lengths and other things that are no array.
        Err(_) => return Err(wrong_type(given.get_type().name()?.to_string())),
    };
    let dtype = any.dtype();
    if !kinds.contains(dtype.kind() as char) {
        return Err(wrong_type(format!("{dtype} of shape {}", tuple(any.shape()))));
    }
    if any.shape() != shape {
        let text = format!("{}, got shape {}", expected(), tuple(any.shape()));
        return Err(Class::Usage.with(py, text));
    }
    let typed = numpy.call_method1("ascontiguousarray", (any, T::get_dtype(py)))?;
    // NumPy makes at least one dimension of none.
    let typed = typed.cast_into::<PyArrayDyn<T>>()?;
    let typed: Bound<'py, PyArray<T, IxDyn>> = typed.reshape(IxDyn(shape))?;
    Ok(typed.readonly())
}

fn tuple(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        several => {
            let sizes: Vec<String> = several.iter().map(usize::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}
