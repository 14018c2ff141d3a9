//! Several copies of one environment, stepped together, with the bookkeeping of
//! episodes inside, so that returns and lengths are never missing from a log.

use homeostat_core::{Persist, Snapshot};

use crate::{Action, Env, EnvSpec, Error, Info, Result};

/// When an ended lane starts its next episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoresetMode {
    /// In the step that ended it: the lane's observation is already the next
    /// episode's first, the last one is in [`LaneStep::final_obs`]. Learners of
    /// this project take this mode: no step is wasted.
    SameStep,
    /// In the following step, whose action is ignored and whose reward is zero;
    /// Gymnasium's default.
    NextStep,
    /// Never: the caller resets lanes with [`Lanes::reset_lane`].
    Disabled,
}

/// Copies ("lanes") of one environment that write their observations where they are told:
/// into memory of the caller's, without a copy in between. [`crate::VecEnv`] has memory of its
/// own for them.
pub struct Lanes {
    spec: EnvSpec,
    mode: AutoresetMode,
    lanes: Vec<Lane>,
}

struct Lane {
    env: Box<dyn Env>,
    episode_return: f64,
    episode_length: u64,
    pending_reset: bool,
    final_obs: Vec<f32>,
}

/// What one lane had of a common step.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStep<'a> {
    /// The reward.
    pub reward: f64,
    /// The task ended.
    pub terminated: bool,
    /// A limit stopped the episode.
    pub truncated: bool,
    /// The observation the step itself led to; unlike the lane's row of observations never
    /// that of the next episode. Learners bootstrap from this one.
    pub final_obs: &'a [f32],
    /// The finished episode, if this step ended one.
    pub episode: Option<EpisodeSummary>,
    /// Further figures of the step, for people and logs; none of a step that only reset.
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

impl Lanes {
    /// `lanes` copies made by `make`, each to be reset before its first step.
    pub fn new(
        make: impl Fn() -> Result<Box<dyn Env>>,
        lanes: usize,
        mode: AutoresetMode,
    ) -> Result<Self> {
        let spec = make()?.spec().clone();
        if lanes == 0 {
            return Err(Error::NoLanes { env: spec.id.to_string() });
        }
        let width = spec.observation.len();
        let lane = |_| {
            Ok(Lane {
                env: make()?,
                episode_return: 0.0,
                episode_length: 0,
                pending_reset: false,
                final_obs: vec![0.0; width],
            })
        };
        Ok(Self { lanes: (0..lanes).map(lane).collect::<Result<_>>()?, mode, spec })
    }

    /// Spaces, limits and card of one lane.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// When ended lanes start anew.
    pub fn autoreset(&self) -> AutoresetMode {
        self.mode
    }

    /// Number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The environment of one lane, to look at.
    pub fn env(&self, index: usize) -> Option<&dyn Env> {
        self.lanes.get(index).map(|lane| lane.env.as_ref())
    }

    /// Plays one step in every lane, writes the observations row by row into `obs`, and hands
    /// each lane's outcome to `each`. If one action is refused, no lane moves.
    pub fn step(
        &mut self,
        actions: &[Action],
        obs: &mut [f32],
        mut each: impl FnMut(usize, LaneStep<'_>),
    ) -> Result<()> {
        if actions.len() != self.lanes.len() {
            return Err(Error::ActionCount {
                env: self.spec.id.to_string(),
                expected: self.lanes.len(),
                got: actions.len(),
            });
        }
        // Before any lane moves, so that a refused step leaves all of them as they were.
        for (lane, action) in self.lanes.iter().zip(actions) {
            lane.require_step(action, self.mode, &self.spec)?;
        }
        let rows = obs.chunks_exact_mut(self.spec.observation.len());
        for (index, ((lane, action), row)) in
            self.lanes.iter_mut().zip(actions).zip(rows).enumerate()
        {
            each(index, lane.step(action, row, self.mode)?);
        }
        Ok(())
    }

    /// Starts a new episode in one lane and writes its first observation into `row`.
    pub fn reset_lane(&mut self, index: usize, seed: Option<u64>, row: &mut [f32]) -> Result<()> {
        let lanes = self.lanes.len();
        let Some(lane) = self.lanes.get_mut(index) else {
            return Err(Error::NoSuchLane { env: self.spec.id.to_string(), index, lanes });
        };
        lane.reset(seed, row)?;
        lane.final_obs.copy_from_slice(row);
        Ok(())
    }

    /// The observation that a lane's last step, or its reset since, led to.
    pub fn last_obs(&self, index: usize) -> Option<&[f32]> {
        self.lanes.get(index).map(|lane| lane.final_obs.as_slice())
    }
}

impl Lane {
    /// Whether the lane would take this action.
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
    ) -> Result<LaneStep<'_>> {
        if self.pending_reset && mode == AutoresetMode::NextStep {
            self.reset(None, row)?;
            self.final_obs.copy_from_slice(row);
            let final_obs = &self.final_obs;
            return Ok(LaneStep {
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
        Ok(LaneStep { reward, terminated, truncated, final_obs: &self.final_obs, episode, info })
    }
}

impl Persist for Lanes {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (index, lane) in self.lanes.iter().enumerate() {
            let name = format!("{name}/lane/{index}");
            lane.env.save(&format!("{name}/env"), out);
            out.put_f64(&format!("{name}/return"), [lane.episode_return]);
            out.put_u64(
                &format!("{name}/length"),
                [lane.episode_length, u64::from(lane.pending_reset)],
            );
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let name = format!("{name}/lane/{index}");
            lane.env.load(&format!("{name}/env"), from)?;
            lane.episode_return = from.f64s(&format!("{name}/return"), 1)?[0];
            let length = from.u64s(&format!("{name}/length"), 2)?;
            lane.episode_length = length[0];
            lane.pending_reset = length[1] != 0;
        }
        Ok(())
    }
}
