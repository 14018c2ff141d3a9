//! From bare dynamics to an environment: seeding, time limit, refused actions,
//! and the order of reset and step are the same for every world.

use homeostat_core::{Persist, Snapshot, Stream};

use crate::phase::Phase;
use crate::{Action, Env, EnvSpec, Info, Picture, Result, Step};

/// The dynamics of a world, and nothing else. [`Episode`] makes an [`Env`] of it.
pub trait World: Persist + Send {
    /// Spaces, limits and card.
    fn spec(&self) -> EnvSpec;

    /// Draws a first state.
    fn reset(&mut self, rng: &mut Stream);

    /// Moves on by one step. The action is of the action space.
    fn step(&mut self, action: &Action, rng: &mut Stream) -> Outcome;

    /// Writes the observation of the present state.
    fn observe(&self, obs: &mut [f32]);

    /// A picture of the present state in text.
    fn render(&self) -> String;

    /// A picture of the present state in shapes, of worlds that draw one.
    fn picture(&self) -> Option<Picture> {
        None
    }

    /// Steps after which the present episode is truncated, where that is earlier than the
    /// time limit: a curriculum.
    fn episode_limit(&self) -> Option<u32> {
        None
    }

    /// Figures beside the observation.
    fn info(&self) -> Info {
        Info::new()
    }
}

/// What the dynamics answer to one action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The reward of the step.
    pub reward: f64,
    /// Whether the task ended.
    pub terminated: bool,
}

/// A world played in episodes.
pub struct Episode<W> {
    world: W,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    obs: Vec<f32>,
}

impl<W: World> Episode<W> {
    /// An environment around `world`, to be reset before the first step.
    pub fn new(world: W) -> Self {
        let spec = world.spec();
        let obs = vec![0.0; spec.observation.len()];
        Self { world, spec, rng: Stream::from_seed(0), phase: Phase::New, elapsed: 0, obs }
    }

    /// The dynamics inside.
    pub fn world(&self) -> &W {
        &self.world
    }
}

impl<W: World> Env for Episode<W> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<&[f32]> {
        if let Some(seed) = seed {
            self.rng = Stream::from_seed(seed);
        }
        self.world.reset(&mut self.rng);
        self.phase = Phase::Running;
        self.elapsed = 0;
        self.world.observe(&mut self.obs);
        Ok(&self.obs)
    }

    fn step(&mut self, action: &Action) -> Result<Step<'_>> {
        self.phase.require_running(&self.spec.id)?;
        self.spec.require_action(action)?;
        let Outcome { reward, terminated } = self.world.step(action, &mut self.rng);
        self.elapsed += 1;
        // A task that ends on its last allowed step has both flags, as in Gymnasium.
        let limits = [self.spec.time_limit, self.world.episode_limit()];
        let truncated = limits.iter().flatten().any(|limit| self.elapsed >= *limit);
        if terminated || truncated {
            self.phase = Phase::Ended;
        }
        self.world.observe(&mut self.obs);
        Ok(Step { obs: &self.obs, reward, terminated, truncated, info: self.world.info() })
    }

    fn render(&self) -> String {
        self.world.render()
    }

    fn picture(&self) -> Picture {
        self.world.picture().unwrap_or_else(|| crate::env::picture_of_text(&self.world.render()))
    }
}

impl<W: World> Persist for Episode<W> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.world.save(&format!("{name}/world"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.phase.to_number(), u64::from(self.elapsed)]);
        out.put_f32(&format!("{name}/obs"), self.obs.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.world.load(&format!("{name}/world"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        self.phase = Phase::from_number(clock[0]);
        self.elapsed = u32::try_from(clock[1]).unwrap_or(u32::MAX);
        self.obs = from.f32s(&format!("{name}/obs"), self.obs.len())?.to_vec();
        Ok(())
    }
}
