//! The contract of an environment with one agent.

use homeostat_core::Persist;

use crate::{Action, EnvSpec, Picture, Result};

/// An environment with one agent, as Gymnasium's `Env`. [`Persist`] saves and restores its whole
/// state, the random stream included.
///
/// ```
/// use homeostat_env::{Action, make};
///
/// # fn main() -> homeostat_env::Result<()> {
/// let mut env = make("toy/grid-world-v1")?;
/// env.reset(Some(7))?;
/// let (up, right) = (Action::Discrete(0), Action::Discrete(1));
/// let mut episode_return = 0.0;
/// for action in [&right, &up, &right] {
///     let step = env.step(action)?;
///     episode_return += step.reward;
///     assert!(!step.terminated && !step.truncated, "neither the goal nor the time limit");
/// }
/// assert_eq!(episode_return, -3.0, "each step costs 1");
/// assert!(env.step(&Action::Discrete(9)).is_err(), "the action space has four actions");
/// # Ok(())
/// # }
/// ```
pub trait Env: Persist + Send {
    /// Id, spaces, time limit and description.
    fn spec(&self) -> &EnvSpec;

    /// Starts an episode and returns its first observation. A seed restarts the random stream;
    /// without one the stream continues, so that episodes differ.
    fn reset(&mut self, seed: Option<u64>) -> Result<&[f32]>;

    /// Advances by one step.
    fn step(&mut self, action: &Action) -> Result<Step<'_>>;

    /// Whether a step takes 0.1 ms or longer, so that copies should be stepped on several threads.
    /// Moving a step to another thread costs tens of microseconds.
    fn is_worth_a_thread(&self) -> bool {
        false
    }

    /// The present state as text.
    fn render(&self) -> String;

    /// The present state as shapes; by default the text of [`Env::render`].
    fn picture(&self) -> Picture {
        picture_of_text(&self.render())
    }
}

/// Text as a picture of constant size: the environments of this crate render fewer columns and
/// rows.
pub(crate) fn picture_of_text(text: &str) -> Picture {
    const COLUMNS: usize = 60;
    const ROWS: usize = 12;
    Picture::of_text(text, COLUMNS, ROWS)
}

/// What one step led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<'a> {
    /// The observation after the step; after an end, the last one of the episode.
    pub obs: &'a [f32],
    /// The reward of the step.
    pub reward: f64,
    /// The task ended: the value beyond this state is zero.
    pub terminated: bool,
    /// A limit outside the task stopped the episode: learners bootstrap from `obs`.
    pub truncated: bool,
    /// Figures for logs; no policy reads them.
    pub info: Info,
}

impl Step<'_> {
    /// Whether the episode is over for either reason.
    pub fn done(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Named figures beside a step. An empty list does not allocate.
pub type Info = Vec<(&'static str, f64)>;
