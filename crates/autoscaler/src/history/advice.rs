//! The recommendation for a workload from its recorded history.

use homeostat_core::{Bytes, Millicores, SimDuration};
use homeostat_decide::Reason;

use super::player::{Follow, Played, Player};
use super::recording::Recording;
use crate::api::Plan;
use crate::workload::ContainerRecord;

/// The length of the history of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Time between the first and the last sample.
    pub span: SimDuration,
    /// Number of samples of single pods.
    pub pod_samples: usize,
}

/// With a shorter history, no size is reduced.
const MIN_SPAN: SimDuration = SimDuration::from_secs(3600);

impl Known {
    /// The confidence in the recommendation, in a word.
    pub fn word(&self) -> &'static str {
        let days = self.span.seconds() / 86_400.0;
        match days {
            _ if self.span < MIN_SPAN => "a guess",
            ..1.0 => "little",
            ..3.0 => "fair",
            _ => "good",
        }
    }
}

/// The recommendation for a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Current and recommended number of pods.
    pub replicas: (u32, u32),
    /// Its containers.
    pub containers: Vec<ContainerAdvice>,
    /// The length of its history.
    pub known: Known,
    /// Number of pods of HPA alone at the last sample.
    pub hpa_replicas: Option<u32>,
    /// CPU and memory of a pod of VPA alone.
    pub vpa_size: Option<(Millicores, Bytes)>,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// The recommendation for a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerAdvice {
    /// The container now.
    pub present: ContainerRecord,
    /// The recommended requests.
    pub target: (Millicores, Bytes),
}

impl Advice {
    /// Cores and bytes that all pods request now, and with the recommendation.
    pub fn totals(&self) -> ((f64, f64), (f64, f64)) {
        let (now, then) = (f64::from(self.replicas.0), f64::from(self.replicas.1));
        let mut totals = ((0.0, 0.0), (0.0, 0.0));
        for ContainerAdvice { present, target } in &self.containers {
            let cpu = present.cpu_request.unwrap_or_default().cores();
            let memory = present.memory_request.unwrap_or_default().bytes() as f64;
            totals.0 = (totals.0.0 + cpu * now, totals.0.1 + memory * now);
            let (cpu, memory) = (target.0.cores(), target.1.bytes() as f64);
            totals.1 = (totals.1.0 + cpu * then, totals.1.1 + memory * then);
        }
        totals
    }

    /// Whether the recommendation differs from the current state.
    pub fn is_change(&self) -> bool {
        let is_new = |advice: &ContainerAdvice| {
            let ContainerRecord { cpu_request, memory_request, .. } = advice.present;
            (cpu_request, memory_request) != (Some(advice.target.0), Some(advice.target.1))
        };
        self.replicas.0 != self.replicas.1 || self.containers.iter().any(is_new)
    }
}

/// Fraction of the recorded samples for which the recommended number of pods is enough. A fixed number
/// does not follow the load, so it has to suffice for nearly all of it.
const ENOUGH: f64 = 0.99;

/// The recommendation for a workload that has these replicas and containers now; none if no pod of it
/// was recorded.
pub fn advise(
    plan: &Plan,
    recording: &mut Recording,
    replicas: u32,
    containers: &[ContainerRecord],
) -> homeostat_decide::Result<Option<Advice>> {
    recording.assume_recommender(plan);
    recording.assume_missing_requests(containers);
    let mut player = Player::new(plan.clone(), Follow::Recommender, recording.step)?;
    let played: Vec<Played> =
        recording.samples.iter().filter_map(|sample| player.play(sample, None)).collect();
    let Some(outcome) = played.iter().rev().find_map(|played| played.outcome.clone()) else {
        return Ok(None);
    };
    let known = Known { span: recording.span(), pod_samples: recording.pod_samples() };
    let mut reasons = recording.assumed.clone();
    // This reason compares with the request in the replay, which may differ from the current one.
    let is_outdated = |index: usize| {
        outcome.decision.reasons().get(index).is_some_and(|reason| *reason == Reason::InsideRange)
    };
    let valid = outcome.reasons.iter().enumerate().filter(|(index, _)| !is_outdated(*index));
    reasons.extend(valid.map(|(_, reason)| reason.clone()));
    let wanted = enough_pods(plan, &played);
    if played.len() > 1 {
        let percent = ENOUGH * 100.0;
        reasons.push(format!("{wanted} pods are enough in {percent:.0}% of the recorded samples"));
    }
    let mut held_sizes = false;
    let advice = |container: &ContainerRecord| {
        let assumed = recording.last_sizes().get(&container.name).copied();
        let current = assumed.unwrap_or_default();
        let mut target = outcome.containers.get(&container.name).copied().unwrap_or(current);
        if known.span < MIN_SPAN {
            let higher = (target.0.max(current.0), target.1.max(current.1));
            held_sizes |= higher != target;
            target = higher;
        }
        ContainerAdvice { present: container.clone(), target: whole(target) }
    };
    let containers = containers.iter().map(advice).collect();
    if held_sizes {
        reasons.push("held: sizes are not reduced with less than an hour of history".to_owned());
    }
    Ok(Some(Advice {
        replicas: (replicas, wanted),
        containers,
        known,
        hpa_replicas: outcome.hpa_replicas,
        vpa_size: outcome.vpa_size,
        reasons,
    }))
}

/// Rounds memory up to whole mebibytes, as it is written.
fn whole((cpu, memory): (Millicores, Bytes)) -> (Millicores, Bytes) {
    (cpu, Bytes::from_mib(memory.bytes().div_ceil(1 << 20)))
}

/// The number of pods that is enough for nearly all samples at the last recommended size.
fn enough_pods(plan: &Plan, played: &[Played]) -> u32 {
    // The proposal, without the step limits of a running workload.
    let wanted = |played: &Played| {
        let wanted = played.outcome.as_ref().map(|outcome| outcome.decision.proposed().replicas);
        plan.replicas.clamp(wanted.unwrap_or(played.stage.replicas()))
    };
    let last_size = played.last().map(|played| played.stage.pod().0);
    let fitting = played.iter().filter(|played| Some(played.stage.pod().0) == last_size);
    let mut numbers: Vec<u32> = fitting.map(wanted).collect();
    // A new size has too few samples.
    if numbers.len() * 2 < played.len() {
        numbers = played.iter().map(wanted).collect();
    }
    numbers.sort_unstable();
    let place = ((numbers.len() as f64 * ENOUGH).ceil() as usize).saturating_sub(1);
    numbers.get(place).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::recording_of;

    fn plan() -> Plan {
        let spec = serde_json::json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "constraints": {"global": {"minReplicas": 2, "maxReplicas": 20}},
        });
        Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid")
    }

    fn container(cpu: Option<u64>, memory: Option<u64>) -> ContainerRecord {
        ContainerRecord {
            name: "app".to_owned(),
            cpu_request: cpu.map(Millicores::new),
            memory_request: memory.map(Bytes::from_mib),
            cpu_limit: None,
            memory_limit: None,
            oom_killed_at: None,
        }
    }

    fn advice(mut recording: Recording, container: ContainerRecord) -> Advice {
        advise(&plan(), &mut recording, 4, &[container]).expect("valid").expect("pods")
    }

    #[test]
    fn the_number_is_enough_for_the_peak_and_not_only_for_the_last_sample() {
        // A busy hour in the middle of a day: three times the use of the rest.
        let busy = |minute: u64, _| if (600..660).contains(&minute) { 0.45 } else { 0.15 };
        let advice = advice(recording_of(1440, 4, busy, |_| None), container(Some(500), Some(256)));
        // 1.8 cores at 70 % of 500m each.
        assert_eq!(advice.replicas, (4, 6), "{:?}", advice.reasons);
        assert_eq!(advice.known.word(), "little");
    }

    #[test]
    fn one_sample_reduces_no_size() {
        let idle =
            advice(recording_of(1, 4, |_, _| 0.01, |_| None), container(Some(500), Some(256)));
        let target = (Millicores::new(500), Bytes::from_mib(256));
        assert_eq!(idle.containers[0].target, target, "{:?}", idle.reasons);
        assert_eq!(idle.known.word(), "a guess");
    }

    #[test]
    fn a_container_without_requests_gets_some() {
        let mut recording = recording_of(240, 4, |_, _| 0.2, |_| None);
        recording.each("app", |container| {
            container.cpu_request = Millicores::ZERO;
            container.memory_request = Bytes::ZERO;
        });
        let advice = advice(recording, container(None, None));
        let (cpu, memory) = advice.containers[0].target;
        assert!((200..300).contains(&cpu.millicores()), "{cpu}");
        assert!(memory >= Bytes::from_mib(100), "{memory}");
        assert!(advice.reasons[0].contains("app requests no CPU"), "{:?}", advice.reasons);
    }
}
