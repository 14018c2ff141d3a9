//! A rule for pods, such as Kubernetes' autoscalers, on containers with five limits: it decides on replicas
//! and CPU, and cannot touch the other four.

use homeostat_core::{
    Bytes, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, SimTime, Slo, Snapshot,
};

use crate::{
    Allocation, ContainerObservation, ContainerProposal, ContainerReason, ContainerScaling, Error,
    Observation, Policy, Propose, ReplicaSample, Result,
};

/// A rule for pods that is asked every period about the mean use of CPU since it was last asked. A
/// container's limit of CPU is also what it requests.
pub struct PodRule {
    name: String,
    rule: Box<dyn Policy>,
    period: SimDuration,
    /// When it is asked next.
    next: SimTime,
    /// CPU used since it was last asked, and for how long.
    cpu_s: f64,
    seconds: f64,
}

/// The period of Kubernetes' horizontal pod autoscaler, and of the metrics that it reads.
const KUBERNETES_PERIOD: SimDuration = SimDuration::from_secs(15);

/// Limits of memory are not of this domain.
const MEMORY: Bytes = Bytes::from_mib(1024);

impl PodRule {
    /// A rule in Kubernetes' period.
    pub fn new(rule: Box<dyn Policy>) -> Self {
        let name = rule.name().to_owned();
        let (period, next) = (KUBERNETES_PERIOD, SimTime::ZERO + KUBERNETES_PERIOD);
        Self { name, rule, period, next, cpu_s: 0.0, seconds: 0.0 }
    }

    /// The same rule asked more often or less.
    pub fn with_period(self, name: &str, period: SimDuration) -> Result<Self> {
        if period == SimDuration::ZERO {
            return Err(Error::setting("period", "above 0", period));
        }
        let next = SimTime::ZERO + period;
        Ok(Self { name: name.to_owned(), period, next, ..self })
    }

    fn observation(&self, obs: &ContainerObservation) -> Observation {
        let ContainerObservation { now, setting, .. } = obs;
        let allocation = Allocation {
            replicas: setting.replicas,
            cpu: Millicores::new(setting.limits[0]),
            memory: MEMORY,
        };
        let threshold = SimDuration::from_secs(1);
        let slo =
            Slo::try_new(Fraction::from_percent(99), threshold).expect("99 % is a percentile");
        let cores = self.cpu_s / self.seconds.max(1e-9) / f64::from(setting.replicas.max(1));
        let replica =
            ReplicaSample { cpu_cores: Some(cores), ..ReplicaSample::ready(SimTime::ZERO) };
        // SLOs differ by type of requests; a latency in their unit says as much.
        let latency = SimDuration::from_seconds(1.0 / obs.slo_maintenance.max(1e-9)).ok();
        Observation {
            window: self.period,
            latency: latency.filter(|_| obs.arrivals_per_s > 0.0),
            arrivals_per_s: obs.arrivals_per_s,
            replicas: vec![replica; setting.replicas as usize],
            slo_status: Some(obs.slo_status),
            ..Observation::new(*now, allocation, slo)
        }
    }
}

impl Policy<ContainerScaling> for PodRule {
    fn name(&self) -> &str {
        &self.name
    }

    fn propose(&mut self, obs: &ContainerObservation) -> ContainerProposal {
        self.cpu_s += obs.usage[0] / 1e3 * obs.window.seconds();
        self.seconds += obs.window.seconds();
        if obs.now < self.next {
            return ContainerProposal::keep(&obs.setting);
        }
        let seen = self.observation(obs);
        self.next = obs.now + self.period;
        (self.cpu_s, self.seconds) = (0.0, 0.0);
        let wanted = self.rule.propose(&seen);
        let mut proposal = ContainerProposal::keep(&obs.setting);
        proposal.replicas = wanted.replicas;
        proposal.limits[0] = wanted.cpu_cores * 1e3;
        let reasons = wanted.reasons.into_iter();
        proposal.reasons = reasons.map(|reason| ContainerReason::Pods(Box::new(reason))).collect();
        proposal
    }
}

impl Persist for PodRule {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rule.save(&format!("{name}/rule"), out);
        out.put_u64(&format!("{name}/next"), [self.next.nanos()]);
        out.put_f64(&format!("{name}/use"), [self.cpu_s, self.seconds]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.rule.load(&format!("{name}/rule"), from)?;
        self.next = SimTime::from_nanos(from.u64s(&format!("{name}/next"), 1)?[0]);
        let used = from.f64s(&format!("{name}/use"), 2)?;
        (self.cpu_s, self.seconds) = (used[0], used[1]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContainerLimits, PolicyConfig};

    fn hpa() -> PodRule {
        PodRule::new(PolicyConfig::by_name("hpa").unwrap().build().unwrap())
    }

    fn seen(second: u64, cpu: f64) -> ContainerObservation {
        let setting = ContainerLimits { replicas: 2, limits: [1000, 7, 7, 7, 7] };
        let window = SimDuration::from_secs(1);
        let now = SimTime::ZERO + SimDuration::from_secs(second);
        ContainerObservation {
            usage: [cpu, 7.0, 7.0, 7.0, 7.0],
            ..ContainerObservation::new(now, window, setting)
        }
    }

    #[test]
    fn the_rule_sees_the_mean_of_its_period_and_moves_replicas_alone() {
        let mut hpa = hpa();
        // Idle but for the last seconds: 160 % of the target of 80 % in the mean.
        for second in 1..15 {
            let cpu = if second < 3 { 0.0 } else { 2.0 * 1000.0 * 1.28 * 15.0 / 13.0 };
            let proposal = hpa.propose(&seen(second, cpu));
            assert_eq!(proposal, ContainerProposal::keep(&seen(second, cpu).setting));
        }
        let proposal = hpa.propose(&seen(15, 2.0 * 1000.0 * 1.28 * 15.0 / 13.0));
        assert_eq!((proposal.replicas, proposal.limits), (4.0, [1000.0, 7.0, 7.0, 7.0, 7.0]));
        assert!(matches!(proposal.reasons[..], [ContainerReason::Pods(_), ..]));
    }

    #[test]
    fn its_state_is_saved() {
        let (mut one, mut other) = (hpa(), hpa());
        (1..10).for_each(|second| drop(one.propose(&seen(second, 3000.0))));
        let mut snapshot = Snapshot::default();
        one.save("rule", &mut snapshot);
        other.load("rule", &snapshot).unwrap();
        for second in 10..40 {
            assert_eq!(one.propose(&seen(second, 3000.0)), other.propose(&seen(second, 3000.0)));
        }
        let often = self::hpa().with_period("hpa-1s", SimDuration::from_secs(1)).unwrap();
        assert_eq!(Policy::name(&often), "hpa-1s");
        assert!(self::hpa().with_period("x", SimDuration::ZERO).is_err());
    }
}
