//! The decisions about one workload, cut into episodes. A cluster never ends, so that an episode is a
//! fixed time; its mean reward is what the life cycle is told, and its decisions are a trajectory to
//! learn from.

use homeostat_core::ControlSchema;
use homeostat_core::trajectory::{End, Origin, Record, Transition};
use serde::{Deserialize, Serialize};

use crate::Actor;

/// An episode ends after so many decisions, however short they are: those of the open one are part of
/// every saved state.
const MAX_DECISIONS: usize = 1000;

/// Cuts decisions into episodes. It is a value: saved and restored, it goes on as before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episodes {
    config: EpisodeConfig,
    open: Option<OpenEpisode>,
}

/// How decisions are cut into episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeConfig {
    /// How long an episode lasts, in milliseconds.
    pub length_ms: i64,
    /// Decisions further apart do not belong to one episode: what happened between them was not
    /// measured.
    pub max_gap_ms: i64,
}

/// A decision, whose reward is not known yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What was observed.
    pub observation: Vec<f32>,
    /// What was proposed.
    pub action: Vec<f32>,
    /// With which probability, or density; none if it is not known.
    pub probability: Option<f64>,
    /// Who decided.
    pub behaviour: Behaviour,
}

/// Who decides, and about what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Who.
    pub actor: Actor,
    /// The name of its policy.
    pub policy: String,
    /// What was controlled.
    pub workload: String,
    /// What the numbers of observations and actions mean.
    pub schema: ControlSchema,
}

/// An episode that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Who decided.
    pub behaviour: Behaviour,
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    /// Its decisions, at least one.
    pub transitions: Vec<Transition>,
    /// What was observed after the last of them.
    pub last_observation: Vec<f32>,
    /// Whether it lasted as long as an episode should. One that was cut off is recorded, and the life
    /// cycle does not hear of it.
    pub is_whole: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenEpisode {
    behaviour: Behaviour,
    began_ms: i64,
    transitions: Vec<Transition>,
    /// The last decision, until its reward is known.
    pending: Option<Transition>,
    last_observation: Vec<f32>,
}

impl Episodes {
    /// No episode has begun.
    pub fn new(config: EpisodeConfig) -> Self {
        Self { config, open: None }
    }

    /// Changes how decisions are cut, from now on.
    pub fn set_config(&mut self, config: EpisodeConfig) {
        self.config = config;
    }

    /// Something was observed, and the reward of the time since the last decision is known. Returns
    /// the episode that ends with it.
    pub fn observed(&mut self, at_ms: i64, observation: &[f32], reward: f64) -> Option<Episode> {
        let EpisodeConfig { length_ms, max_gap_ms } = self.config;
        let open = self.open.as_mut()?;
        let is_near = |pending: &Transition| at_ms - pending.at_ms <= max_gap_ms;
        if !reward.is_finite() || !open.pending.as_ref().is_some_and(is_near) {
            return self.interrupted();
        }
        let pending = open.pending.take()?;
        open.transitions.push(Transition { reward, ..pending });
        open.last_observation = observation.to_vec();
        let is_over = at_ms - open.began_ms >= length_ms || open.transitions.len() >= MAX_DECISIONS;
        if is_over { self.end(true) } else { None }
    }

    /// What follows the last decision is not known, such as while metrics are not trusted: the episode
    /// ends before it.
    pub fn interrupted(&mut self) -> Option<Episode> {
        self.end(false)
    }

    /// A decision was made. Returns the episode that ends because somebody else decides now, or the
    /// numbers mean something else.
    pub fn decided(&mut self, decided: Decided) -> Option<Episode> {
        let Decided { at_ms, observation, action, probability, behaviour } = decided;
        let pending = Transition { at_ms, observation, action, reward: 0.0, probability };
        if let Some(open) = self.open.as_mut().filter(|open| open.behaviour == behaviour) {
            open.pending = Some(pending);
            return None;
        }
        let ended = self.end(false);
        let (transitions, last_observation) = (Vec::new(), pending.observation.clone());
        let pending = Some(pending);
        self.open = Some(OpenEpisode {
            behaviour,
            began_ms: at_ms,
            transitions,
            pending,
            last_observation,
        });
        ended
    }

    fn end(&mut self, is_whole: bool) -> Option<Episode> {
        let open = self.open.take()?;
        let OpenEpisode { behaviour, began_ms, transitions, last_observation, .. } = open;
        (!transitions.is_empty()).then_some(Episode {
            behaviour,
            began_ms,
            transitions,
            last_observation,
            is_whole,
        })
    }
}

impl Episode {
    /// The mean reward of its decisions.
    pub fn mean_reward(&self) -> f64 {
        let sum: f64 = self.transitions.iter().map(|transition| transition.reward).sum();
        sum / self.transitions.len() as f64
    }

    /// The episode as a trajectory that a store imports.
    pub fn into_records(self) -> Vec<Record> {
        let Self { behaviour, began_ms, transitions, last_observation, .. } = self;
        let Behaviour { policy, workload, schema, .. } = behaviour;
        let origin = Origin { workload, policy, schema, recorded_ms: began_ms };
        let end = Record::End { how: End::Truncated, observation: last_observation };
        let mut records = vec![Record::Trajectory(origin)];
        records.extend(transitions.into_iter().map(Record::Transition));
        records.push(end);
        records
    }
}
