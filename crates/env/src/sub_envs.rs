//! Several copies of one environment, stepped together. They count the return and the length of
//! every episode themselves, so that no log lacks them.

use homeostat_core::{Persist, Snapshot};
use rayon::prelude::*;

use crate::{Action, Env, EnvSpec, Error, Info, Result};

/// When a sub-environment whose episode has ended starts its next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoresetMode {
    /// In the step that ended it: the row of observations already holds the next episode's first
    /// one, and [`SubEnvStep::final_obs`] holds the last one. The learners of this project use
    /// this mode, because it wastes no step.
    SameStep,
    /// In the following step, whose action is ignored and whose reward is zero;
    /// Gymnasium's default.
    NextStep,
    /// Never: the caller resets with [`SubEnvs::reset_env`].
    Disabled,
}

/// The sub-environments of a vectorised environment. They write observations into memory that
/// the caller owns (a NumPy array, a rollout buffer) without a copy in between;
/// [`VecEnv`](crate::VecEnv) adds memory of its own.
pub struct SubEnvs {
    spec: EnvSpec,
    mode: AutoresetMode,
    envs: Vec<SubEnv>,
}

struct SubEnv {
    env: Box<dyn Env>,
    episode_return: f64,
    episode_length: u64,
    pending_reset: bool,
    final_obs: Vec<f32>,
}

/// One sub-environment's part of a vectorised step.
#[derive(Debug, Clone, PartialEq)]
pub struct SubEnvStep<'a> {
    /// The reward.
    pub reward: f64,
    /// The task ended.
    pub terminated: bool,
    /// A limit stopped the episode.
    pub truncated: bool,
    /// The observation that the step led to. Unlike the row of observations it never belongs to
    /// the next episode, so learners bootstrap from it.
    pub final_obs: &'a [f32],
    /// The finished episode, if this step ended one.
    pub episode: Option<EpisodeSummary>,
    /// Figures for logs; empty for a step that only reset.
    pub info: Info,
}

/// A finished episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeSummary {
    /// Undiscounted sum of its rewards.
    pub episode_return: f64,
    /// Its number of steps.
    pub length: u64,
}

impl SubEnvs {
    /// `num_envs` copies made by `make`. Reset each of them before its first step.
    pub fn new(
        make: impl Fn() -> Result<Box<dyn Env>>,
        num_envs: usize,
        mode: AutoresetMode,
    ) -> Result<Self> {
        let spec = make()?.spec().clone();
        if num_envs == 0 {
            return Err(Error::NoEnvs { env: spec.id.to_string() });
        }
        let width = spec.observation.len();
        let sub_env = |_| {
            Ok(SubEnv {
                env: make()?,
                episode_return: 0.0,
                episode_length: 0,
                pending_reset: false,
                final_obs: vec![0.0; width],
            })
        };
        Ok(Self { envs: (0..num_envs).map(sub_env).collect::<Result<_>>()?, mode, spec })
    }

    /// Spaces, time limit and description of each copy.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// When a sub-environment starts its next episode.
    pub fn autoreset(&self) -> AutoresetMode {
        self.mode
    }

    /// Number of copies.
    pub fn num_envs(&self) -> usize {
        self.envs.len()
    }

    /// One copy, read-only.
    pub fn env(&self, index: usize) -> Option<&dyn Env> {
        self.envs.get(index).map(|sub_env| sub_env.env.as_ref())
    }

    /// Steps every copy, writes the observations row by row into `obs`, and passes the outcome of
    /// each copy to `each`. If one action is invalid, no copy moves.
    pub fn step(
        &mut self,
        actions: &[Action],
        obs: &mut [f32],
        mut each: impl FnMut(usize, SubEnvStep<'_>),
    ) -> Result<()> {
        self.require_steps(actions)?;
        let rows = obs.chunks_exact_mut(self.spec.observation.len());
        for (index, ((sub_env, action), row)) in
            self.envs.iter_mut().zip(actions).zip(rows).enumerate()
        {
            each(index, sub_env.step(action, row, self.mode)?);
        }
        Ok(())
    }

    /// [`SubEnvs::step`] on rayon's threads. Copies share nothing, so the outcome does not depend
    /// on the number of threads, and `each` is called in the order of the copies. It pays off
    /// where a step is slow; see [`SubEnvs::are_worth_threads`].
    pub fn step_on_threads(
        &mut self,
        actions: &[Action],
        obs: &mut [f32],
        mut each: impl FnMut(usize, SubEnvStep<'_>),
    ) -> Result<()> {
        self.require_steps(actions)?;
        let (mode, width) = (self.mode, self.spec.observation.len());
        let rows = obs.par_chunks_exact_mut(width);
        let envs = self.envs.par_iter_mut().zip(actions).zip(rows);
        let played: Vec<_> =
            envs.map(|((sub_env, action), row)| sub_env.step(action, row, mode)).collect();
        for (index, step) in played.into_iter().enumerate() {
            each(index, step?);
        }
        Ok(())
    }

    /// Whether there are several copies and a step of one is slow enough to pay for a thread.
    pub fn are_worth_threads(&self) -> bool {
        self.envs.len() > 1 && self.envs[0].env.is_worth_a_thread()
    }

    /// Checked before any copy moves, so that an invalid step changes nothing.
    fn require_steps(&self, actions: &[Action]) -> Result<()> {
        if actions.len() != self.envs.len() {
            return Err(Error::ActionCount {
                env: self.spec.id.to_string(),
                expected: self.envs.len(),
                got: actions.len(),
            });
        }
        let mut envs = self.envs.iter().zip(actions);
        envs.try_for_each(|(sub_env, action)| sub_env.require_step(action, self.mode, &self.spec))
    }

    /// Starts a new episode in one copy and writes its first observation into `row`.
    pub fn reset_env(&mut self, index: usize, seed: Option<u64>, row: &mut [f32]) -> Result<()> {
        let num_envs = self.envs.len();
        let Some(sub_env) = self.envs.get_mut(index) else {
            return Err(Error::NoSuchEnv { env: self.spec.id.to_string(), index, num_envs });
        };
        sub_env.reset(seed, row)?;
        sub_env.final_obs.copy_from_slice(row);
        Ok(())
    }

    /// The observation after the last step of one copy, or after its reset since then.
    pub fn last_obs(&self, index: usize) -> Option<&[f32]> {
        self.envs.get(index).map(|sub_env| sub_env.final_obs.as_slice())
    }
}

impl SubEnv {
    fn require_step(&self, action: &Action, mode: AutoresetMode, spec: &EnvSpec) -> Result<()> {
        match mode {
            AutoresetMode::NextStep if self.pending_reset => Ok(()),
            AutoresetMode::Disabled if self.pending_reset => {
                Err(Error::StepAfterEnd { env: spec.id.to_string() })
            }
            _ => spec.require_action(action),
        }
    }

    fn reset(&mut self, seed: Option<u64>, row: &mut [f32]) -> Result<()> {
        row.copy_from_slice(self.env.reset(seed)?);
        self.episode_return = 0.0;
        self.episode_length = 0;
        self.pending_reset = false;
        Ok(())
    }

    fn step(
        &mut self,
        action: &Action,
        row: &mut [f32],
        mode: AutoresetMode,
    ) -> Result<SubEnvStep<'_>> {
        if self.pending_reset && mode == AutoresetMode::NextStep {
            self.reset(None, row)?;
            self.final_obs.copy_from_slice(row);
            let final_obs = &self.final_obs;
            return Ok(SubEnvStep {
                reward: 0.0,
                terminated: false,
                truncated: false,
                final_obs,
                episode: None,
                info: Info::new(),
            });
        }
        let step = self.env.step(action)?;
        let (reward, terminated, truncated) = (step.reward, step.terminated, step.truncated);
        let info = step.info;
        row.copy_from_slice(step.obs);
        self.final_obs.copy_from_slice(step.obs);
        self.episode_return += reward;
        self.episode_length += 1;
        let mut episode = None;
        if terminated || truncated {
            episode = Some(EpisodeSummary {
                episode_return: self.episode_return,
                length: self.episode_length,
            });
            match mode {
                AutoresetMode::SameStep => self.reset(None, row)?,
                AutoresetMode::NextStep | AutoresetMode::Disabled => self.pending_reset = true,
            }
        }
        Ok(SubEnvStep { reward, terminated, truncated, final_obs: &self.final_obs, episode, info })
    }
}

impl Persist for SubEnvs {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (index, sub_env) in self.envs.iter().enumerate() {
            let name = format!("{name}/lane/{index}");
            sub_env.env.save(&format!("{name}/env"), out);
            out.put_f64(&format!("{name}/return"), [sub_env.episode_return]);
            out.put_u64(
                &format!("{name}/length"),
                [sub_env.episode_length, u64::from(sub_env.pending_reset)],
            );
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        for (index, sub_env) in self.envs.iter_mut().enumerate() {
            let name = format!("{name}/lane/{index}");
            sub_env.env.load(&format!("{name}/env"), from)?;
            sub_env.episode_return = from.f64s(&format!("{name}/return"), 1)?[0];
            let length = from.u64s(&format!("{name}/length"), 2)?;
            sub_env.episode_length = length[0];
            sub_env.pending_reset = length[1] != 0;
        }
        Ok(())
    }
}
