//! `deploy/service-v1`: one Deployment, alone on its cluster, and its learner.

use homeostat_core::{ControlSchema, Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{Features, Guards, Plant, ScalingAction, SimulatedPlant};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::{DeployConfig, DeployPlan, DeployPlant};

pub(crate) const SERVICE: &str = "deploy/service-v1";

/// The environment. Its state is saved as the seed and the actions of the episode, and restored by
/// playing them again: an episode takes a fraction of a second, and the result is the same bit for bit.
pub(crate) struct Service {
    plan: DeployPlan,
    agent: usize,
    episode: Option<Playing>,
}

struct Playing {
    played: Played<u8>,
    plant: DeployPlant,
    guards: Guards,
    last_action: ScalingAction,
}

impl Service {
    pub(crate) fn new(plan: DeployPlan, agent: u32) -> Self {
        Self { plan, agent: agent as usize, episode: None }
    }

    fn begin(&self, seed: u64) -> Playing {
        let mut plant = DeployPlant::new(&self.plan, &[self.agent], &SeedTree::new(seed));
        // The first decision needs something to look at.
        plant.advance().expect("a simulated cluster always goes on");
        Playing {
            played: Played::new(seed),
            plant,
            guards: Guards::bounds_only(*self.plan.bounds()).expect("the plan was validated"),
            last_action: ScalingAction::Hold,
        }
    }

    fn playing(&self) -> &Playing {
        self.episode.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Playing {
    fn step(&mut self, action: ScalingAction) -> f64 {
        self.played.actions.push(action.index() as u8);
        let penalty = action
            .take(&mut self.plant, 0, &mut self.guards, self.last_action)
            .expect("bounds keep CPU and memory above zero");
        self.last_action = action;
        self.plant.advance().expect("a simulated cluster always goes on");
        self.plant.reward(0) - penalty
    }
}

pub(crate) fn spec(config: &DeployConfig) -> EnvSpec {
    let (low, high) = Features::RANGES.into_iter().unzip();
    let (features, action) = (Features::schema(), ScalingAction::schema());
    let bounds = config.bounds().map_or(Vec::new(), |bounds| bounds.fields());
    EnvSpec {
        id: SERVICE.parse().expect("the id is well-formed"),
        observation: Space::Box { low, high },
        action: Space::Discrete(ScalingAction::ALL.len()),
        time_limit: Some(config.steps),
        card: Card {
            summary: "One Deployment, alone on its cluster, scaled in three dimensions.",
            observation: features.features.iter().map(Field::from).collect(),
            action: vec![
                Field::new("0 hold", "change nothing"),
                Field::new("1, 2 CPU", "125 millicores more, fewer, for each pod"),
                Field::new("3, 4 memory", "64 MiB more, less, for each pod"),
                Field::new("5, 6 replicas", "one more, one fewer"),
            ],
            reward: "alpha * SP + (1 - alpha)/2 * (RU_cpu + RU_mem), alpha 0.7 (reward `slo`) or 0.3 \
                     (`paper`); `cost`: SP - 1 while the SLO is violated, else 1 minus half the \
                     fractions of replicas and of memory in use; -1 for an illegal action and for \
                     one that reverses the action before",
            termination: "never",
            source: "AWARE (ATC 2023) and chapter 5 of the dissertation; the cluster model and the \
                     costs of segments are this project's",
        },
        control: Some(ControlSchema { features, action, bounds }.into()),
    }
}

impl Dynamics for Service {
    fn spec(&self) -> EnvSpec {
        spec(self.plan.config())
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.episode = Some(self.begin(rng.next_u64()));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let index = action.discrete().expect("the action is of the space");
        let action = ScalingAction::from_index(index).expect("the action is of the space");
        let playing =
            self.episode.as_mut().expect("an episode resets the environment before it plays");
        Outcome { reward: playing.step(action), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(self.playing().plant.features(0));
    }

    fn render(&self) -> String {
        let Some(playing) = &self.episode else { return String::new() };
        let seen = playing.plant.observe(0);
        let latency = seen.latency.map_or_else(|| "-".to_owned(), |latency| latency.to_string());
        format!(
            "{}\n{}, {} ready\n{:.1} requests/s, p99 {latency}, SLO {}",
            playing.plant.name(0),
            seen.allocation,
            seen.serving(),
            seen.arrivals_per_s,
            seen.slo,
        )
    }

    fn info(&self) -> Info {
        let Some(window) = self.playing().plant.window(0) else { return Info::new() };
        let latency = window.observation.latency.map_or(0.0, |latency| latency.seconds() * 1e3);
        vec![
            ("p99_ms", latency),
            ("settled", window.settled() as f64),
            ("slo_violations", window.slo_violations as f64),
            ("containers", f64::from(window.observation.allocation.replicas)),
            ("container_s", window.container_s),
            ("memory_gib_s", window.memory_gib_s),
            ("cpu_s", window.cpu_s),
        ]
    }

    // A window has hundreds of requests.
    fn is_worth_a_thread(&self) -> bool {
        true
    }
}

impl Persist for Service {
    fn save(&self, name: &str, out: &mut Snapshot) {
        Played::save(self.episode.as_ref().map(|playing| &playing.played), name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.episode = None;
        let Some(played) = Played::<u8>::load(name, from)? else { return Ok(()) };
        let mut playing = self.begin(played.seed);
        for index in played.actions {
            let action = ScalingAction::from_index(index.into());
            playing.step(action.unwrap_or(ScalingAction::Hold));
        }
        self.episode = Some(playing);
        Ok(())
    }
}
