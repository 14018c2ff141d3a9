//! The engine and a workload that does as it is told, for hours: under a constant load everything
//! comes to rest, whatever people allow and forbid.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::tests::{MIB, at, constrained, container, recommend};
use super::*;
use crate::measure::Source;

/// Seconds between two looks.
const LOOK: u64 = 15;
/// Four hours, of which the last two are watched.
const LOOKS: u64 = 4 * 3600 / LOOK;
/// Turns of the number and sizes that are told meanwhile: something may still have to be learnt,
/// and what was learnt is tried again now and then.
const MAX_TURNS: usize = 2;
const MAX_SIZES: usize = 4;

/// What people wrote, and what comes.
#[derive(Debug, Clone)]
struct Situation {
    goal: Aim,
    sizes_cpu: bool,
    sizes_memory: bool,
    most_cpu: Option<u64>,
    replicas: (u32, u32),
    /// Seconds of stabilisation on the way down, if they are set.
    stabilization: Option<u64>,
    /// What a pod requests at first.
    request: u64,
    /// Millicores of work.
    demand: u64,
    /// Pods that get another size at a look.
    resized_at_once: usize,
    /// Looks that figures of latency are means of.
    smoothed_over: usize,
}

#[derive(Debug, Clone, Copy)]
enum Aim {
    Nothing,
    Use {
        percent: u64,
    },
    /// Milliseconds, where a request alone takes 100.
    Latency {
        most: u64,
    },
}

fn situations() -> impl Strategy<Value = Situation> {
    let goal = prop_oneof![
        Just(Aim::Nothing),
        (20u64..90).prop_map(|percent| Aim::Use { percent }),
        // Replicas that are a third full, the least that is tried, are as fast as this.
        (155u64..2000).prop_map(|most| Aim::Latency { most }),
    ];
    let bounds = (any::<bool>(), any::<bool>(), proptest::option::of(20u64..4000));
    let replicas = (1u32..5, 0u32..10).prop_map(|(low, more)| (low, low + more));
    let stabilization = proptest::option::of(0u64..120);
    let load = (10u64..2000, 5u64..8000, 1usize..4, 1usize..9);
    (goal, bounds, replicas, stabilization, load).prop_map(
        |(goal, (sizes_cpu, sizes_memory, most_cpu), replicas, stabilization, load)| {
            let (request, demand, resized_at_once, smoothed_over) = load;
            Situation {
                goal,
                sizes_cpu,
                sizes_memory,
                most_cpu,
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
            Aim::Nothing => json!({}),
            Aim::Use { percent } => {
                json!({"metrics": [{"resource": {"name": "cpu", "averageUtilization": percent}}]})
            }
            Aim::Latency { most } => json!({"slo": {"latency": {
                "percentile": "99", "threshold": format!("{most}ms"), "query": "q",
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
        if let Some(most) = self.most_cpu {
            constraints["container"] = json!([{
                "name": "app", "requests": {"maxAllowed": {"cpu": format!("{most}m")}},
            }]);
        }
        constrained(goals, constraints)
    }
}

/// A pod: when it started, and what it requests.
type Pod = (SimTime, (u64, u64));

struct Workload {
    pods: Vec<Pod>,
    /// Latencies of the looks before.
    latencies: Vec<f64>,
}

impl Workload {
    fn new(situation: &Situation) -> Self {
        let pod = (SimTime::ZERO, (situation.request, 256));
        Self { pods: vec![pod; situation.replicas.0 as usize], latencies: Vec::new() }
    }

    /// Work as a part of what pods request.
    fn full(&self, situation: &Situation) -> f64 {
        let requested: u64 = self.pods.iter().map(|(_, (cpu, _))| cpu).sum();
        situation.demand as f64 / requested as f64
    }

    /// Seconds: what is left of the capacity decides how long one waits.
    fn latency(&self, situation: &Situation) -> f64 {
        0.1 / (1.0 - self.full(situation).min(0.999))
    }

    fn inputs(&mut self, situation: &Situation, look: u64) -> Inputs {
        let seconds = look * LOOK;
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
            window: SimDuration::from_secs(LOOK),
            replicas: self.pods.len() as u32,
            pods: pods.collect(),
            oom_kills: BTreeMap::new(),
            use_problem: None,
            objective,
            queries: Vec::new(),
        }
    }

    /// Does as it is told, some pods at a time, and says which size that is.
    fn obey(&mut self, outcome: &Outcome, now: SimTime, mut resized_at_once: usize) -> (u64, u64) {
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

/// The same situations every time: whoever changes something sees what came of it.
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
    fn a_constant_load_comes_to_rest_where_it_should(situation in situations()) {
        let mut engine = situation.engine();
        let mut workload = Workload::new(&situation);
        let (mut last_change, mut last_size) = (0, None);
        let (mut turns, mut sizes) = (Vec::new(), Vec::new());
        for look in 0..LOOKS {
            let before = workload.pods.len() as i64;
            let outcome = recommend(&mut engine, &workload.inputs(&situation, look));
            let size = workload.obey(&outcome, at(look * LOOK), situation.resized_at_once);
            let change = workload.pods.len() as i64 - before;
            let is_watched = look >= LOOKS / 2;
            if is_watched && change * last_change < 0 {
                turns.push((look, before, change, outcome.reasons.clone()));
            }
            if change != 0 {
                last_change = change;
            }
            if last_size.replace(size) != Some(size) && is_watched {
                sizes.push((look, size, outcome.reasons));
            }
        }
        prop_assert!(turns.len() <= MAX_TURNS, "{turns:#?}");
        prop_assert!(sizes.len() <= MAX_SIZES, "{sizes:#?}");
        let is_enough = match situation.goal {
            Aim::Nothing => true,
            // Up to the tolerance of the horizontal autoscaler.
            Aim::Use { percent } => workload.full(&situation) <= percent as f64 / 100.0 * 1.1 + 0.01,
            Aim::Latency { most } => workload.latency(&situation) <= most as f64 / 1e3,
        };
        let is_at_most = workload.pods.len() as u32 == situation.replicas.1;
        prop_assert!(is_enough || is_at_most, "{:?}", workload.pods);
    }
}
