//! Several copies of one environment with the observations of all of them.

use homeostat_core::{Persist, SeedTree, Snapshot};

use crate::{Action, AutoresetMode, Env, EnvSpec, Error, LaneStep, Lanes, Result};

/// Copies ("lanes") of one environment, stepped together.
pub struct VecEnv {
    lanes: Lanes,
    obs: Vec<f32>,
}

impl VecEnv {
    /// `lanes` copies made by `make`, each seeded from its own place in `seeds`.
    pub fn new(
        make: impl Fn() -> Result<Box<dyn Env>>,
        lanes: usize,
        mode: AutoresetMode,
        seeds: &SeedTree,
    ) -> Result<Self> {
        let lanes = Lanes::new(make, lanes, mode)?;
        let width = lanes.spec().observation.len();
        let mut this = Self { obs: vec![0.0; lanes.count() * width], lanes };
        for index in 0..this.num_envs() {
            this.reset_lane(index, Some(seeds.seed(&format!("lane/{index}"))))?;
        }
        Ok(this)
    }

    /// Spaces, limits and card of one lane.
    pub fn spec(&self) -> &EnvSpec {
        self.lanes.spec()
    }

    /// When ended lanes start anew.
    pub fn autoreset(&self) -> AutoresetMode {
        self.lanes.autoreset()
    }

    /// Number of copies.
    pub fn num_envs(&self) -> usize {
        self.lanes.count()
    }

    /// The present observations, one row per lane.
    pub fn obs(&self) -> &[f32] {
        &self.obs
    }

    /// Plays one step in every lane and hands each lane's outcome to `each`. If one
    /// action is refused, no lane moves.
    pub fn step(
        &mut self,
        actions: &[Action],
        each: impl FnMut(usize, LaneStep<'_>),
    ) -> Result<()> {
        self.lanes.step(actions, &mut self.obs, each)
    }

    /// The same on rayon's threads, with the same outcome; see [`Lanes::step_on_threads`].
    pub fn step_on_threads(
        &mut self,
        actions: &[Action],
        each: impl FnMut(usize, LaneStep<'_>),
    ) -> Result<()> {
        self.lanes.step_on_threads(actions, &mut self.obs, each)
    }

    /// Whether there are several lanes, of which a step takes long.
    pub fn are_worth_threads(&self) -> bool {
        self.lanes.are_worth_threads()
    }

    /// Starts a new episode in one lane.
    pub fn reset_lane(&mut self, index: usize, seed: Option<u64>) -> Result<()> {
        let width = self.spec().observation.len();
        let Some(row) = self.obs.chunks_exact_mut(width).nth(index) else {
            let (env, lanes) = (self.spec().id.to_string(), self.num_envs());
            return Err(Error::NoSuchLane { env, index, lanes });
        };
        self.lanes.reset_lane(index, seed, row)
    }
}

impl Persist for VecEnv {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/obs"), self.obs.as_slice());
        self.lanes.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.obs = from.f32s(&format!("{name}/obs"), self.obs.len())?.to_vec();
        self.lanes.load(name, from)
    }
}
