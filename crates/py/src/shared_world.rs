//! One world that many agents share, who may join and leave.

use std::path::PathBuf;

use homeostat_core::AgentId;
use homeostat_env::{Action, EnvSpec, MultiAgentEnv};
use numpy::{PyArray1, PyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::exceptions::{Class, raise, raise_world};
use crate::raster::Raster;
use crate::settings::Keywords;
use crate::turn::Turn;
use crate::{actions, arrays, worlds};

/// A world with many agents in it, known by their numbers.
#[pyclass(frozen, module = "homeostat._native")]
pub(crate) struct SharedWorld {
    spec: EnvSpec,
    possible_agents: Option<Vec<u32>>,
    world: Turn<Box<dyn MultiAgentEnv>>,
}

/// Agents with their observations.
type Seen<'py> = Vec<(u32, Bound<'py, PyAny>)>;

/// An agent's part of a step: number, observation, reward, terminated, truncated, figures.
type Part<'py> = (u32, Bound<'py, PyAny>, f64, bool, bool, Bound<'py, PyDict>);

#[pymethods]
impl SharedWorld {
    /// Settings are `(section.key, value, keyword)`.
    #[new]
    #[pyo3(signature = (world, settings=Vec::new(), config=None))]
    fn new(
        py: Python<'_>,
        world: &str,
        settings: Keywords<'_>,
        config: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (factory, id) = worlds::make(py, world, &settings, config)?;
        if !factory.is_shared(&id) {
            let text = format!(
                "{id} is for a single agent, and one that many share is needed here: make it with \
                 gymnasium.make(\"homeostat/{}\")",
                id.replacen('/', "-", 1)
            );
            return Err(Class::Usage.with(py, text));
        }
        let world = factory.make_multi_agent(&id).map_err(|error| raise(py, &error.into()))?;
        let possible = world.possible_agents();
        Ok(Self {
            spec: world.spec().clone(),
            possible_agents: possible.map(numbers),
            world: Turn::new(&id, world),
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

    /// Everybody who may ever appear, where that is known.
    #[getter]
    fn possible_agents(&self) -> Option<Vec<u32>> {
        self.possible_agents.clone()
    }

    /// Starts an episode: whoever begins it, with what each sees.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Seen<'py>> {
        let played = py.detach(|| {
            self.world.take(|world| {
                world.reset(seed)?;
                Ok(rows_of(world.as_ref(), world.agents()))
            })
        });
        let rows = played
            .map_err(|error| error.raise(py))?
            .map_err(|error: homeostat_env::Error| raise_world(py, &error))?;
        self.seen(py, rows)
    }

    /// Plays one step with an action for each living agent, in their order: what each of them
    /// had of it, and whoever joined, with what each sees.
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
            self.world.take(|world| {
                let step = world.step(&actions)?;
                let (parts, joined) = (step.agents.to_vec(), step.joined.to_vec());
                let infos: Vec<_> = parts.iter().map(|part| world.info(part.agent)).collect();
                Ok((parts, infos, rows_of(world.as_ref(), &joined)))
            })
        });
        let (parts, infos, joined) = played
            .map_err(|error| error.raise(py))?
            .map_err(|error: homeostat_env::Error| raise_world(py, &error))?;
        let parts = parts.into_iter().zip(infos).map(|(part, info)| {
            let obs = arrays::observation(py, &self.spec.observation, part.obs)?;
            let info = arrays::info(py, &info)?;
            Ok((part.agent.number(), obs, part.reward, part.terminated, part.truncated, info))
        });
        Ok((parts.collect::<PyResult<_>>()?, self.seen(py, joined)?))
    }

    /// Everybody's present observation in one row, in the order of the agents.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = self.world.take(|world| rows_of(world.as_ref(), world.agents()));
        let rows = rows.map_err(|error| error.raise(py))?;
        let all = rows.into_iter().flat_map(|(_, obs)| obs).collect();
        Ok(PyArray1::from_vec(py, all))
    }

    /// The present state in text.
    fn render_text(&self, py: Python<'_>) -> PyResult<String> {
        let text = py.detach(|| self.world.take(|world| world.render()));
        text.map_err(|error| error.raise(py))
    }

    /// The present state as pixels: height, width, red, green and blue.
    fn render_pixels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let drawn = py.detach(|| self.world.take(|world| Raster::of(&world.picture())));
        drawn.map_err(|error| error.raise(py))?.into_array(py)
    }

    /// Lets go of the world; whatever is asked of it then is refused.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.world.close().map_err(|error| error.raise(py))
    }
}

impl SharedWorld {
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

fn rows_of(world: &dyn MultiAgentEnv, agents: &[AgentId]) -> Vec<(u32, Vec<f32>)> {
    let row = |agent: &AgentId| {
        let obs = world.observation(*agent).map(<[f32]>::to_vec);
        obs.map(|obs| (agent.number(), obs))
    };
    agents.iter().filter_map(row).collect()
}
