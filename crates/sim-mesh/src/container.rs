//! `mesh/container-v1`: the five limits and the replicas of one service, while anomalies are injected into it
//! (dissertation, 3.2.4).

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{
    ContainerObservation, ContainerResource, ContainerScaling, Guards, GuardsConfig, LimitAction,
    Plant, PreparedProposal, decide,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Info, Outcome, Played, Space};

use crate::config::seconds;
use crate::{AnomalyKind, MeshConfig, MeshPlan, MeshPlant};

pub(crate) const CONTAINER: &str = "mesh/container-v1";

/// Largest value of the change of workload and of a utilisation.
const MAX_RATIO: f32 = 4.0;
/// Levels of a share in the code of the request mix.
const LEVELS: f64 = 4.0;

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
    injector: Injector,
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
        let injector = Injector::new(self.plan.config(), seeds.stream("anomalies"));
        let mut playing = Playing { played: Played::new(seed), plant, guards, service, injector };
        // The first decision needs something to look at.
        playing.advance();
        playing
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
        self.injector.inject(&mut self.plant, self.service);
        self.plant.advance().expect("a simulated cluster always goes on");
    }
}

/// Anomalies of random types at random times: exponential gaps, uniform types and intensities.
struct Injector {
    per_s: f64,
    length_s: f64,
    rng: Stream,
    /// In seconds since the start.
    next_s: f64,
}

impl Injector {
    fn new(config: &MeshConfig, rng: Stream) -> Self {
        let mut this =
            Self { per_s: config.anomalies_per_s, length_s: config.anomaly_s, rng, next_s: 0.0 };
        this.wait();
        this
    }

    fn wait(&mut self) {
        self.next_s += match self.per_s {
            0.0 => f64::INFINITY,
            per_s => -(1.0 - self.rng.uniform()).ln() / per_s,
        };
    }

    /// Injects what is due by now into a replica of the service.
    fn inject(&mut self, plant: &mut MeshPlant, service: usize) {
        let now_s = plant.mesh().now().seconds();
        while self.next_s <= now_s {
            let kind = AnomalyKind::ALL[self.rng.below(AnomalyKind::ALL.len())];
            let intensity = self.rng.uniform();
            let length = seconds(self.length_s * self.rng.range(0.5, 1.5));
            let replicas = plant.mesh().ready_replicas(service);
            let replica = replicas[self.rng.below(replicas.len())];
            let mesh = plant.mesh_mut();
            mesh.inject(kind, replica, intensity, length).expect("the intensity is in range");
            self.wait();
        }
    }
}

/// The state of Table 3.2: SLO maintenance, change of workload, request mix, utilisation.
fn features(seen: &ContainerObservation) -> [f32; 8] {
    let mut features = [0.0; 8];
    features[0] = seen.slo_maintenance as f32;
    features[1] = (seen.workload_change as f32).min(MAX_RATIO);
    features[2] = mix_code(&seen.request_mix) as f32;
    for (feature, utilization) in features[3..].iter_mut().zip(seen.utilization()) {
        *feature = (utilization as f32).min(MAX_RATIO);
    }
    features
}

/// One number for the shares of all types: the digits of a number of that many levels, from zero to one.
fn mix_code(mix: &[f64]) -> f64 {
    let level = |share: &f64| (share * LEVELS).floor().min(LEVELS - 1.0);
    mix.iter().rev().fold(0.0, |code, share| (code + level(share)) / LEVELS)
}

pub(crate) fn spec(config: &MeshConfig) -> EnvSpec {
    let mut high = vec![MAX_RATIO; 8];
    (high[0], high[2]) = (1.0, 1.0);
    let mut observation = vec![
        Field::new(
            "slo_maintenance",
            "0 to 1: SLO over measured p99 of the requests that call the service",
        ),
        Field::new("workload_change", "0 to 4: rate of calls over that of the step before"),
        Field::new("request_mix", "0 to 1: code of the shares of all types of requests"),
    ];
    let resources = ContainerResource::ALL.map(ContainerResource::name);
    observation.extend(resources.map(|name| Field {
        name: format!("{}_utilization", name.replace(' ', "_").to_lowercase()).into(),
        meaning: "0 to 4: use over limit, of all replicas".into(),
    }));
    let limit = |name: &str| Field {
        name: format!("{}_limit", name.replace(' ', "_").to_lowercase()).into(),
        meaning: "-1 to 1: from the smallest to the largest limit, on a logarithmic scale".into(),
    };
    EnvSpec {
        id: CONTAINER.parse().expect("the id is well-formed"),
        observation: Space::Box { low: vec![0.0; 8], high },
        action: Space::uniform_box(5, -1.0, 1.0),
        time_limit: Some(config.steps),
        card: Card {
            summary: "One microservice: limits of five resources and replicas, while anomalies are injected.",
            observation,
            action: resources.map(limit).to_vec(),
            reward: "5 alpha * slo_maintenance + (1 - alpha) * the sum of five utilisations, each at most 1",
            termination: "never",
            source: "FIRM (OSDI 2020) and chapter 3 of the dissertation, Table 3.2; topologies as `homeostat \
                     config show` names them; costs of calls are this project's",
        },
        control: None,
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
        obs.copy_from_slice(&features(playing.plant.observe(playing.service)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_mixes_have_different_codes_from_zero_to_one() {
        let mut codes = vec![
            mix_code(&[1.0, 0.0, 0.0]),
            mix_code(&[0.0, 1.0, 0.0]),
            mix_code(&[0.0, 0.0, 1.0]),
            mix_code(&[0.5, 0.5, 0.0]),
            mix_code(&[0.0, 0.5, 0.5]),
        ];
        assert!(codes.iter().all(|code| (0.0..1.0).contains(code)));
        codes.sort_by(f64::total_cmp);
        codes.dedup();
        assert_eq!(codes.len(), 5);
    }
}
