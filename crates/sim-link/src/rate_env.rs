//! `link/rate-v1`: a sender that learns its rate, as Aurora does (section A.6 of the dissertation).

use std::collections::VecDeque;

use homeostat_core::{Persist, SeedTree, SimDuration, SimTime, Snapshot, Stream};
use homeostat_decide::{
    BitsPerSecond, Guards, GuardsConfig, PathObservation, Plant, PreparedProposal, RateProposal,
    SendingRate, decide,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::link::{PACKET_BITS, PathConfig};
use crate::{LinkConfig, LinkPlant};

pub(crate) const RATE: &str = "link/rate-v1";

/// Change of the rate per unit of action.
const DELTA: f64 = 0.025;

/// Largest action: a quarter of the rate in one interval.
const MAX_ACTION: f32 = 10.0;

/// The first rate of an episode, over the path's bandwidth.
const FIRST_RATE: [f64; 2] = [0.3, 1.5];

/// Features of one interval with their description and their least and largest value.
const FEATURES: [(&str, &str, f32, f32); 3] = [
    (
        "latency gradient",
        "change of the round-trip time over the interval, s/s, -1 to 10",
        -1.0,
        10.0,
    ),
    ("latency ratio", "mean round-trip time over the least one, less 1, 0 to 10", 0.0, 10.0),
    ("sending ratio", "packets sent over packets acknowledged, less 1, -1 to 10", -1.0, 10.0),
];

/// The environment. Its state is saved as the seed and the actions of the episode, and restored by
/// playing them again.
pub(crate) struct RateControl {
    config: LinkConfig,
    episode: Option<Playing>,
}

struct Playing {
    played: Played<f32>,
    plant: LinkPlant,
    guards: Guards<SendingRate>,
    /// The latest interval last.
    history: VecDeque<[f32; FEATURES.len()]>,
}

impl RateControl {
    /// The settings must have been validated.
    pub(crate) fn new(config: LinkConfig) -> Self {
        Self { config, episode: None }
    }

    fn begin(&self, seed: u64) -> Playing {
        let seeds = SeedTree::new(seed);
        let mut rng = seeds.stream("link/path");
        let condition = self.config.condition(&mut rng).expect("the settings were validated");
        let path = condition.draw(&mut rng);
        let bounds = self.config.bounds().expect("the settings were validated");
        let bandwidth = path.bandwidth.at(SimTime::ZERO).0 as f64;
        let first = bandwidth * rng.range(FIRST_RATE[0], FIRST_RATE[1]);
        let first = bounds.clamp(BitsPerSecond(first.round() as u64));
        let plant = LinkPlant::new(path, first, &self.config.rivals, &seeds);
        let guards = Guards::try_new(GuardsConfig::bounds_only(bounds));
        let mut playing = Playing {
            played: Played::new(seed),
            plant: plant.expect("the settings were validated"),
            guards: guards.expect("the settings were validated"),
            history: VecDeque::from(vec![[0.0; FEATURES.len()]; self.config.history]),
        };
        playing.advance();
        playing
    }

    fn playing(&self) -> &Playing {
        self.episode.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Playing {
    fn step(&mut self, action: f32) -> f64 {
        self.played.actions.push(action);
        let seen = self.plant.observe(0);
        let proposal = RateProposal::step(seen.rate, DELTA * f64::from(action));
        let mut chosen = PreparedProposal::new(proposal);
        let decision = decide(&mut chosen, &mut self.guards, seen);
        self.plant.apply(0, &decision).expect("the flow has a rate");
        self.advance();
        reward(self.plant.observe(0))
    }

    fn advance(&mut self) {
        self.plant.advance().expect("a simulated path always goes on");
        let seen = self.plant.observe(0);
        let values = [seen.rtt_gradient, seen.latency_ratio() - 1.0, seen.sending_ratio() - 1.0];
        let mut features = [0.0; FEATURES.len()];
        for ((feature, value), (.., low, high)) in features.iter_mut().zip(values).zip(FEATURES) {
            *feature = (value as f32).clamp(low, high);
        }
        self.history.pop_front();
        self.history.push_back(features);
    }

    fn path(&self) -> &PathConfig {
        self.plant.network().path()
    }
}

/// Aurora's reward of an interval: ten per packet acknowledged per second, less a thousand per second of
/// round-trip time and two thousand times the part lost, over a thousand.
pub fn reward(seen: &PathObservation) -> f64 {
    let packets = seen.throughput.0 as f64 / PACKET_BITS as f64;
    // Without an acknowledgement the last round-trip time is unknown: the interval at least passed without one.
    let rtt = seen.rtt.unwrap_or(seen.interval).seconds();
    1e-3 * (10.0 * packets - 1e3 * rtt - 2e3 * seen.loss_ratio())
}

pub(crate) fn spec(config: &LinkConfig) -> EnvSpec {
    let intervals = config.history;
    let ends = |end: fn(&(&str, &str, f32, f32)) -> f32| -> Vec<f32> {
        std::iter::repeat_n(FEATURES.iter().map(end), intervals).flatten().collect()
    };
    EnvSpec {
        id: RATE.parse().expect("the id is well-formed"),
        observation: Space::Box { low: ends(|feature| feature.2), high: ends(|feature| feature.3) },
        action: Space::uniform_box(1, -MAX_ACTION, MAX_ACTION),
        time_limit: Some(config.steps),
        card: Card {
            summary: "A sender that sets its rate on a network path it does not know.",
            observation: (1..=intervals)
                .rev()
                .flat_map(|ago| FEATURES.map(|(name, text, ..)| (ago, name, text)))
                .map(|(ago, name, text)| Field {
                    name: format!("{name} {ago}").into(),
                    meaning: text.into(),
                })
                .collect(),
            action: vec![Field::new(
                "step",
                "-10 to 10, in units of 2.5 %: above zero the rate is multiplied by 1 + 0.025 step, \
                 below it is divided by 1 - 0.025 step",
            )],
            reward: "0.001 * (10 * packets acknowledged per second - 1000 * mean round-trip time in s \
                     - 2000 * part of packets lost), of one monitor interval",
            termination: "never",
            source: "Aurora (Jay et al., ICML 2019) and section A.6 of the dissertation; the path, its \
                     queue and loss detection are this project's",
        },
        control: None,
    }
}

impl Dynamics for RateControl {
    fn spec(&self) -> EnvSpec {
        spec(&self.config)
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.episode = Some(self.begin(rng.next_u64()));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let action = action.continuous().expect("the action is of the space")[0];
        let action = action.clamp(-MAX_ACTION, MAX_ACTION);
        let playing =
            self.episode.as_mut().expect("an episode resets the environment before it plays");
        Outcome { reward: playing.step(action), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let values = self.playing().history.iter().flatten();
        for (out, value) in obs.iter_mut().zip(values) {
            *out = *value;
        }
    }

    fn render(&self) -> String {
        let Some(playing) = &self.episode else { return String::new() };
        let (seen, path) = (playing.plant.observe(0), playing.path());
        let millis = |duration: SimDuration| duration.seconds() * 1e3;
        format!(
            "sends {} of {}\nround trip {:.0} ms of at least {:.0} ms\n{:.1} % lost",
            seen.rate,
            path.bandwidth.at(seen.now),
            seen.rtt.map_or(f64::NAN, millis),
            millis(path.least_rtt()),
            seen.loss_ratio() * 100.0
        )
    }

    fn info(&self) -> Info {
        let playing = self.playing();
        let seen = playing.plant.observe(0);
        let bandwidth = playing.path().bandwidth.at(seen.now);
        vec![
            ("throughput_mbps", seen.throughput.megabits()),
            ("utilization", seen.throughput.0 as f64 / bandwidth.0 as f64),
            ("latency_ratio", seen.latency_ratio()),
            ("loss_ratio", seen.loss_ratio()),
        ]
    }

    // An interval of a fast, long path has thousands of packets.
    fn is_worth_a_thread(&self) -> bool {
        true
    }
}

impl Persist for RateControl {
    fn save(&self, name: &str, out: &mut Snapshot) {
        Played::save(self.episode.as_ref().map(|playing| &playing.played), name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.episode = None;
        let Some(played) = Played::load(name, from)? else { return Ok(()) };
        let mut playing = self.begin(played.seed);
        for action in played.actions {
            playing.step(action);
        }
        self.episode = Some(playing);
        Ok(())
    }
}
