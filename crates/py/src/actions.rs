//! Actions as Python gives them, checked: what was expected and what came.

use homeostat_env::{Action, EnvSpec, Space};
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::arrays::{numbers, tuple};
use crate::exceptions::Class;

/// One action of the space.
pub(crate) fn action_of(spec: &EnvSpec, given: &Bound<'_, PyAny>) -> PyResult<Action> {
    if let (Space::Discrete(_), Ok(number)) = (&spec.action, given.cast::<PyInt>()) {
        let index = number.extract::<usize>().map_err(|_| outside(spec, given, &[], 0))?;
        return Ok(Action::Discrete(index));
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
            let array = array_of::<f32>(spec, given, &shape, "numbers", "biuf")?;
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
            let array = array_of::<i64>(spec, given, &shape, "integers", "iu")?;
            for (place, (action, number)) in actions.iter_mut().zip(array.as_slice()?).enumerate() {
                let Ok(index) = usize::try_from(*number) else {
                    return Err(outside(spec, given, batch, place));
                };
                *action = Action::Discrete(index);
            }
        }
        Space::MultiDiscrete(_) => {
            let array = array_of::<i64>(spec, given, &shape, "integers", "iu")?;
            let rows = array.as_slice()?.chunks_exact(width.unwrap_or(1));
            for (place, (action, row)) in actions.iter_mut().zip(rows).enumerate() {
                if row.iter().any(|number| *number < 0) {
                    return Err(outside(spec, given, batch, place));
                }
                let wanted = row.iter().map(|number| *number as usize);
                match action {
                    Action::MultiDiscrete(choices) if choices.len() == row.len() => {
                        choices.iter_mut().zip(wanted).for_each(|(slot, choice)| *slot = choice);
                    }
                    other => *other = Action::MultiDiscrete(wanted.collect()),
                }
            }
        }
    }
    Ok(())
}

/// What is said of a number below zero, or beyond what a number of 64 bits can be, in the words
/// for any other outside the space: the action as it was given, of several the one at `place`.
fn outside(spec: &EnvSpec, given: &Bound<'_, PyAny>, batch: &[usize], place: usize) -> PyErr {
    let action = match batch {
        [] => Ok(given.clone()),
        _ => given.get_item(place),
    };
    let action = action.unwrap_or_else(|_| given.clone());
    let (space, env) = (&spec.action, &spec.id);
    let text = format!("action {action} is outside the action space {space} of {env}");
    Class::Usage.with(given.py(), text)
}

fn array_of<'py, T: numpy::Element>(
    spec: &EnvSpec,
    given: &Bound<'py, PyAny>,
    shape: &[usize],
    what: &str,
    kinds: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let expected = || match shape {
        [] => format!("{} expects an integer", spec.id),
        shape => format!("{} expects {what} of shape {}", spec.id, tuple(shape)),
    };
    numbers(given, kinds, expected, |found| found == shape)
}
