//! A vectorised environment: several copies of one environment and their observations.

use homeostat_core::{Persist, SeedTree, Snapshot};

use crate::{Action, AutoresetMode, Env, EnvSpec, Error, Result, SubEnvStep, SubEnvs};

/// Copies of one environment, stepped together, as Gymnasium's `VectorEnv`.
///
/// ```
/// use homeostat_core::SeedTree;
/// use homeostat_env::{Action, AutoresetMode, VecEnv, make};
///
/// # fn main() -> homeostat_env::Result<()> {
/// let cartpole = || make("classic/cartpole-v1");
/// let mut envs = VecEnv::new(cartpole, 2, AutoresetMode::SameStep, &SeedTree::new(7))?;
/// let mut finished = Vec::new();
/// for _ in 0..100 {
///     // Pushing to the right all the time lets the pole fall within a few steps.
///     let actions = [Action::Discrete(1), Action::Discrete(1)];
///     envs.step(&actions, |_index, step| finished.extend(step.episode))?;
/// }
/// assert_eq!(envs.obs().len(), 2 * 4, "one row of four numbers for each copy");
/// assert!(finished.iter().all(|episode| episode.length < 20));
/// # Ok(())
/// # }
/// ```
pub struct VecEnv {
    envs: SubEnvs,
    obs: Vec<f32>,
}

impl VecEnv {
    /// `num_envs` copies made by `make`, each seeded by its own stream of `seeds` and reset.
    pub fn new(
        make: impl Fn() -> Result<Box<dyn Env>>,
        num_envs: usize,
        mode: AutoresetMode,
        seeds: &SeedTree,
    ) -> Result<Self> {
        let envs = SubEnvs::new(make, num_envs, mode)?;
        let width = envs.spec().observation.len();
        let mut this = Self { obs: vec![0.0; num_envs * width], envs };
        for index in 0..num_envs {
            // The stream's name is part of the seed: another one would change every result.
            this.reset_env(index, Some(seeds.seed(&format!("lane/{index}"))))?;
        }
        Ok(this)
    }

    /// Spaces, time limit and description of each copy.
    pub fn spec(&self) -> &EnvSpec {
        self.envs.spec()
    }

    /// When a copy starts its next episode.
    pub fn autoreset(&self) -> AutoresetMode {
        self.envs.autoreset()
    }

    /// Number of copies.
    pub fn num_envs(&self) -> usize {
        self.envs.num_envs()
    }

    /// The present observations, one row per copy.
    pub fn obs(&self) -> &[f32] {
        &self.obs
    }

    /// Steps every copy and passes the outcome of each to `each`. If one action is invalid, no
    /// copy moves.
    pub fn step(
        &mut self,
        actions: &[Action],
        each: impl FnMut(usize, SubEnvStep<'_>),
    ) -> Result<()> {
        self.envs.step(actions, &mut self.obs, each)
    }

    /// [`VecEnv::step`] on rayon's threads, with the same outcome; see
    /// [`SubEnvs::step_on_threads`].
    pub fn step_on_threads(
        &mut self,
        actions: &[Action],
        each: impl FnMut(usize, SubEnvStep<'_>),
    ) -> Result<()> {
        self.envs.step_on_threads(actions, &mut self.obs, each)
    }

    /// Whether there are several copies and a step of one is slow enough to pay for a thread.
    pub fn are_worth_threads(&self) -> bool {
        self.envs.are_worth_threads()
    }

    /// Starts a new episode in one copy.
    pub fn reset_env(&mut self, index: usize, seed: Option<u64>) -> Result<()> {
        let width = self.spec().observation.len();
        let Some(row) = self.obs.chunks_exact_mut(width).nth(index) else {
            let (env, num_envs) = (self.spec().id.to_string(), self.num_envs());
            return Err(Error::NoSuchEnv { env, index, num_envs });
        };
        self.envs.reset_env(index, seed, row)
    }
}

impl Persist for VecEnv {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/obs"), self.obs.as_slice());
        self.envs.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.obs = from.f32s(&format!("{name}/obs"), self.obs.len())?.to_vec();
        self.envs.load(name, from)
    }
}
