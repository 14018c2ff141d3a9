//! What was learnt: policies of a run, to act with and to be played.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use homeostat_core::Stream;
use homeostat_env::{Action, Space};
use homeostat_lab::{Environments, RunDirectory, env_factory_of, load_candidate, load_candidates};
use homeostat_nn::Kernel;
use homeostat_rl::{Sampling, Workspace};
use homeostat_train::EvaluationConfig;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::{describe_space, numbers, tuple};
use crate::attended::Attended;
use crate::exceptions::{Class, raise};
use crate::turn::Turn;

/// A policy that acts and no longer learns.
#[pyclass(frozen, module = "homeostat._native")]
pub(crate) struct Policy {
    policy: homeostat_rl::Policy,
    observation: Space,
    action: Space,
    acting: Turn<Acting>,
}

struct Acting {
    workspace: Workspace,
    rng: Stream,
}

/// What one policy reached: its name, the returns and the lengths of its episodes.
type Played<'py> = (String, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Policy {
    /// Reads a policy file. The seed is for actions that are drawn.
    #[new]
    #[pyo3(signature = (path, seed=0))]
    fn new(py: Python<'_>, path: PathBuf, seed: u64) -> PyResult<Self> {
        let loaded = py.detach(|| load_candidate(&path));
        let policy = loaded.map_err(|error| raise(py, &error))?.policy;
        let acting =
            Acting { workspace: Workspace::new(Kernel::best()), rng: Stream::from_seed(seed) };
        Ok(Self {
            observation: policy.observation(),
            action: policy.action(),
            acting: Turn::new("the policy", acting),
            policy,
        })
    }

    /// The environment it was trained for.
    #[getter]
    fn env(&self) -> &str {
        self.policy.env()
    }

    /// The algorithm it was trained by.
    #[getter]
    fn algorithm(&self) -> &str {
        self.policy.algorithm()
    }

    /// What it looks at, as a word and its numbers.
    #[getter]
    fn observation_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        describe_space(py, &self.observation)
    }

    /// What it answers, as a word and its numbers.
    #[getter]
    fn action_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        describe_space(py, &self.action)
    }

    /// The action for one observation, or for each row of several.
    #[pyo3(signature = (obs, deterministic=true))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        deterministic: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (rows, is_batch) = self.rows_of(obs)?;
        let sampling = if deterministic { Sampling::Greedy } else { Sampling::Stochastic };
        let decided = py.detach(|| {
            self.acting.take(|acting| {
                let Acting { workspace, rng } = acting;
                let rows = rows.chunks_exact(self.observation.len());
                let decide = |row: &[f32]| {
                    let mut action = self.action.hold();
                    self.policy.act(row, sampling, rng, &mut action, workspace);
                    action
                };
                rows.map(decide).collect::<Vec<Action>>()
            })
        });
        let actions = decided.map_err(|error| error.raise(py))?;
        self.answer(py, &actions, is_batch)
    }
}

impl Policy {
    /// Observations row by row, and whether several were given.
    fn rows_of(&self, obs: &Bound<'_, PyAny>) -> PyResult<(Vec<f32>, bool)> {
        let one: Vec<usize> = match &self.observation {
            Space::Discrete(_) => Vec::new(),
            space => vec![space.len()],
        };
        let env = self.policy.env();
        let expected = format!("a policy of {env} expects {}", self.observation);
        let fits = |shape: &[usize]| shape == one || shape.get(1..) == Some(one.as_slice());
        let of_shape = || format!("{expected} of shape {}, or several in rows", tuple(&one));
        let array = numbers::<f32>(obs, "biuf", of_shape, fits)?;
        let is_batch = array.shape() != one;
        let rows = array.as_slice()?.to_vec();
        for row in rows.chunks_exact(self.observation.len()) {
            let is_foreign = match &self.observation {
                // An environment may leave the ends of its box by a little, but must give a number.
                Space::Box { .. } => row.iter().any(|number| !number.is_finite()),
                space => !space.contains_observation(row),
            };
            if is_foreign {
                return Err(Class::Usage.with(obs.py(), format!("{expected}, got {row:?}")));
            }
        }
        Ok((rows, is_batch))
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        actions: &[Action],
        is_batch: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let choices = |action: &Action| -> Vec<i64> {
            match action {
                Action::Discrete(choice) => vec![*choice as i64],
                Action::MultiDiscrete(choices) => {
                    choices.iter().map(|choice| *choice as i64).collect()
                }
                Action::Continuous(_) => Vec::new(),
            }
        };
        let shape = [actions.len(), self.action.len()];
        let all = match &self.action {
            Space::Discrete(_) => {
                let chosen = actions.iter().flat_map(choices).collect();
                PyArray1::from_vec(py, chosen).into_any()
            }
            Space::MultiDiscrete(_) => {
                let chosen = PyArray1::from_vec(py, actions.iter().flat_map(choices).collect());
                chosen.reshape(shape)?.into_any()
            }
            Space::Box { .. } => {
                let numbers = actions.iter().flat_map(|action| match action {
                    Action::Continuous(numbers) => numbers.clone(),
                    _ => Vec::new(),
                });
                let rows: Bound<'py, PyArray2<f32>> =
                    PyArray1::from_vec(py, numbers.collect()).reshape(shape)?;
                rows.into_any()
            }
        };
        if is_batch { Ok(all) } else { all.get_item(0) }
    }
}

/// The policy files of a run directory by agent, or the one file.
#[pyfunction]
pub(crate) fn policy_files(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path]);
    }
    let files = RunDirectory::open(&path).and_then(|directory| directory.policy_files());
    let files = files.map_err(|error| raise(py, &error))?;
    if files.is_empty() {
        return Err(raise(py, &homeostat_lab::Error::NoPolicies { path }));
    }
    Ok(files)
}

/// Plays the policies of a run directory, or the one of a file, on seeds that training did not use.
#[pyfunction]
#[pyo3(signature = (path, episodes=100, seed=1, stochastic=false))]
pub(crate) fn evaluate(
    py: Python<'_>,
    path: PathBuf,
    episodes: usize,
    seed: u64,
    stochastic: bool,
) -> PyResult<Vec<Played<'_>>> {
    let sampling = if stochastic { Sampling::Stochastic } else { Sampling::Greedy };
    let config = EvaluationConfig { episodes, seed, sampling, kernel: Kernel::best() };
    let attended = Attended::<Infallible>::new();
    let stop = Arc::clone(&attended.stop);
    let work = move || {
        let candidates = load_candidates(&path)?;
        let env_factory = env_factory_of(&path, &Environments::builtin())?;
        homeostat_train::evaluate(candidates, &env_factory, &config, &stop)
    };
    let (played, interruption) = attended.run(py, 0, work, |_| Ok(()))?;
    if let Some(error) = interruption {
        return Err(error);
    }
    let played = played.map_err(|error| raise(py, &error))?;
    let arrays = played.into_iter().map(|evaluation| {
        let returns = PyArray1::from_vec(py, evaluation.returns);
        (evaluation.name, returns, PyArray1::from_vec(py, evaluation.lengths))
    });
    Ok(arrays.collect())
}
