//! Replays a recording through an engine.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};
use homeostat_decide::TeamState;

use super::recording::{Sample, value};
use super::tally::{SloState, is_met};
use crate::api::{Plan, Recommender};
use crate::learn::{Advice, ServedPolicy};
use crate::measure::{Problem, Reading, Source, TrustConfig};
use crate::recommend::{ContainerInputs, Engine, Inputs, LoadInputs, Outcome, PodInputs};

/// The autoscaler whose decisions are applied in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The recommender of the plan.
    Recommender,
    /// HPA alone, with the recorded sizes.
    Horizontal,
    /// VPA alone, with the recorded number of pods.
    Vertical,
}

/// The recommender of a replay. The past advice of a learner is not known, so the recommender that
/// stands in while a learner is unavailable recommends instead.
pub fn played_recommender(plan: &Plan) -> &'static str {
    match plan.recommender {
        Recommender::Policy(_) | Recommender::External(..) => Recommender::Joint.name(),
        Recommender::Aware(_) => Recommender::HpaVpa.name(),
        Recommender::Joint | Recommender::HpaVpa => plan.recommender.name(),
    }
}

/// The pods that the workload would have had in one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Start times of its pods.
    pub started: Vec<SimTime>,
    /// The size of each container.
    pub sizes: BTreeMap<String, (Millicores, Bytes)>,
}

impl Stage {
    /// Number of pods.
    pub fn replicas(&self) -> u32 {
        self.started.len() as u32
    }

    /// Cores and bytes of a pod.
    pub fn pod(&self) -> (Millicores, Bytes) {
        let sizes = self.sizes.values().copied();
        sizes.fold(Default::default(), |(cpu, memory), size| (cpu + size.0, memory + size.1))
    }

    /// Cores and bytes of all pods.
    pub fn requested(&self) -> (f64, f64) {
        let (cpu, memory) = self.pod();
        let replicas = f64::from(self.replicas());
        (cpu.cores() * replicas, memory.bytes() as f64 * replicas)
    }

    fn resize(&mut self, replicas: u32, now: SimTime) {
        // The youngest pods are removed first, as in a Deployment.
        self.started.resize(replicas as usize, now);
    }
}

/// One replayed sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// The pods that the workload would have had.
    pub stage: Stage,
    /// The decision; none without pods to learn from.
    pub outcome: Option<Outcome>,
    /// Whether the SLO would have been met, as far as the recording tells.
    pub slo: SloState,
}

/// Replays a recording, one sample after the other.
pub struct Player {
    engine: Engine,
    follow: Follow,
    step: SimDuration,
    stage: Option<Stage>,
    /// A policy file that recommends.
    advice: Option<Advice>,
}

impl Player {
    /// A player for samples that are `step` apart.
    pub fn new(plan: Plan, follow: Follow, step: SimDuration) -> homeostat_decide::Result<Self> {
        // The age of samples is measured against their own time, so that they are never stale.
        let trust = TrustConfig::default();
        Ok(Self { engine: Engine::new(plan, trust)?, follow, step, stage: None, advice: None })
    }

    /// The same with the recommendations of a policy file.
    pub fn serving(self, policy: Option<ServedPolicy>) -> Self {
        Self { advice: policy.map(Advice::Serve), ..self }
    }

    /// Replays one sample, in which the other members of its team were seen like this; none if it
    /// has no pods.
    pub fn play(&mut self, sample: &Sample, team: Option<TeamState>) -> Option<Played> {
        let recorded = recorded_stage(sample)?;
        let stage = match self.stage.take() {
            None => recorded,
            Some(mut stage) => {
                match self.follow {
                    Follow::Recommender => {}
                    Follow::Horizontal => stage.sizes = recorded.sizes,
                    Follow::Vertical => stage.started = recorded.started,
                }
                stage
            }
        };
        let slo = slo_state(self.engine.plan(), sample, &stage);
        let inputs = Inputs { team, ..self.inputs(sample, &stage, slo) };
        let outcome = self.engine.recommend(&inputs, None, self.advice.as_ref());
        let next = outcome.as_ref().map_or_else(
            || stage.clone(),
            |outcome| next_stage(self.follow, &stage, outcome, sample.at),
        );
        self.stage = Some(next);
        Some(Played { stage, outcome, slo })
    }

    /// The inputs of the engine: the recorded work on the pods of the stage.
    fn inputs(&self, sample: &Sample, stage: &Stage, slo: SloState) -> Inputs {
        let plan = self.engine.plan();
        let missing = || Problem::Missing { source: Source::Prometheus };
        let reading = |value| Reading { value, at: sample.at, source: Source::Prometheus };
        let known = |figure: Option<f64>| figure.map(reading).ok_or_else(missing);
        let is_given = sample.objective.is_none() || slo != SloState::Unknown;
        Inputs {
            now: sample.at,
            window: self.step,
            replicas: stage.replicas(),
            pods: spread(sample, stage),
            oom_kills: BTreeMap::new(),
            use_problem: None,
            objective: (plan.goal.is_some() && is_given).then(|| known(sample.objective)),
            queries: sample.queries.iter().map(|figure| known(*figure)).collect(),
            load: LoadInputs::of_answers(&plan.load, sample.load.iter().copied().map(known)),
            team: None,
        }
    }
}

/// Whether the SLO would have been met. With more CPU an SLO that was met stays met, and with less CPU
/// one that was violated stays violated; otherwise the recording does not tell.
fn slo_state(plan: &Plan, sample: &Sample, stage: &Stage) -> SloState {
    let Some(was_met) = is_met(plan, sample.objective) else { return SloState::Unknown };
    let (had, would_have) = (sample.requested().0, stage.requested().0);
    // Differences of 1 % come from rounding.
    let is_more = would_have >= had * 0.99;
    let is_less = would_have <= had * 1.01;
    match was_met {
        true if is_more => SloState::Met,
        false if is_less => SloState::Violated,
        _ => SloState::Unknown,
    }
}

fn next_stage(follow: Follow, stage: &Stage, outcome: &Outcome, now: SimTime) -> Stage {
    let mut next = stage.clone();
    match follow {
        Follow::Recommender => {
            next.resize(outcome.decision.applied().replicas, now);
            next.sizes.clone_from(&outcome.containers);
        }
        Follow::Horizontal => {
            next.resize(outcome.hpa_replicas.unwrap_or(stage.replicas()).max(1), now);
        }
        Follow::Vertical => {
            let (cpu, memory) = outcome.vpa_size.unwrap_or(stage.pod());
            let (cpu_now, memory_now) = stage.pod();
            let part = |of: u64, now: u64, to: u64| {
                (of as f64 * to as f64 / now.max(1) as f64).round() as u64
            };
            for size in next.sizes.values_mut() {
                let cores = part(size.0.millicores(), cpu_now.millicores(), cpu.millicores());
                let bytes = part(size.1.bytes(), memory_now.bytes(), memory.bytes());
                *size = (Millicores::new(cores), Bytes::new(bytes));
            }
        }
    }
    next
}

fn recorded_stage(sample: &Sample) -> Option<Stage> {
    let first = sample.pods.first()?;
    let mut started: Vec<SimTime> = sample.pods.iter().map(|pod| pod.started).collect();
    started.sort();
    Some(Stage { started, sizes: sizes_of(first) })
}

pub(super) fn sizes_of(pod: &PodInputs) -> BTreeMap<String, (Millicores, Bytes)> {
    let size = |container: &ContainerInputs| {
        (container.name.clone(), (container.cpu_request, container.memory_request))
    };
    pod.containers.iter().map(size).collect()
}

/// Divides the recorded CPU work among the pods of a stage, as unevenly as it was recorded. Memory per
/// pod stays as recorded, since its dependence on the work is not known.
fn spread(sample: &Sample, stage: &Stage) -> Vec<PodInputs> {
    let recorded = &sample.pods;
    let weight = |pod: &PodInputs| {
        pod.containers.iter().filter_map(|container| value(container.cpu)).sum::<f64>()
    };
    let weights: Vec<f64> =
        (0..stage.started.len()).map(|place| weight(&recorded[place % recorded.len()])).collect();
    let weighed: f64 = weights.iter().sum();
    let all: f64 = recorded.iter().map(weight).sum();
    // The work of each pod relative to its recorded pod.
    let factor = if weighed > 0.0 { all / weighed } else { 1.0 };
    let pod = |(place, started): (usize, &SimTime)| {
        let source = &recorded[place % recorded.len()];
        let container = |container: &ContainerInputs| {
            let (cpu_request, memory_request) = stage
                .sizes
                .get(&container.name)
                .copied()
                .unwrap_or((container.cpu_request, container.memory_request));
            let cpu = container.cpu.map(|cpu| Reading { value: cpu.value * factor, ..cpu });
            ContainerInputs { cpu_request, memory_request, cpu, ..container.clone() }
        };
        PodInputs {
            name: format!("{}-{place}", source.name),
            started: *started,
            is_ready: source.is_ready,
            served_throughout: None,
            containers: source.containers.iter().map(container).collect(),
        }
    };
    stage.started.iter().enumerate().map(pod).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::recording_of;
    use crate::history::tally::Tally;

    fn plan(goals: serde_json::Value) -> Plan {
        let spec = serde_json::json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "goals": goals,
            "constraints": {"global": {"minReplicas": 1, "maxReplicas": 20}},
        });
        Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid")
    }

    fn latency() -> serde_json::Value {
        serde_json::json!({"slo": {"latency":
            {"percentile": "99", "threshold": "250ms", "query": "q"}}})
    }

    #[test]
    fn dividing_the_work_conserves_it() {
        let recording = recording_of(1, 3, |_, pod| 0.1 * (pod + 1) as f64, |_| None);
        let sample = &recording.samples[0];
        for replicas in [1, 2, 3, 7] {
            let mut stage = recorded_stage(sample).expect("pods");
            stage.resize(replicas, sample.at);
            let pods = spread(sample, &stage);
            let containers = pods.iter().flat_map(|pod| &pod.containers);
            let spread: f64 = containers.filter_map(|container| value(container.cpu)).sum();
            assert_eq!(pods.len() as u32, replicas);
            assert!((spread - sample.cores_used()).abs() < 1e-9, "{replicas}: {spread}");
        }
    }

    #[test]
    fn the_number_falls_in_steps_to_where_the_work_fits() {
        // Ten pods of half a core use a twentieth of it each: half a core in all.
        let recording = recording_of(120, 10, |_, _| 0.05, |_| None);
        let mut player =
            Player::new(plan(serde_json::json!({})), Follow::Recommender, recording.step)
                .expect("valid");
        let mut numbers: Vec<u32> = Vec::new();
        for sample in &recording.samples {
            numbers.push(player.play(sample, None).expect("pods").stage.replicas());
        }
        assert_eq!(numbers[0], 10);
        assert_eq!(numbers.last(), Some(&2), "{numbers:?}");
        assert!(numbers.windows(2).all(|two| two[1] * 2 >= two[0]), "{numbers:?}");
    }

    #[test]
    fn the_slo_state_is_known_only_where_the_recording_tells() {
        // Met with the recorded pods and with more; not known with fewer.
        let check = |seconds: f64, replicas: u32, expect: SloState| {
            let recording = recording_of(1, 4, |_, _| 0.1, |_| Some(seconds));
            let sample = &recording.samples[0];
            let mut stage = recorded_stage(sample).expect("pods");
            stage.resize(replicas, sample.at);
            assert_eq!(slo_state(&plan(latency()), sample, &stage), expect, "{seconds} {replicas}");
        };
        check(0.1, 4, SloState::Met);
        check(0.1, 5, SloState::Met);
        check(0.1, 3, SloState::Unknown);
        check(0.4, 4, SloState::Violated);
        check(0.4, 3, SloState::Violated);
        check(0.4, 5, SloState::Unknown);
    }

    #[test]
    fn nothing_is_learnt_from_latency_that_was_not_observed() {
        // Many pods and low latency: a target learnt from it would rise to 90 %.
        let recording = recording_of(240, 10, |_, _| 0.05, |_| Some(0.01));
        let mut player =
            Player::new(plan(latency()), Follow::Recommender, recording.step).expect("valid");
        let mut last = String::new();
        for sample in &recording.samples {
            let played = player.play(sample, None).expect("pods");
            last = played.outcome.expect("decided").reasons.join("; ");
        }
        let level =
            last.split("CPU utilisation of ").nth(1).and_then(|rest| rest.split('%').next());
        let level: f64 = level.and_then(|level| level.parse().ok()).expect(&last);
        // It rose only while the pods were still the recorded ones.
        assert!(level < 80.0, "{last}");
    }

    #[test]
    fn gaps_in_the_recording_change_nothing() {
        let mut recording = recording_of(3, 2, |_, _| 0.3, |_| None);
        recording.samples[1].pods.clear();
        let mut player =
            Player::new(plan(serde_json::json!({})), Follow::Recommender, recording.step)
                .expect("valid");
        let played: Vec<_> =
            recording.samples.iter().map(|sample| player.play(sample, None).is_some()).collect();
        assert_eq!(played, [true, false, true]);
    }

    #[test]
    fn moments_short_of_cpu_or_memory_are_counted() {
        // Two pods of 500m and 256Mi use 300m and 100Mi each: one of them alone is short.
        let recording = recording_of(1, 2, |_, _| 0.3, |_| None);
        let sample = &recording.samples[0];
        let mut stage = recorded_stage(sample).expect("pods");
        let mut tally = Tally::default();
        tally.add(1.0, sample, &stage, SloState::Unknown);
        assert_eq!((tally.short_of_cpu, tally.short_of_memory), (0, 0));
        assert_eq!((tally.core_hours, tally.gib_hours, tally.mean_pods()), (1.0, 0.5, 2.0));
        stage.resize(1, sample.at);
        for size in stage.sizes.values_mut() {
            size.1 = Bytes::from_mib(80);
        }
        tally.add(1.0, sample, &stage, SloState::Unknown);
        assert_eq!((tally.short_of_cpu, tally.short_of_memory), (1, 1));
        assert!((tally.worst_cpu_excess - 0.2).abs() < 1e-9);
        assert!((tally.worst_memory_excess - 0.25).abs() < 1e-9);
    }
}
