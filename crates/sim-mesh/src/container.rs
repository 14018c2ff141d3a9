//! `mesh/container-v1`: the five limits and the replicas of one service, while anomalies are injected into it
//! (dissertation, 3.2.4).

use std::sync::Arc;

use homeostat_anomalies::{Campaign, Injections, RandomAnomalies};
use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{
    ContainerFeatures, ContainerScaling, Guards, GuardsConfig, LimitAction, Plant,
    PreparedProposal, decide,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::{MeshConfig, MeshPlan, MeshPlant};

pub(crate) const CONTAINER: &str = "mesh/container-v1";

/// The environment. Its state is saved as the seed and the actions of the episode, and restored by playing
/// them again.
pub(crate) struct Container {
    plan: MeshPlan,
    agent: usize,
    episode: Option<Playing>,
}

struct Playing {
    played: Played<f32>,
    plant: MeshPlant,
    guards: Guards<ContainerScaling>,
    service: usize,
    injections: Injections,
}

impl Container {
    pub(crate) fn new(plan: MeshPlan, agent: u32) -> Self {
        Self { plan, agent: agent as usize, episode: None }
    }

    fn begin(&self, seed: u64) -> Playing {
        let seeds = SeedTree::new(seed);
        let services = self.plan.topology().services().len();
        let service = match (self.plan.service, self.plan.config().service.as_str()) {
            (Some(service), _) => service,
            (None, "each") => self.agent % services,
            (None, _) => seeds.stream("service").below(services),
        };
        let plant = MeshPlant::new(&self.plan, &seeds).expect("the plan was validated");
        let bounds = *self.plan.bounds(service);
        let guards = Guards::try_new(GuardsConfig::bounds_only(bounds)).expect("bounds are valid");
        let injections = self.injections(service, &seeds);
        let mut playing = Playing { played: Played::new(seed), plant, guards, service, injections };
        // The first decision needs something to look at.
        playing.advance();
        playing
    }

    /// Random anomalies in the controlled service.
    fn injections(&self, service: usize, seeds: &SeedTree) -> Injections {
        let config = self.plan.config();
        let name = self.plan.topology().services()[service].name.as_str();
        let anomalies = RandomAnomalies {
            services: vec![name.to_owned()],
            ..RandomAnomalies::new(config.anomalies_per_s, config.anomaly_s)
        };
        let campaign = Campaign::random(anomalies).expect("the settings were validated");
        campaign.injections(&self.plan.service_names(), seeds).expect("the service is of the plan")
    }

    fn playing(&self) -> &Playing {
        self.episode.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Playing {
    fn step(&mut self, action: &[f32], alpha: f64) -> f64 {
        self.played.actions.extend_from_slice(action);
        let seen = self.plant.observe(self.service);
        let action = LimitAction(std::array::from_fn(|index| f64::from(action[index])));
        let proposal = action.propose(self.guards.bounds(), &seen.setting);
        let decision = decide(&mut PreparedProposal::new(proposal), &mut self.guards, seen);
        self.plant.apply(self.service, &decision).expect("a simulated cluster accepts decisions");
        self.advance();
        self.plant.observe(self.service).reward(alpha)
    }

    fn advance(&mut self) {
        // At the start of a step, whenever in the one before it was due.
        while let Some(injection) = self.injections.due(self.plant.mesh().now()) {
            self.plant.inject(&injection);
        }
        self.plant.advance().expect("a simulated cluster always goes on");
    }
}

pub(crate) fn spec(config: &MeshConfig) -> EnvSpec {
    let control = LimitAction::control_schema();
    let fields = &control.features.features;
    let range = |end: &dyn Fn(usize) -> Option<f32>| {
        (0..fields.len()).map(|place| end(place).expect("features are bounded")).collect()
    };
    let (low, high) = (range(&|place| fields[place].low), range(&|place| fields[place].high));
    let observation: Vec<Field> = fields.iter().map(Field::from).collect();
    let action = control
        .action
        .parts
        .iter()
        .map(|part| Field { name: part.name.clone().into(), meaning: part.meaning.clone().into() });
    let action: Vec<Field> = action.collect();
    EnvSpec {
        id: CONTAINER.parse().expect("the id is well-formed"),
        observation: Space::Box { low, high },
        action: Space::uniform_box(5, -1.0, 1.0),
        time_limit: Some(config.steps),
        card: Card {
            summary: "One microservice: limits of five resources and replicas, while anomalies are injected.",
            observation,
            action,
            reward: "5 alpha * slo_maintenance + (1 - alpha) * the sum of five utilisations, each at most 1",
            termination: "never",
            source: "FIRM (OSDI 2020) and chapter 3 of the dissertation, Table 3.2; topologies as `homeostat \
                     config show` names them; costs of calls are this project's",
        },
        control: Some(Arc::new(control)),
    }
}

impl Dynamics for Container {
    fn spec(&self) -> EnvSpec {
        spec(self.plan.config())
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.episode = Some(self.begin(rng.next_u64()));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let alpha = self.plan.config().alpha;
        let action = action.continuous().expect("the action is of the space");
        let playing =
            self.episode.as_mut().expect("an episode resets the environment before it plays");
        Outcome { reward: playing.step(action, alpha), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let playing = self.playing();
        obs.copy_from_slice(&ContainerFeatures::of(playing.plant.observe(playing.service)).0);
    }

    fn render(&self) -> String {
        let Some(playing) = &self.episode else { return String::new() };
        let seen = playing.plant.observe(playing.service);
        // A line each: a picture has 60 columns, and a film needs pictures of one size.
        let setting = seen.setting.to_string().replace(", ", "\n");
        format!(
            "{} of {}\n{setting}\n{:.1} calls/s, SLO maintenance {:.2}",
            self.plan.topology().services()[playing.service].name,
            self.plan.topology().name(),
            seen.arrivals_per_s,
            seen.slo_maintenance,
        )
    }

    fn info(&self) -> Info {
        let playing = self.playing();
        let windows = playing.plant.windows();
        let seen = playing.plant.observe(playing.service);
        let settled: u64 =
            windows.iter().map(|window| window.latency.count() + window.dropped).sum();
        vec![
            ("settled", settled as f64),
            ("dropped", windows.iter().map(|window| window.dropped).sum::<u64>() as f64),
            ("slo_maintenance", seen.slo_maintenance),
            ("containers", f64::from(seen.setting.replicas)),
            ("cpu_limit", seen.setting.limits[0] as f64 / 1e3),
        ]
    }

    // A step has thousands of calls.
    fn is_worth_a_thread(&self) -> bool {
        true
    }
}

impl Persist for Container {
    fn save(&self, name: &str, out: &mut Snapshot) {
        Played::save(self.episode.as_ref().map(|playing| &playing.played), name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.episode = None;
        let Some(played) = Played::load(name, from)? else { return Ok(()) };
        let mut playing = self.begin(played.seed);
        for action in played.actions.chunks_exact(5) {
            playing.step(action, self.plan.config().alpha);
        }
        self.episode = Some(playing);
        Ok(())
    }
}
