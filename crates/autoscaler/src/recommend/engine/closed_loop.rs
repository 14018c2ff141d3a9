//! The engine in closed loop with a simulated workload for hours: under a constant load the number
//! and the size of pods settle, for random specs.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::tests::{MIB, at, constrained, container, recommend};
use super::*;
use crate::measure::Source;
use crate::recommend::LoadInputs;

/// Seconds between two reconciles.
const INTERVAL: u64 = 15;
/// Four hours, of which the last two are checked.
const RECONCILES: u64 = 4 * 3600 / INTERVAL;
/// Changes of direction of the number of pods, and changes of their size, in the checked time: the
/// engine may still learn, and probes now and then.
const MAX_TURNS: usize = 2;
const MAX_SIZES: usize = 4;

/// A spec and a load.
#[derive(Debug, Clone)]
struct Situation {
    goal: Aim,
    sizes_cpu: bool,
    sizes_memory: bool,
    max_cpu: Option<u64>,
    replicas: (u32, u32),
    /// The stabilisation window of scale-down in seconds, if it is set.
    stabilization: Option<u64>,
    /// The initial CPU request of a pod, in millicores.
    request: u64,
    /// The CPU that the load needs, in millicores.
    demand: u64,
    /// Pods that are resized at one reconcile.
    resized_at_once: usize,
    /// Reconciles over which the latency is a mean.
    smoothed_over: usize,
}

#[derive(Debug, Clone, Copy)]
enum Aim {
    None,
    Utilization {
        percent: u64,
    },
    /// Milliseconds, where a request alone takes 100.
    Latency {
        threshold: u64,
    },
}

fn situations() -> impl Strategy<Value = Situation> {
    let goal = prop_oneof![
        Just(Aim::None),
        (20u64..90).prop_map(|percent| Aim::Utilization { percent }),
        // The latency at a utilisation of a third, the lowest that the engine tries.
        (155u64..2000).prop_map(|threshold| Aim::Latency { threshold }),
    ];
    let bounds = (any::<bool>(), any::<bool>(), proptest::option::of(20u64..4000));
    let replicas = (1u32..5, 0u32..10).prop_map(|(low, more)| (low, low + more));
    let stabilization = proptest::option::of(0u64..120);
    let load = (10u64..2000, 5u64..8000, 1usize..4, 1usize..9);
    (goal, bounds, replicas, stabilization, load).prop_map(
        |(goal, (sizes_cpu, sizes_memory, max_cpu), replicas, stabilization, load)| {
            let (request, demand, resized_at_once, smoothed_over) = load;
            Situation {
                goal,
                sizes_cpu,
                sizes_memory,
                max_cpu,
                replicas,
                stabilization,
                request,
                demand,
                resized_at_once,
                smoothed_over,
            }
        },
    )
}

impl Situation {
    fn engine(&self) -> Engine {
        let goals = match self.goal {
            Aim::None => json!({}),
            Aim::Utilization { percent } => {
                json!({"metrics": [{"resource": {"name": "cpu", "averageUtilization": percent}}]})
            }
            Aim::Latency { threshold } => json!({"slo": {"latency": {
                "percentile": "99", "threshold": format!("{threshold}ms"), "query": "q",
            }}}),
        };
        let controlled = [(self.sizes_cpu, "cpu"), (self.sizes_memory, "memory")];
        let controlled = controlled.into_iter().filter(|(is_sized, _)| *is_sized);
        let controlled: Vec<_> = controlled.map(|(_, name)| name).collect();
        let mut global = json!({"minReplicas": self.replicas.0, "maxReplicas": self.replicas.1});
        if let Some(seconds) = self.stabilization {
            global["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": seconds}});
        }
        let mut constraints = json!({"containerControlledResources": controlled, "global": global});
        if let Some(most) = self.max_cpu {
            constraints["container"] = json!([{
                "name": "app", "requests": {"maxAllowed": {"cpu": format!("{most}m")}},
            }]);
        }
        constrained(goals, constraints)
    }
}

/// A pod: its start, and its requests.
type Pod = (SimTime, (u64, u64));

struct Workload {
    pods: Vec<Pod>,
    /// The latencies of the reconciles before.
    latencies: Vec<f64>,
}

impl Workload {
    fn new(situation: &Situation) -> Self {
        let pod = (SimTime::ZERO, (situation.request, 256));
        Self { pods: vec![pod; situation.replicas.0 as usize], latencies: Vec::new() }
    }

    /// The load over the requests of the pods.
    fn utilization(&self, situation: &Situation) -> f64 {
        let requested: u64 = self.pods.iter().map(|(_, (cpu, _))| cpu).sum();
        situation.demand as f64 / requested as f64
    }

    /// In seconds: it grows as the spare capacity vanishes.
    fn latency(&self, situation: &Situation) -> f64 {
        0.1 / (1.0 - self.utilization(situation).min(0.999))
    }

    fn inputs(&mut self, situation: &Situation, reconcile: u64) -> Inputs {
        let seconds = reconcile * INTERVAL;
        let used = situation.demand / self.pods.len() as u64;
        let pods = self.pods.iter().enumerate().map(|(place, (started, size))| PodInputs {
            name: format!("pod-{place}"),
            started: *started,
            is_ready: true,
            served_throughout: None,
            containers: vec![container(seconds, "app", *size, (used, 200))],
        });
        self.latencies.push(self.latency(situation));
        let recent = self.latencies.iter().rev().take(situation.smoothed_over);
        let latency = recent.clone().sum::<f64>() / recent.len() as f64;
        let objective = matches!(situation.goal, Aim::Latency { .. }).then_some(Ok(Reading {
            value: latency,
            at: at(seconds),
            source: Source::Prometheus,
        }));
        Inputs {
            now: at(seconds),
            window: SimDuration::from_secs(INTERVAL),
            replicas: self.pods.len() as u32,
            pods: pods.collect(),
            oom_kills: BTreeMap::new(),
            use_problem: None,
            objective,
            queries: Vec::new(),
            load: LoadInputs::default(),
            team: None,
        }
    }

    /// Applies a recommendation, some pods at a time, and returns the size.
    fn apply(&mut self, outcome: &Outcome, now: SimTime, mut resized_at_once: usize) -> (u64, u64) {
        let (cpu, memory) = outcome.containers["app"];
        let size = (cpu.millicores(), memory.bytes().div_ceil(MIB));
        for (_, own) in &mut self.pods {
            if *own != size && resized_at_once > 0 {
                resized_at_once -= 1;
                *own = size;
            }
        }
        let replicas = outcome.decision.applied().replicas as usize;
        while self.pods.len() < replicas {
            self.pods.push((now, size));
        }
        self.pods.truncate(replicas);
        size
    }
}

/// The same situations in every run, so that a change shows its effect.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(128)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_constant_load_settles_where_the_goal_is_met(situation in situations()) {
        let mut engine = situation.engine();
        let mut workload = Workload::new(&situation);
        let (mut last_change, mut last_size) = (0, None);
        let (mut turns, mut sizes) = (Vec::new(), Vec::new());
        for reconcile in 0..RECONCILES {
            let before = workload.pods.len() as i64;
            let outcome = recommend(&mut engine, &workload.inputs(&situation, reconcile));
            let size = workload.apply(&outcome, at(reconcile * INTERVAL), situation.resized_at_once);
            let change = workload.pods.len() as i64 - before;
            let is_checked = reconcile >= RECONCILES / 2;
            if is_checked && change * last_change < 0 {
                turns.push((reconcile, before, change, outcome.reasons.clone()));
            }
            if change != 0 {
                last_change = change;
            }
            if last_size.replace(size) != Some(size) && is_checked {
                sizes.push((reconcile, size, outcome.reasons));
            }
        }
        prop_assert!(turns.len() <= MAX_TURNS, "{turns:#?}");
        prop_assert!(sizes.len() <= MAX_SIZES, "{sizes:#?}");
        let is_enough = match situation.goal {
            Aim::None => true,
            // Up to the tolerance of HPA.
            Aim::Utilization { percent } => workload.utilization(&situation) <= percent as f64 / 100.0 * 1.1 + 0.01,
            Aim::Latency { threshold } => workload.latency(&situation) <= threshold as f64 / 1e3,
        };
        let is_at_maximum = workload.pods.len() as u32 == situation.replicas.1;
        prop_assert!(is_enough || is_at_maximum, "{:?}", workload.pods);
    }
}
