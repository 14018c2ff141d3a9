//! `cpufreq/frequency-v1`: an agent that overclocks the cores of a virtual machine while it pays (SmartOverclock, section
//! A.4 of the dissertation).

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{
    CpuFrequency, CpuObservation, FrequencyProposal, Guards, GuardsConfig, Plant, PreparedProposal,
    decide,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::{FrequencyReward, NodeConfig, NodePlan, NodePlant};

pub(crate) const FREQUENCY: &str = "cpufreq/frequency-v1";

/// Instructions per second of a core in a feature of one.
const INSTRUCTIONS_SCALE: f64 = 4e9;

/// GHz in a feature of one.
const FREQUENCY_SCALE: f64 = 4.0;

const FEATURES: [(&str, &str, f32); 5] = [
    ("instructions", "instructions per second of a core, over 4e9, 0 to 4", 4.0),
    ("CPU usage", "part of the second in which cores were busy, 0 to 1", 1.0),
    ("frequency", "core frequency over 4 GHz, 0 to 2", 2.0),
    ("latency preservation", "SLO over the p99 of latency, 0 to 1; 1 without requests", 1.0),
    ("throughput preservation", "requests answered over requests that arrived, 0 to 1", 1.0),
];

/// The environment. Its state is saved as the seed and the actions of the episode, and restored by playing them again.
pub(crate) struct FrequencyControl {
    plan: NodePlan,
    episode: Option<Playing>,
}

struct Playing {
    played: Played<u8>,
    plant: NodePlant,
    guards: Guards<CpuFrequency>,
}

impl FrequencyControl {
    pub(crate) fn new(plan: NodePlan) -> Self {
        Self { plan, episode: None }
    }

    fn begin(&self, seed: u64) -> Playing {
        let bounds = self.plan.processor().bounds();
        let guards = Guards::try_new(GuardsConfig::bounds_only(bounds));
        Playing {
            played: Played::new(seed),
            plant: NodePlant::new(&self.plan, &SeedTree::new(seed)),
            guards: guards.expect("the bounds of a processor are in order"),
        }
    }

    fn playing(&self) -> &Playing {
        self.episode.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Playing {
    fn step(&mut self, plan: &NodePlan, level: usize) -> f64 {
        self.played.actions.push(level as u8);
        let before = self.plant.observe(0).clone();
        let bounds = plan.processor().bounds();
        let proposal = FrequencyProposal::level(&bounds, level, plan.config.levels);
        let mut chosen = PreparedProposal::new(proposal);
        let decision = decide(&mut chosen, &mut self.guards, &before);
        let Ok(_) = self.plant.apply(0, &decision);
        let Ok(()) = self.plant.advance();
        reward(plan, &before, self.plant.observe(0))
    }
}

/// The reward of one second.
pub(crate) fn reward(plan: &NodePlan, before: &CpuObservation, seen: &CpuObservation) -> f64 {
    let config = &plan.config;
    match config.reward {
        FrequencyReward::Power => {
            let power = |khz| plan.processor().power_w(config.cores, khz, seen.cpu_usage);
            let (low, high) = (power(plan.processor().base), power(plan.processor().max));
            let extra = (power(seen.frequency) - low) / (high - low);
            seen.slo_preservation() - config.power_weight * extra
        }
        FrequencyReward::Paper => {
            let gain = if seen.frequency > before.frequency && seen.instructions_per_s > 0.0 {
                (seen.instructions_per_s - before.instructions_per_s) / seen.instructions_per_s
            } else {
                0.0
            };
            config.alpha * gain.max(-1.0) + (1.0 - config.alpha) * seen.slo_preservation()
        }
    }
}

pub(crate) fn spec(config: &NodeConfig) -> EnvSpec {
    EnvSpec {
        id: FREQUENCY.parse().expect("the id is well-formed"),
        observation: Space::Box {
            low: vec![0.0; FEATURES.len()],
            high: FEATURES.map(|(.., high)| high).to_vec(),
        },
        action: Space::Discrete(config.levels),
        time_limit: Some(config.steps),
        card: Card {
            summary: "An agent that sets the core frequency of a virtual machine.",
            observation: FEATURES.map(|(name, meaning, _)| Field::new(name, meaning)).to_vec(),
            action: vec![Field::new(
                "level",
                "0 is the nominal frequency, the last one the highest, at equal distances",
            )],
            reward: "`power`: SLO preservation - weight * (power - power at the nominal frequency) / (what the highest \
                     frequency costs more); `paper`: alpha * (IPS - IPS before) / IPS where the frequency was raised, \
                     at least -alpha, + (1 - alpha) * SLO preservation",
            termination: "never",
            source: "SmartOverclock and section A.4 of the dissertation; power, speeds and the memory parts of segments \
                     are this project's",
        },
        control: None,
    }
}

impl Dynamics for FrequencyControl {
    fn spec(&self) -> EnvSpec {
        spec(&self.plan.config)
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.episode = Some(self.begin(rng.next_u64()));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let level = action.discrete().expect("the action is of the space");
        let playing =
            self.episode.as_mut().expect("an episode resets the environment before it plays");
        Outcome { reward: playing.step(&self.plan, level), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let seen = self.playing().plant.observe(0);
        let cores = f64::from(self.plan.config.cores);
        let values = [
            seen.instructions_per_s / cores / INSTRUCTIONS_SCALE,
            seen.cpu_usage,
            seen.frequency.gigahertz() / FREQUENCY_SCALE,
            seen.latency_preservation.unwrap_or(1.0),
            seen.throughput_preservation.unwrap_or(1.0),
        ];
        for ((out, value), (.., high)) in obs.iter_mut().zip(values).zip(FEATURES) {
            *out = (value as f32).clamp(0.0, high);
        }
    }

    fn render(&self) -> String {
        let Some(playing) = &self.episode else { return String::new() };
        let seen = playing.plant.observe(0);
        format!(
            "{} on {}\n{}, {:.0} % busy, {:.1} W\nSLO preservation {:.2}",
            self.plan.workload().application.name(),
            self.plan.processor().name,
            seen.frequency,
            seen.cpu_usage * 100.0,
            seen.power_w.unwrap_or(f64::NAN),
            seen.slo_preservation(),
        )
    }

    fn info(&self) -> Info {
        let seen = self.playing().plant.observe(0);
        vec![
            ("frequency_ghz", seen.frequency.gigahertz()),
            ("power_w", seen.power_w.unwrap_or(0.0)),
            ("cpu_usage", seen.cpu_usage),
            ("slo_preservation", seen.slo_preservation()),
        ]
    }
}

impl Persist for FrequencyControl {
    fn save(&self, name: &str, out: &mut Snapshot) {
        Played::save(self.episode.as_ref().map(|playing| &playing.played), name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.episode = None;
        let Some(played) = Played::<u8>::load(name, from)? else { return Ok(()) };
        let mut playing = self.begin(played.seed);
        for action in played.actions {
            playing.step(&self.plan, usize::from(action));
        }
        self.episode = Some(playing);
        Ok(())
    }
}
