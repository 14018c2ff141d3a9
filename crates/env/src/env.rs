//! One agent, one world.

use homeostat_core::Persist;

use crate::{Action, EnvSpec, Picture, Result};

/// A world with one agent in it. Its whole state can be saved and restored.
pub trait Env: Persist + Send {
    /// Spaces, limits and card.
    fn spec(&self) -> &EnvSpec;

    /// Starts an episode and returns its first observation. A seed restarts the
    /// world's randomness; without one it goes on, so that episodes differ.
    fn reset(&mut self, seed: Option<u64>) -> Result<&[f32]>;

    /// Plays one step.
    fn step(&mut self, action: &Action) -> Result<Step<'_>>;

    /// A picture of the present state in text.
    fn render(&self) -> String;

    /// A picture of the present state in shapes; of worlds that draw none, their text.
    fn picture(&self) -> Picture {
        picture_of_text(&self.render())
    }
}

/// The text of a world as a picture, with room for what the worlds of this crate write, so that
/// its size stays while they run.
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
    /// The task itself ended: nothing is to be had beyond this state.
    pub terminated: bool,
    /// A limit outside the task stopped the episode: its value goes on.
    pub truncated: bool,
    /// Further figures, for people and logs; never for the policy.
    pub info: Info,
}

impl Step<'_> {
    /// Whether the episode is over for either reason.
    pub fn done(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Named figures beside a step. Empty ones cost nothing.
pub type Info = Vec<(&'static str, f64)>;
