//! The books of one agent in training: its steps, episodes and figures.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use homeostat_core::{AgentId, Persist, Snapshot};
use homeostat_env::{EpisodeSummary, ServiceTotals};

/// Episodes over which the recent return is averaged.
const RECENT_EPISODES: usize = 100;

/// One step in so many is timed; a prime, so that it never beats with an update's rhythm.
pub(crate) const TIMED_ONE_IN: u64 = 17;

/// Where the time went, summed over agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeSplit {
    /// Stepping the environments.
    pub env: Duration,
    /// Choosing actions.
    pub inference: Duration,
    /// Learning.
    pub update: Duration,
}

impl AddAssign for TimeSplit {
    fn add_assign(&mut self, other: Self) {
        self.env += other.env;
        self.inference += other.inference;
        self.update += other.update;
    }
}

/// One agent's figures of one round, for the log. Everything here follows from the
/// seed: two runs with the same settings write the same lines.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRound {
    /// Whose.
    pub agent: AgentId,
    /// Steps the agent has taken.
    pub step: u64,
    /// Episodes it has finished.
    pub episodes: u64,
    /// Mean return of the episodes finished in this round.
    pub round_return: Option<f64>,
    /// Mean return of the last hundred episodes.
    pub recent_return: Option<f64>,
    /// Mean length of the episodes finished in this round.
    pub round_length: Option<f64>,
    /// Requests and containers of this round, where the environment has them.
    pub service: ServiceTotals,
    /// Mean figures of the updates in this round; of a team's agents also the mean of their
    /// shared returns.
    pub figures: Vec<(&'static str, f64)>,
    /// Why the agent stopped, if it did.
    pub stopped: Option<String>,
}

/// What is known of one agent, whatever it learns by and wherever it plays.
pub(crate) struct EpisodeStats {
    pub(crate) agent: AgentId,
    pub(crate) step: u64,
    pub(crate) stopped: Option<String>,
    /// Where this round's time went.
    pub(crate) time: TimeSplit,
    episodes: u64,
    recent: VecDeque<f64>,
    /// Of the last round, for the summary.
    last_service: ServiceTotals,
    round: Round,
}

/// What one agent did in one round.
#[derive(Debug, Clone, Default)]
struct Round {
    finished: Vec<EpisodeSummary>,
    /// The shared return of each, where that is not its own.
    shared_returns: Vec<f64>,
    service: ServiceTotals,
    updates: u64,
    figures: Vec<(&'static str, f64)>,
}

impl EpisodeStats {
    pub(crate) fn new(agent: AgentId) -> Self {
        Self {
            agent,
            step: 0,
            stopped: None,
            time: TimeSplit::default(),
            episodes: 0,
            recent: VecDeque::new(),
            last_service: ServiceTotals::default(),
            round: Round::default(),
        }
    }

    pub(crate) fn finish(&mut self, episode: EpisodeSummary) {
        self.episodes += 1;
        self.round.finished.push(episode);
        self.recent.push_back(episode.episode_return);
        if self.recent.len() > RECENT_EPISODES {
            self.recent.pop_front();
        }
    }

    /// Adds requests and containers of a step.
    pub(crate) fn serve(&mut self, service: ServiceTotals) {
        self.round.service.add(service);
    }

    /// An episode of an agent that learns from something else than its own rewards.
    pub(crate) fn finish_shared(&mut self, episode: EpisodeSummary, shared_return: f64) {
        self.finish(episode);
        self.round.shared_returns.push(shared_return);
    }

    /// Adds up the figures of an update; the report divides by their number.
    pub(crate) fn learn(&mut self, figures: Vec<(&'static str, f64)>) {
        let round = &mut self.round;
        round.updates += 1;
        if round.figures.is_empty() {
            round.figures = figures;
        } else {
            round.figures.iter_mut().zip(figures).for_each(|(sum, figure)| sum.1 += figure.1);
        }
    }

    /// Reports this round, adds its time to `time`, and begins the next.
    pub(crate) fn close_round(&mut self, time: &mut TimeSplit) -> AgentRound {
        *time += std::mem::take(&mut self.time);
        let round = std::mem::take(&mut self.round);
        self.last_service = round.service;
        self.report(&round)
    }

    /// The agent left for good: what it was given last no longer counts.
    pub(crate) fn retire(&mut self) {
        self.last_service = ServiceTotals::default();
    }

    /// Where the agent stands, without this round; requests and containers are those of the last one.
    pub(crate) fn latest(&self) -> AgentRound {
        self.report(&Round { service: self.last_service, ..Round::default() })
    }

    fn report(&self, round: &Round) -> AgentRound {
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| {
            (count > 0).then(|| values.sum::<f64>() / count as f64)
        };
        let finished = &round.finished;
        let updates = round.figures.iter();
        let mut figures: Vec<_> =
            updates.map(|(name, sum)| (*name, sum / round.updates as f64)).collect();
        let shared = mean(&mut round.shared_returns.iter().copied(), round.shared_returns.len());
        figures.extend(shared.map(|shared| ("shared_return_mean", shared)));
        AgentRound {
            agent: self.agent,
            step: self.step,
            episodes: self.episodes,
            round_return: mean(
                &mut finished.iter().map(|episode| episode.episode_return),
                finished.len(),
            ),
            recent_return: mean(&mut self.recent.iter().copied(), self.recent.len()),
            round_length: mean(
                &mut finished.iter().map(|episode| episode.length as f64),
                finished.len(),
            ),
            service: round.service,
            figures,
            stopped: self.stopped.clone(),
        }
    }
}

impl Persist for EpisodeStats {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/clock"), [self.step, self.episodes]);
        out.put_f64(&format!("{name}/recent"), self.recent.iter().copied().collect::<Vec<_>>());
        let ServiceTotals { steps, settled, slo_violations, containers } = self.last_service;
        out.put_f64(&format!("{name}/service"), [steps, settled, slo_violations, containers]);
        out.put_u8(
            &format!("{name}/stopped"),
            self.stopped.as_deref().unwrap_or_default().as_bytes(),
        );
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        [self.step, self.episodes] = [clock[0], clock[1]];
        self.recent = from.any_f64s(&format!("{name}/recent"))?.iter().copied().collect();
        // Checkpoints of 0.1.0 have none.
        if let Ok([steps, settled, slo_violations, containers]) =
            from.f64s(&format!("{name}/service"), 4)
        {
            self.last_service = ServiceTotals {
                steps: *steps,
                settled: *settled,
                slo_violations: *slo_violations,
                containers: *containers,
            };
        }
        let stopped =
            String::from_utf8_lossy(from.any_u8s(&format!("{name}/stopped"))?).into_owned();
        self.stopped = (!stopped.is_empty()).then_some(stopped);
        Ok(())
    }
}
