//! The autoscaler itself: a history, a range, and a change when it is worth it.

use homeostat_core::{
    Bytes, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot,
};

use super::estimator::{Range, cpu_range, memory_range};
use super::updater::{explain_cpu, explain_memory, update};
use super::usage_history::{UsageHistory, VpaCheckpoint};
use crate::{Allocation, Error, Observation, Policy, Proposal, Reason, ReplicaSample, Result};

const DAY: SimDuration = SimDuration::from_secs(24 * 3600);

/// Settings of [`Vpa`], with Kubernetes' defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VpaConfig {
    /// Part of the use that the target covers.
    pub target_percentile: Fraction,
    /// Part of the use that the lower bound covers.
    pub lower_percentile: Fraction,
    /// Part of the use that the upper bound covers.
    pub upper_percentile: Fraction,
    /// Added to every percentile.
    pub safety_margin: Fraction,
    /// Least CPU of a replica, split evenly over its containers.
    pub pod_minimum_cpu: Millicores,
    /// Least memory of a replica, split evenly over its containers.
    pub pod_minimum_memory: Bytes,
    /// Containers of a replica, of which the allocation is one.
    pub containers: u32,
    /// Whether it sizes CPU. Beside a horizontal autoscaler on CPU it should not:
    /// `controlledResources: [memory]` in Kubernetes.
    pub controls_cpu: bool,
    /// Time in which a sample loses half its weight.
    pub half_life: SimDuration,
    /// Length of a memory window, of which only the peak counts.
    pub memory_interval: SimDuration,
    /// A target unseen for this many memory windows is forgotten.
    pub memory_intervals: u32,
    /// History that makes a confidence of one.
    pub confidence_day: SimDuration,
    /// Samples that make a confidence of one: one a minute.
    pub confidence_samples: f64,
    /// After a kill, this many times the memory used.
    pub oom_bump_ratio: Fraction,
    /// After a kill, at least this much more than the memory used.
    pub oom_least_bump: Bytes,
    /// For this long after a kill any distance from the target is worth a change. Zero for the
    /// look that tells of it alone, which does where all replicas change at once.
    pub oom_memory: SimDuration,
    /// Replicas of this age may be changed though their requests are inside the range.
    pub lifetime: SimDuration,
    /// Such a change is at least this large, relative to the requests.
    pub change_threshold: Fraction,
}

impl Default for VpaConfig {
    fn default() -> Self {
        Self {
            target_percentile: Fraction::from_percent(90),
            lower_percentile: Fraction::from_percent(50),
            upper_percentile: Fraction::from_percent(95),
            safety_margin: Fraction::from_percent(15),
            pod_minimum_cpu: Millicores::new(25),
            pod_minimum_memory: Bytes::from_mib(250),
            containers: 1,
            controls_cpu: true,
            half_life: DAY,
            memory_interval: DAY,
            memory_intervals: 8,
            confidence_day: DAY,
            confidence_samples: 1440.0,
            oom_bump_ratio: Fraction::from_percent(120),
            oom_least_bump: Bytes::from_mib(100),
            oom_memory: SimDuration::ZERO,
            lifetime: SimDuration::from_secs(12 * 3600),
            change_threshold: Fraction::from_percent(10),
        }
    }
}

impl VpaConfig {
    /// Kubernetes' defaults on a clock that runs `factor` times as fast, for simulations that last
    /// minutes: at 1440 a day of history is a minute. The half-life, the memory windows, the
    /// lifetime, and the history and samples of full confidence are divided; percentiles,
    /// margins and minima stay.
    pub fn scaled(factor: f64) -> Result<Self> {
        Error::unless_positive("clock factor", factor)?;
        let default = Self::default();
        let faster = |duration: SimDuration| {
            SimDuration::from_seconds(duration.seconds() / factor)
                .map_err(|_| Error::setting("clock factor", "large enough for a clock", factor))
        };
        Ok(Self {
            half_life: faster(default.half_life)?,
            memory_interval: faster(default.memory_interval)?,
            confidence_day: faster(default.confidence_day)?,
            confidence_samples: default.confidence_samples / factor,
            lifetime: faster(default.lifetime)?,
            ..default
        })
    }

    /// Refuses settings that cannot describe a range.
    pub fn build(self) -> Result<Vpa> {
        let (lower, target, upper) =
            (self.lower_percentile, self.target_percentile, self.upper_percentile);
        if !(lower <= target && target <= upper && upper <= Fraction::ONE) {
            let value = format!("{lower}, {target}, {upper}");
            let need = "lower, target, upper in rising order up to 100%";
            return Err(Error::setting("percentiles", need, value));
        }
        if self.containers == 0 {
            return Err(Error::setting("containers", "at least 1", 0));
        }
        if self.memory_intervals == 0 {
            return Err(Error::setting("memory_intervals", "at least 1", 0));
        }
        for (setting, duration) in
            [("memory_interval", self.memory_interval), ("confidence_day", self.confidence_day)]
        {
            if duration == SimDuration::ZERO {
                return Err(Error::setting(setting, "above 0", duration));
            }
        }
        Error::unless_positive("confidence_samples", self.confidence_samples)?;
        if self.oom_bump_ratio < Fraction::ONE {
            return Err(Error::setting("oom_bump_ratio", "at least 100%", self.oom_bump_ratio));
        }
        Ok(Vpa { history: UsageHistory::new(&self)?, killed: None, config: self })
    }
}

/// The vertical pod autoscaler. It changes what each replica is given and never how many
/// there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Vpa {
    config: VpaConfig,
    history: UsageHistory,
    /// The last kills: when, and how many.
    killed: Option<(SimTime, u32)>,
}

impl Vpa {
    /// How far the history is trusted: 1 after a day with a sample each minute.
    pub fn confidence(&self) -> f64 {
        self.history.confidence(&self.config)
    }

    /// Takes in an observation without proposing anything.
    pub(in crate::policies) fn observe(&mut self, obs: &Observation) {
        let Observation { now, allocation, oom_kills, .. } = *obs;
        self.observe_use(now, &allocation, oom_kills, &obs.replicas);
    }

    /// Takes in what replicas used without proposing anything: of a container among several,
    /// say, whose pod is decided on as a whole.
    pub fn observe_use(
        &mut self,
        now: SimTime,
        allocation: &Allocation,
        oom_kills: u32,
        replicas: &[ReplicaSample],
    ) {
        if oom_kills > 0 {
            self.killed = Some((now, oom_kills));
        }
        self.history.observe(&self.config, now, allocation, oom_kills, replicas);
    }

    /// Cores and bytes that the history asks for; none of what it does not know.
    pub fn need(&self) -> (Option<f64>, Option<f64>) {
        let cpu = cpu_range(&self.config, &self.history);
        let memory = memory_range(&self.config, &self.history);
        (cpu.map(|range| range.target), memory.map(|range| range.target))
    }

    /// Whether a request of CPU, and one of memory, lie outside of what the history leaves alone.
    pub fn is_outside(&self, cpu: Millicores, memory: Bytes) -> (bool, bool) {
        let is_outside = |range: Option<Range>, request: f64| {
            range.is_some_and(|range| !range.contains(request))
        };
        (
            is_outside(cpu_range(&self.config, &self.history), cpu.cores()),
            is_outside(memory_range(&self.config, &self.history), memory.bytes() as f64),
        )
    }

    /// The range of CPU that one replica uses, by its history and without a margin.
    pub(in crate::policies) fn cpu_use(&self) -> Option<Range> {
        let without_margin = VpaConfig { safety_margin: Fraction::ZERO, ..self.config };
        cpu_range(&without_margin, &self.history)
    }

    /// The memory that a replica should have, in bytes: its target if what it has is not worth
    /// keeping, and why. After a kill that is no less than it has. Kubernetes goes to the target
    /// all the same, and if most replicas need little, the one that needed more makes all smaller.
    pub(in crate::policies) fn memory_target(&self, obs: &Observation) -> (f64, Vec<Reason>) {
        let present = obs.allocation.memory.bytes() as f64;
        let Some(range) = memory_range(&self.config, &self.history) else {
            return (present, vec![Reason::TelemetryMissing { figure: "memory use" }]);
        };
        let kills = self.kills_lately(obs.now);
        let (is_worth_it, why) = update(&self.config, obs, kills, None, Some(&range));
        let mut reasons = vec![explain_memory(&range, obs.allocation.memory)];
        reasons.extend(why);
        let target = if is_worth_it { range.target } else { present };
        (if kills > 0 { target.max(present) } else { target }, reasons)
    }

    /// Recent out-of-memory kills.
    pub fn kills_lately(&self, now: SimTime) -> u32 {
        let lately = self.killed.filter(|(at, _)| now <= *at + self.config.oom_memory);
        lately.map_or(0, |(_, kills)| kills)
    }

    /// The history in Kubernetes' lossy form. Exact state goes through [`Persist`].
    pub fn checkpoint(&self) -> VpaCheckpoint {
        self.history.checkpoint()
    }

    /// Goes on from a checkpoint, for example one that a cluster's autoscaler wrote. On an
    /// error nothing changes.
    pub fn restore_checkpoint(&mut self, checkpoint: &VpaCheckpoint) -> Result<()> {
        self.history.restore_checkpoint(checkpoint)
    }
}

impl Policy for Vpa {
    fn name(&self) -> &str {
        "vpa"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        self.observe(obs);
        let controls_cpu = self.config.controls_cpu;
        let cpu = cpu_range(&self.config, &self.history).filter(|_| controls_cpu);
        let memory = memory_range(&self.config, &self.history);
        let mut proposal = Proposal::keep(&obs.allocation);
        if cpu.is_none() && memory.is_none() {
            return proposal.because(Reason::TelemetryMissing { figure: "CPU or memory use" });
        }
        proposal.reasons.extend(cpu.as_ref().map(|range| explain_cpu(range, obs.allocation.cpu)));
        proposal
            .reasons
            .extend(memory.as_ref().map(|range| explain_memory(range, obs.allocation.memory)));
        let kills = self.kills_lately(obs.now);
        let (is_worth_it, reasons) =
            update(&self.config, obs, kills, cpu.as_ref(), memory.as_ref());
        proposal.reasons.extend(reasons);
        if is_worth_it {
            proposal.cpu_cores = cpu.map_or(proposal.cpu_cores, |range| range.target);
            proposal.memory_bytes = memory.map_or(proposal.memory_bytes, |range| range.target);
        }
        proposal
    }
}

impl Persist for Vpa {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.history.save(name, out);
        let killed = self.killed.map(|(at, kills)| [at.nanos(), u64::from(kills)]);
        out.put_u64(&format!("{name}/killed"), killed.into_iter().flatten().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.history.load(name, from)?;
        self.killed = match *from.any_u64s(&format!("{name}/killed"))? {
            [at, kills] => {
                Some((SimTime::from_nanos(at), u32::try_from(kills).unwrap_or(u32::MAX)))
            }
            _ => None,
        };
        Ok(())
    }
}
