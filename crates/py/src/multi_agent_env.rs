//! One environment that many agents share; they may join and leave.

use std::path::PathBuf;

use homeostat_core::AgentId;
use homeostat_env::{Action, EnvSpec, MultiAgentEnv};
use numpy::{PyArray1, PyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::exceptions::{Class, raise, raise_env};
use crate::raster::Raster;
use crate::settings::Keywords;
use crate::turn::Turn;
use crate::{actions, arrays, environments};

/// An environment with many agents, known by their numbers.
#[pyclass(frozen, module = "homeostat._native")]
pub(crate) struct NativeMultiAgentEnv {
    spec: EnvSpec,
    possible_agents: Option<Vec<u32>>,
    env: Turn<Box<dyn MultiAgentEnv>>,
}

/// Agents with their observations.
type Seen<'py> = Vec<(u32, Bound<'py, PyAny>)>;

/// An agent's part of a step: number, observation, reward, terminated, truncated, figures.
type Part<'py> = (u32, Bound<'py, PyAny>, f64, bool, bool, Bound<'py, PyDict>);

#[pymethods]
impl NativeMultiAgentEnv {
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
        if !factory.is_shared(&id) {
            let text = format!(
                "{id} is for a single agent, and one that many share is needed here: make it with \
                 gymnasium.make(\"homeostat/{}\")",
                id.replacen('/', "-", 1)
            );
            return Err(Class::Usage.with(py, text));
        }
        let env = factory.make_multi_agent(&id).map_err(|error| raise(py, &error.into()))?;
        let possible = env.possible_agents();
        Ok(Self {
            spec: env.spec().clone(),
            possible_agents: possible.map(numbers),
            env: Turn::new(&id, env),
        })
    }

    /// The id, as this project spells it.
    #[getter]
    fn id(&self) -> String {
        self.spec.id.to_string()
    }

    /// Observations of an agent as a word and its numbers.
    #[getter]
    fn observation_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.observation)
    }

    /// Actions of an agent as a word and its numbers.
    #[getter]
    fn action_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.action)
    }

    /// All agents that may ever appear, where that is known.
    #[getter]
    fn possible_agents(&self) -> Option<Vec<u32>> {
        self.possible_agents.clone()
    }

    /// Starts an episode: its first agents and their observations.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Seen<'py>> {
        let played = py.detach(|| {
            self.env.take(|env| {
                env.reset(seed)?;
                Ok(rows_of(env.as_ref(), env.agents()))
            })
        });
        let rows = played
            .map_err(|error| error.raise(py))?
            .map_err(|error: homeostat_env::Error| raise_env(py, &error))?;
        self.seen(py, rows)
    }

    /// Plays one step with an action for each living agent, in their order: what each of them
    /// got, and the agents that joined with their observations.
    fn step<'py>(
        &self,
        py: Python<'py>,
        given: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Part<'py>>, Seen<'py>)> {
        let actions: Vec<Action> = given
            .iter()
            .map(|action| actions::action_of(&self.spec, action))
            .collect::<PyResult<_>>()?;
        let played = py.detach(|| {
            self.env.take(|env| {
                let step = env.step(&actions)?;
                let (parts, joined) = (step.agents.to_vec(), step.joined.to_vec());
                let infos: Vec<_> = parts.iter().map(|part| env.info(part.agent)).collect();
                Ok((parts, infos, rows_of(env.as_ref(), &joined)))
            })
        });
        let (parts, infos, joined) = played
            .map_err(|error| error.raise(py))?
            .map_err(|error: homeostat_env::Error| raise_env(py, &error))?;
        let parts = parts.into_iter().zip(infos).map(|(part, info)| {
            let obs = arrays::observation(py, &self.spec.observation, part.obs)?;
            let info = arrays::info(py, &info)?;
            Ok((part.agent.number(), obs, part.reward, part.terminated, part.truncated, info))
        });
        Ok((parts.collect::<PyResult<_>>()?, self.seen(py, joined)?))
    }

    /// The present observations of all agents in one row, in their order.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = self.env.take(|env| rows_of(env.as_ref(), env.agents()));
        let rows = rows.map_err(|error| error.raise(py))?;
        let all = rows.into_iter().flat_map(|(_, obs)| obs).collect();
        Ok(PyArray1::from_vec(py, all))
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

impl NativeMultiAgentEnv {
    fn seen<'py>(&self, py: Python<'py>, rows: Vec<(u32, Vec<f32>)>) -> PyResult<Seen<'py>> {
        let space = &self.spec.observation;
        let seen = rows
            .into_iter()
            .map(|(agent, obs)| arrays::observation(py, space, obs).map(|obs| (agent, obs)));
        seen.collect()
    }
}

fn numbers(agents: &[AgentId]) -> Vec<u32> {
    agents.iter().map(|agent| agent.number()).collect()
}

fn rows_of(env: &dyn MultiAgentEnv, agents: &[AgentId]) -> Vec<(u32, Vec<f32>)> {
    let row = |agent: &AgentId| {
        let obs = env.observation(*agent).map(<[f32]>::to_vec);
        obs.map(|obs| (agent.number(), obs))
    };
    agents.iter().filter_map(row).collect()
}
