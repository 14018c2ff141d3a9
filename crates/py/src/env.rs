//! One environment of one agent.

use std::path::PathBuf;

use homeostat_env::{Env, EnvSpec};
use numpy::PyArray3;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::exceptions::{raise, raise_env};
use crate::raster::Raster;
use crate::settings::Keywords;
use crate::turn::Turn;
use crate::{actions, arrays, environments};

/// An environment with one agent.
#[pyclass(frozen, module = "homeostat._native")]
pub(crate) struct NativeEnv {
    spec: EnvSpec,
    env: Turn<Box<dyn Env>>,
}

type Outcome<'py> = (Bound<'py, PyAny>, f64, bool, bool, Bound<'py, PyDict>);

#[pymethods]
impl NativeEnv {
    /// Settings are `(section.key, value, keyword)`.
    #[new]
    #[pyo3(signature = (env_id, settings=Vec::new(), config=None))]
    fn new(
        py: Python<'_>,
        env_id: &str,
        settings: Keywords<'_>,
        config: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (factory, id) = environments::make(py, env_id, &settings, config)?;
        let env = factory.make(&id, 0).map_err(|error| raise(py, &error.into()))?;
        Ok(Self { spec: env.spec().clone(), env: Turn::new(&id, env) })
    }

    /// The id, as this project spells it.
    #[getter]
    fn id(&self) -> String {
        self.spec.id.to_string()
    }

    /// Observations as a word and its numbers.
    #[getter]
    fn observation_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.observation)
    }

    /// Actions as a word and its numbers.
    #[getter]
    fn action_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.action)
    }

    /// State, actions and reward in words.
    #[getter]
    fn card(&self) -> String {
        self.spec.describe()
    }

    /// Starts an episode; its first observation.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
        let played = py.detach(|| self.env.take(|env| env.reset(seed).map(<[f32]>::to_vec)));
        let obs = played.map_err(|error| error.raise(py))?;
        arrays::observation(py, &self.spec.observation, obs.map_err(|error| raise_env(py, &error))?)
    }

    /// Plays one step: observation, reward, terminated, truncated, figures.
    fn step<'py>(&self, py: Python<'py>, action: &Bound<'py, PyAny>) -> PyResult<Outcome<'py>> {
        let action = actions::action_of(&self.spec, action)?;
        let played = py.detach(|| {
            self.env.take(|env| {
                let step = env.step(&action)?;
                let flags = (step.reward, step.terminated, step.truncated);
                Ok((step.obs.to_vec(), flags, step.info))
            })
        });
        let (obs, (reward, terminated, truncated), figures) = played
            .map_err(|error| error.raise(py))?
            .map_err(|error: homeostat_env::Error| raise_env(py, &error))?;
        let obs = arrays::observation(py, &self.spec.observation, obs)?;
        Ok((obs, reward, terminated, truncated, arrays::info(py, &figures)?))
    }

    /// The present state in text.
    fn render_text(&self, py: Python<'_>) -> PyResult<String> {
        let text = py.detach(|| self.env.take(|env| env.render()));
        text.map_err(|error| error.raise(py))
    }

    /// The present state as pixels: height, width, red, green and blue.
    fn render_pixels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let drawn = py.detach(|| self.env.take(|env| Raster::of(&env.picture())));
        drawn.map_err(|error| error.raise(py))?.into_array(py)
    }

    /// Frees the environment; later calls are refused.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.env.close().map_err(|error| error.raise(py))
    }
}
