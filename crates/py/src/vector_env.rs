//! Copies of one environment, stepped together. Observations and rewards are written straight into
//! the memory of the arrays that Python gets.

use std::path::PathBuf;
use std::time::Instant;

use homeostat_env::{Action, AutoresetMode, EnvSpec, SubEnvStep, SubEnvs};
use numpy::{
    PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray2,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::exceptions::{Class, raise, raise_env};
use crate::raster::Raster;
use crate::settings::Keywords;
use crate::turn::Turn;
use crate::{actions, arrays, environments};

/// Copies of an environment with one agent in each.
#[pyclass(frozen, module = "homeostat._native")]
pub(crate) struct NativeVectorEnv {
    spec: EnvSpec,
    count: usize,
    /// The one array that all calls return, if observations are not to be copied.
    kept_obs: Option<Py<PyArray2<f32>>>,
    inside: Turn<Inside>,
}

struct Inside {
    envs: SubEnvs,
    actions: Vec<Action>,
    figures: Figures,
    ended: Ended,
}

/// Named figures of the last step, a row of all copies for each name.
#[derive(Default)]
struct Figures {
    names: Vec<&'static str>,
    rows: Vec<Vec<f64>>,
    is_there: Vec<bool>,
}

/// The copies whose episodes ended in the last step.
#[derive(Default)]
struct Ended {
    places: Vec<i64>,
    returns: Vec<f64>,
    lengths: Vec<i64>,
    final_obs: Vec<f32>,
}

type Step<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Option<FiguresOfStep<'py>>,
    Option<EndedInStep<'py>>,
);

/// Names, a row of values for each, and which copies have them.
type FiguresOfStep<'py> =
    (Vec<&'static str>, Vec<Bound<'py, PyArray1<f64>>>, Bound<'py, PyArray1<bool>>);

/// Places, returns, lengths and last observations.
type EndedInStep<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray2<f32>>,
);

#[pymethods]
impl NativeVectorEnv {
    /// `autoreset` is `NextStep`, `SameStep` or `Disabled`, as Gymnasium names them. Without
    /// `copy` every call returns the same array of observations.
    #[new]
    #[pyo3(signature = (env_id, count, settings=Vec::new(), config=None, autoreset="NextStep", copy=true))]
    fn new(
        py: Python<'_>,
        env_id: &str,
        count: usize,
        settings: Keywords<'_>,
        config: Option<PathBuf>,
        autoreset: &str,
        copy: bool,
    ) -> PyResult<Self> {
        let mode = match autoreset {
            "NextStep" => AutoresetMode::NextStep,
            "SameStep" => AutoresetMode::SameStep,
            "Disabled" => AutoresetMode::Disabled,
            other => {
                let text =
                    format!("autoreset_mode must be NextStep, SameStep or Disabled, got {other}");
                return Err(Class::Usage.with(py, text));
            }
        };
        let (factory, id) = environments::make(py, env_id, &settings, config)?;
        let envs = SubEnvs::new(|| factory.make(&id, 0), count, mode)
            .map_err(|error| raise(py, &error.into()))?;
        let spec = envs.spec().clone();
        let shape = [count, spec.observation.len()];
        let kept_obs = (!copy).then(|| PyArray2::zeros(py, shape, false).unbind());
        let inside = Inside {
            actions: vec![spec.action.hold(); count],
            envs,
            figures: Figures::default(),
            ended: Ended::default(),
        };
        Ok(Self { spec, count, kept_obs, inside: Turn::new(&id, inside) })
    }

    /// The id, as this project spells it.
    #[getter]
    fn id(&self) -> String {
        self.spec.id.to_string()
    }

    /// Observations of one copy as a word and its numbers.
    #[getter]
    fn observation_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.observation)
    }

    /// Actions of one copy as a word and its numbers.
    #[getter]
    fn action_space<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        arrays::describe_space(py, &self.spec.action)
    }

    /// Starts an episode in every copy, or in those of the mask; seeds are one for each copy.
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seeds: Vec<Option<u64>>,
        mask: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let id = &self.spec.id;
        if seeds.len() != self.count {
            let text = format!("{id} expects {} seeds, got {}", self.count, seeds.len());
            return Err(Class::Usage.with(py, text));
        }
        let mask = match &mask {
            Some(mask) if mask.len() != self.count => {
                let text = format!(
                    "{id} expects a mask of shape ({},), got ({},)",
                    self.count,
                    mask.len()
                );
                return Err(Class::Usage.with(py, text));
            }
            Some(mask) => mask.as_array().to_vec(),
            None => vec![true; self.count],
        };
        let obs = self.obs_array(py);
        let mut writable = self.writable(&obs)?;
        let rows = writable.as_slice_mut()?;
        let width = self.spec.observation.len();
        let played = py.detach(|| {
            self.inside.take(|inside| -> homeostat_env::Result<()> {
                for (index, row) in rows.chunks_exact_mut(width).enumerate() {
                    if mask[index] {
                        inside.envs.reset_env(index, seeds[index], row)?;
                    } else if let Some(last) = inside.envs.last_obs(index) {
                        row.copy_from_slice(last);
                    }
                }
                Ok(())
            })
        });
        played.map_err(|error| error.raise(py))?.map_err(|error| raise_env(py, &error))?;
        drop(writable);
        Ok(obs)
    }

    /// Plays one step in every copy: observations, rewards, terminations, truncations, figures,
    /// and whose episodes ended.
    fn step<'py>(&self, py: Python<'py>, actions: &Bound<'py, PyAny>) -> PyResult<Step<'py>> {
        let obs = self.obs_array(py);
        let rewards = PyArray1::<f64>::zeros(py, [self.count], false);
        let terminations = PyArray1::<bool>::zeros(py, [self.count], false);
        let truncations = PyArray1::<bool>::zeros(py, [self.count], false);
        let played = self.inside.take(|inside| -> PyResult<_> {
            let Inside { envs, actions: chosen, figures, ended } = inside;
            // Before the observations are taken: without copies the two may be one array.
            actions::batch_of(&self.spec, actions, chosen)?;
            let mut writable = (
                self.writable(&obs)?,
                rewards.readwrite(),
                terminations.readwrite(),
                truncations.readwrite(),
            );
            let (rows, reward, terminated, truncated) = (
                writable.0.as_slice_mut()?,
                writable.1.as_slice_mut()?,
                writable.2.as_slice_mut()?,
                writable.3.as_slice_mut()?,
            );
            let stepped = py.detach(|| {
                figures.clear();
                ended.clear();
                envs.step(chosen, rows, |index, step| {
                    reward[index] = step.reward;
                    terminated[index] = step.terminated;
                    truncated[index] = step.truncated;
                    figures.add(index, self.count, &step);
                    ended.add(index, &step);
                })
            });
            stepped.map_err(|error| raise_env(py, &error))?;
            let width = self.spec.observation.len();
            Ok((figures.hand_over(py), ended.hand_over(py, width)?))
        });
        let (figures, ended) = played.map_err(|error| error.raise(py))??;
        Ok((obs, rewards, terminations, truncations, figures, ended))
    }

    /// Plays rows of actions over and over for so many steps without coming back to Python, and
    /// says how many seconds that took: what the copies cost by themselves.
    fn time_natively(
        &self,
        py: Python<'_>,
        rows: Vec<Bound<'_, PyAny>>,
        steps: usize,
    ) -> PyResult<f64> {
        let rows = rows
            .iter()
            .map(|row| {
                let mut actions = vec![self.spec.action.hold(); self.count];
                actions::batch_of(&self.spec, row, &mut actions).map(|()| actions)
            })
            .collect::<PyResult<Vec<_>>>()?;
        let played = py.detach(|| {
            self.inside.take(|inside| -> homeostat_env::Result<f64> {
                let mut obs = vec![0.0; self.count * self.spec.observation.len()];
                let (mut total, start) = (0.0, Instant::now());
                for actions in rows.iter().cycle().take(steps) {
                    inside.envs.step(actions, &mut obs, |_, step| total += step.reward)?;
                }
                std::hint::black_box(total);
                Ok(start.elapsed().as_secs_f64())
            })
        });
        played.map_err(|error| error.raise(py))?.map_err(|error| raise_env(py, &error))
    }

    /// The present states in text, one for each copy.
    fn render_text(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let texts = py.detach(|| {
            self.inside.take(|inside| {
                let envs = (0..self.count).filter_map(|index| inside.envs.env(index));
                envs.map(|env| env.render()).collect()
            })
        });
        texts.map_err(|error| error.raise(py))
    }

    /// The present states as pixels, one picture for each copy.
    fn render_pixels<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray3<u8>>>> {
        let drawn = py.detach(|| {
            self.inside.take(|inside| {
                let envs = (0..self.count).filter_map(|index| inside.envs.env(index));
                envs.map(|env| Raster::of(&env.picture())).collect::<Vec<_>>()
            })
        });
        let rasters = drawn.map_err(|error| error.raise(py))?;
        rasters.into_iter().map(|raster| raster.into_array(py)).collect()
    }

    /// Lets go of the copies; whatever is asked of them then is refused.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inside.close().map_err(|error| error.raise(py))
    }
}

impl NativeVectorEnv {
    /// Where observations go: a new array, or the one that is kept.
    fn obs_array<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f32>> {
        match &self.kept_obs {
            Some(kept) => kept.bind(py).clone(),
            None => PyArray2::zeros(py, [self.count, self.spec.observation.len()], false),
        }
    }
}

impl NativeVectorEnv {
    /// Room for observations. The array that is kept is in the caller's hands as well.
    fn writable<'py>(
        &self,
        obs: &Bound<'py, PyArray2<f32>>,
    ) -> PyResult<PyReadwriteArray2<'py, f32>> {
        obs.try_readwrite().map_err(|error| {
            let text = format!("{} cannot write its observations: {error}", self.spec.id);
            Class::Usage.with(obs.py(), text)
        })
    }
}

impl Figures {
    fn clear(&mut self) {
        self.is_there.fill(false);
        self.rows.iter_mut().for_each(|row| row.fill(0.0));
    }

    fn add(&mut self, index: usize, count: usize, step: &SubEnvStep<'_>) {
        if step.info.is_empty() {
            return;
        }
        if self.names.is_empty() {
            self.names = step.info.iter().map(|(name, _)| *name).collect();
            self.rows = vec![vec![0.0; count]; self.names.len()];
            self.is_there = vec![false; count];
        }
        self.is_there[index] = true;
        for (row, (_, value)) in self.rows.iter_mut().zip(&step.info) {
            row[index] = *value;
        }
    }

    fn hand_over<'py>(&self, py: Python<'py>) -> Option<FiguresOfStep<'py>> {
        if !self.is_there.contains(&true) {
            return None;
        }
        let rows = self.rows.iter().map(|row| PyArray1::from_slice(py, row)).collect();
        Some((self.names.clone(), rows, PyArray1::from_slice(py, &self.is_there)))
    }
}

impl Ended {
    fn clear(&mut self) {
        self.places.clear();
        self.returns.clear();
        self.lengths.clear();
        self.final_obs.clear();
    }

    fn add(&mut self, index: usize, step: &SubEnvStep<'_>) {
        if let Some(episode) = step.episode {
            self.places.push(index as i64);
            self.returns.push(episode.episode_return);
            self.lengths.push(episode.length as i64);
            self.final_obs.extend(step.final_obs);
        }
    }

    fn hand_over<'py>(
        &mut self,
        py: Python<'py>,
        width: usize,
    ) -> PyResult<Option<EndedInStep<'py>>> {
        if self.places.is_empty() {
            return Ok(None);
        }
        let count = self.places.len();
        let final_obs = PyArray1::from_vec(py, std::mem::take(&mut self.final_obs));
        Ok(Some((
            PyArray1::from_vec(py, std::mem::take(&mut self.places)),
            PyArray1::from_vec(py, std::mem::take(&mut self.returns)),
            PyArray1::from_vec(py, std::mem::take(&mut self.lengths)),
            final_obs.reshape([count, width])?,
        )))
    }
}
