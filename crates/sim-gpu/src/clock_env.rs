//! `gpu/clock-v1`: one device with its models, and the learner that sets its clock.

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{
    ClockProposal, GpuClock, Guards, GuardsConfig, Plant, PreparedProposal, decide,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::{DeviceType, GpuPlan, GpuPlant};

pub(crate) const CLOCK: &str = "gpu/clock-v1";

/// MHz of an action down.
const STEP_MHZ: f64 = 60.0;

/// What a part of one of late answers costs, in the unit of all power.
const VIOLATION_WEIGHT: f64 = 5.0;

/// The environment. Its state is saved as the seed and the actions of the episode, and restored by
/// playing them again.
pub(crate) struct Clock {
    plan: GpuPlan,
    device: usize,
    episode: Option<Playing>,
}

struct Playing {
    played: Played<u8>,
    plant: GpuPlant,
    device: DeviceType,
    guards: Guards<GpuClock>,
}

impl Clock {
    pub(crate) fn new(plan: GpuPlan, agent: u32) -> Self {
        let device = agent as usize % plan.devices();
        Self { plan, device, episode: None }
    }

    fn begin(&self, seed: u64) -> Playing {
        let plant = GpuPlant::of_plan(&self.plan, &[self.device], &SeedTree::new(seed));
        let config = GuardsConfig::bounds_only(*self.plan.bounds());
        let mut playing = Playing {
            played: Played::new(seed),
            plant: plant.expect("the plan was validated"),
            device: self.plan.device().clone(),
            guards: Guards::try_new(config).expect("the plan was validated"),
        };
        playing.plant.advance().expect("a simulated device always goes on");
        playing
    }

    fn playing(&self) -> &Playing {
        self.episode.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Playing {
    fn step(&mut self, action: usize) -> f64 {
        self.played.actions.push(action as u8);
        let seen = self.plant.observe(0);
        let clock = f64::from(seen.clock.0);
        let mhz = match action {
            1 => (clock - STEP_MHZ).max(0.0),
            2 => clock * 2.0,
            _ => clock,
        };
        let mut chosen = PreparedProposal::new(ClockProposal { mhz, reasons: Vec::new() });
        let decision = decide(&mut chosen, &mut self.guards, seen);
        self.plant.apply(0, &decision).expect("a simulated device takes every clock");
        self.plant.advance().expect("a simulated device always goes on");
        let window = self.plant.last_window();
        let late = window.slo_violations as f64 / window.answered.max(1) as f64;
        1.0 - window.power_w / self.full_power() - VIOLATION_WEIGHT * late
    }

    fn full_power(&self) -> f64 {
        self.device.idle_w + self.device.compute_w
    }
}

const FEATURES: [(&str, &str, f32); 5] = [
    ("clock", "SM clock over the highest, 0 to 1", 1.0),
    ("busy", "part of the last window in which the device was busy, 0 to 1", 1.0),
    ("latency", "largest p99 over SLO of the models on the device, 0 to 4", 4.0),
    ("power", "mean power over that of a busy device at the highest clock, 0 to 2", 2.0),
    ("inside", "requests that are queued or run, over 100, 0 to 10", 10.0),
];

pub(crate) fn spec(plan_steps: u32) -> EnvSpec {
    EnvSpec {
        id: CLOCK.parse().expect("the id is well-formed"),
        observation: Space::Box {
            low: vec![0.0; FEATURES.len()],
            high: FEATURES.iter().map(|feature| feature.2).collect(),
        },
        action: Space::Discrete(3),
        time_limit: Some(plan_steps),
        card: Card {
            summary: "One GPU that serves models, and its SM clock.",
            observation: FEATURES.iter().map(|(name, text, _)| Field::new(name, text)).collect(),
            action: vec![
                Field::new("0 hold", "keep the clock"),
                Field::new("1 down", "60 MHz lower"),
                Field::new("2 up", "twice the clock"),
            ],
            reward: "1 - power / full power - 5 * part of the window's answers beyond their SLO",
            termination: "never",
            source: "mu-Serve (ATC 2024) and chapter 6 of the dissertation; the device model is this \
                     project's, fitted to published measurements",
        },
        control: None,
    }
}

impl Dynamics for Clock {
    fn spec(&self) -> EnvSpec {
        spec(self.plan.config().steps)
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.episode = Some(self.begin(rng.next_u64()));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let action = action.discrete().expect("the action is of the space");
        let playing =
            self.episode.as_mut().expect("an episode resets the environment before it plays");
        Outcome { reward: playing.step(action), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let playing = self.playing();
        let seen = playing.plant.observe(0);
        let slacks = seen.models.iter().filter_map(|model| model.slack());
        let latency = slacks.reduce(f64::min).map_or(0.0, |slack| 1.0 - slack);
        let highest = f64::from(playing.device.max_clock());
        let features = [
            f64::from(seen.clock.0) / highest,
            seen.busy,
            latency,
            seen.power_w.unwrap_or(0.0) / playing.full_power(),
            playing.plant.inside() as f64 / 100.0,
        ];
        for ((out, feature), (.., high)) in obs.iter_mut().zip(features).zip(FEATURES) {
            *out = (feature as f32).clamp(0.0, high);
        }
    }

    fn render(&self) -> String {
        let Some(playing) = &self.episode else { return String::new() };
        let seen = playing.plant.observe(0);
        format!(
            "{}\n{:.0} % busy, {:.0} W",
            seen.clock,
            seen.busy * 100.0,
            seen.power_w.unwrap_or(0.0)
        )
    }

    fn info(&self) -> Info {
        let window = self.playing().plant.last_window();
        vec![
            ("answered", window.answered as f64),
            ("slo_violations", window.slo_violations as f64),
            ("power_w", window.power_w),
        ]
    }

    // A window has hundreds of iterations.
    fn is_worth_a_thread(&self) -> bool {
        true
    }
}

impl Persist for Clock {
    fn save(&self, name: &str, out: &mut Snapshot) {
        Played::save(self.episode.as_ref().map(|playing| &playing.played), name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.episode = None;
        let Some(played) = Played::<u8>::load(name, from)? else { return Ok(()) };
        let mut playing = self.begin(played.seed);
        for action in played.actions {
            playing.step(action.into());
        }
        self.episode = Some(playing);
        Ok(())
    }
}
