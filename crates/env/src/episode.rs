//! Turns dynamics into an environment: seeding, time limit, invalid actions and the order of reset
//! and step are the same for every environment.

use homeostat_core::{Persist, Snapshot, Stream};

use crate::phase::Phase;
use crate::{Action, Env, EnvSpec, Info, Picture, Result, Step};

/// State and transition function of an environment, and nothing else. [`Episode`] makes an
/// [`Env`] of it.
///
/// ```
/// use homeostat_core::{Persist, Snapshot, Stream};
/// use homeostat_env::{Action, Card, Dynamics, EnvSpec, Episode, Field, Outcome, Space, check_env};
///
/// /// Reach zero by counting down.
/// #[derive(Default)]
/// struct Countdown(f32);
///
/// impl Dynamics for Countdown {
///     fn spec(&self) -> EnvSpec {
///         EnvSpec {
///             id: "doc/countdown-v1".parse().expect("the id is well-formed"),
///             observation: Space::uniform_box(1, 0.0, 10.0),
///             action: Space::Discrete(2),
///             time_limit: Some(50),
///             card: Card {
///                 summary: "Reach zero by counting down.",
///                 observation: vec![Field::new("number", "0 to 10; starts at 10")],
///                 action: vec![Field::new("0", "wait"), Field::new("1", "subtract one")],
///                 reward: "-1 for every step",
///                 termination: "the number is zero",
///                 source: "this example",
///             },
///             control: None,
///         }
///     }
///
///     fn reset(&mut self, _rng: &mut Stream) {
///         self.0 = 10.0;
///     }
///
///     fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
///         self.0 -= if action.discrete() == Some(1) { 1.0 } else { 0.0 };
///         Outcome { reward: -1.0, terminated: self.0 == 0.0 }
///     }
///
///     fn observe(&self, obs: &mut [f32]) {
///         obs[0] = self.0;
///     }
///
///     fn render(&self) -> String {
///         self.0.to_string()
///     }
/// }
///
/// impl Persist for Countdown {
///     fn save(&self, name: &str, out: &mut Snapshot) {
///         out.put_f32(name, [self.0]);
///     }
///
///     fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
///         self.0 = from.f32s(name, 1)?[0];
///         Ok(())
///     }
/// }
///
/// let findings = check_env(&|| Box::new(Episode::new(Countdown::default())));
/// assert!(findings.is_empty(), "{findings:?}");
/// ```
pub trait Dynamics: Persist + Send {
    /// Id, spaces, time limit and description.
    fn spec(&self) -> EnvSpec;

    /// Draws the initial state.
    fn reset(&mut self, rng: &mut Stream);

    /// Advances by one step. The action is inside the action space.
    fn step(&mut self, action: &Action, rng: &mut Stream) -> Outcome;

    /// Writes the observation of the present state.
    fn observe(&self, obs: &mut [f32]);

    /// The present state as text.
    fn render(&self) -> String;

    /// The present state as shapes; none to show the text.
    fn picture(&self) -> Option<Picture> {
        None
    }

    /// Steps after which the present episode is truncated, where a curriculum makes episodes
    /// shorter than the time limit.
    fn episode_limit(&self) -> Option<u32> {
        None
    }

    /// Figures of the last step, for logs.
    fn info(&self) -> Info {
        Info::new()
    }

    /// Whether a step takes 0.1 ms or longer; see [`Env::is_worth_a_thread`].
    fn is_worth_a_thread(&self) -> bool {
        false
    }
}

/// Reward and end of one step of [`Dynamics`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The reward of the step.
    pub reward: f64,
    /// Whether the task ended.
    pub terminated: bool,
}

/// Dynamics as an [`Env`], in episodes.
pub struct Episode<T> {
    dynamics: T,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    obs: Vec<f32>,
}

impl<T: Dynamics> Episode<T> {
    /// An environment with these dynamics. Reset it before the first step.
    pub fn new(dynamics: T) -> Self {
        let spec = dynamics.spec();
        let obs = vec![0.0; spec.observation.len()];
        Self { dynamics, spec, rng: Stream::from_seed(0), phase: Phase::New, elapsed: 0, obs }
    }

    /// The dynamics, read-only.
    pub fn dynamics(&self) -> &T {
        &self.dynamics
    }
}

impl<T: Dynamics> Env for Episode<T> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<&[f32]> {
        if let Some(seed) = seed {
            self.rng = Stream::from_seed(seed);
        }
        self.dynamics.reset(&mut self.rng);
        self.phase = Phase::Running;
        self.elapsed = 0;
        self.dynamics.observe(&mut self.obs);
        Ok(&self.obs)
    }

    fn step(&mut self, action: &Action) -> Result<Step<'_>> {
        self.phase.require_running(&self.spec.id)?;
        self.spec.require_action(action)?;
        let Outcome { reward, terminated } = self.dynamics.step(action, &mut self.rng);
        self.elapsed += 1;
        // A task that ends on its last allowed step has both flags, as in Gymnasium.
        let limits = [self.spec.time_limit, self.dynamics.episode_limit()];
        let truncated = limits.iter().flatten().any(|limit| self.elapsed >= *limit);
        if terminated || truncated {
            self.phase = Phase::Ended;
        }
        self.dynamics.observe(&mut self.obs);
        Ok(Step { obs: &self.obs, reward, terminated, truncated, info: self.dynamics.info() })
    }

    fn is_worth_a_thread(&self) -> bool {
        self.dynamics.is_worth_a_thread()
    }

    fn render(&self) -> String {
        self.dynamics.render()
    }

    fn picture(&self) -> Picture {
        self.dynamics
            .picture()
            .unwrap_or_else(|| crate::env::picture_of_text(&self.dynamics.render()))
    }
}

impl<T: Dynamics> Persist for Episode<T> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.dynamics.save(&format!("{name}/world"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.phase.to_number(), u64::from(self.elapsed)]);
        out.put_f32(&format!("{name}/obs"), self.obs.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.dynamics.load(&format!("{name}/world"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        self.phase = Phase::from_number(clock[0]);
        self.elapsed = u32::try_from(clock[1]).unwrap_or(u32::MAX);
        self.obs = from.f32s(&format!("{name}/obs"), self.obs.len())?.to_vec();
        Ok(())
    }
}
