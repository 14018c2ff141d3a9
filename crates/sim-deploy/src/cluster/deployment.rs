//! The state of a Deployment: what is wanted, its pods, and what has been counted.

use homeostat_core::{SimTime, Slo, Stream};
use homeostat_decide::Allocation;
use homeostat_des::{Histogram, Samples};

use super::{DeploymentSetup, Queue};
use crate::{Application, Source};

#[derive(Debug)]
pub(super) struct Deployment {
    pub(super) application: Application,
    pub(super) slo: Slo,
    pub(super) wanted: Allocation,
    pub(super) source: Source,
    pub(super) needs: Stream,
    /// Pods, oldest first; those that are being deleted are among them until they are gone.
    pub(super) pods: Vec<u32>,
    /// Those that serve, in no order, and where the balancer's turn is.
    pub(super) ready: Vec<u32>,
    pub(super) turn: usize,
    pub(super) waiting: Queue,
    /// Whether an event is scheduled that gives up the oldest of them.
    pub(super) is_watched: bool,
    /// Requests in the system.
    pub(super) inside: u64,
    pub(super) counters: Counters,
    pub(super) totals: Totals,
    pub(super) window_began: SimTime,
    /// Until when the integrals of the counters are up to date.
    pub(super) counted_until: SimTime,
    /// Bytes of the limits of all pods with a node, and the number of these pods.
    pub(super) paid_bytes: u64,
    pub(super) paid_pods: u64,
}

/// What was counted in the open window.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) arrived: u64,
    pub(super) completed: u64,
    pub(super) timed_out: u64,
    pub(super) failed: u64,
    pub(super) slo_violations: u64,
    pub(super) started: u64,
    pub(super) oom_kills: u32,
    pub(super) evictions: u64,
    pub(super) latency: Samples,
    /// Core-nanoseconds of pods that are gone.
    pub(super) gone_cpu: f64,
    /// Integrals over nanoseconds: requests inside, pods, bytes.
    pub(super) request_time: f64,
    pub(super) pod_time: f64,
    pub(super) byte_time: f64,
}

/// What a Deployment has seen since it was added.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests given up while they waited.
    pub timed_out: u64,
    /// Requests lost with their pod.
    pub failed: u64,
    /// Requests beyond the SLO's threshold: late, given up or lost.
    pub slo_violations: u64,
    /// Pods started, restarts included.
    pub started: u64,
    /// Pods killed because they ran out of memory.
    pub oom_kills: u64,
    /// Pods evicted because their node ran out of memory.
    pub evictions: u64,
    /// Latencies; those of requests given up or lost are the longest of all.
    pub latency: Histogram,
    /// Core-seconds used.
    pub cpu_s: f64,
    /// Pod-seconds.
    pub pod_s: f64,
    /// GiB-seconds of memory limits.
    pub memory_gib_s: f64,
}

impl Deployment {
    pub(super) fn new(setup: DeploymentSetup, now: SimTime) -> Self {
        Self {
            application: setup.application,
            slo: setup.slo,
            wanted: setup.allocation,
            source: setup.source,
            needs: setup.needs,
            pods: Vec::new(),
            ready: Vec::new(),
            turn: 0,
            waiting: Queue::new(),
            is_watched: false,
            inside: 0,
            counters: Counters::default(),
            totals: Totals::default(),
            window_began: now,
            counted_until: now,
            paid_bytes: 0,
            paid_pods: 0,
        }
    }

    /// Brings the integrals up to date; call before requests or pods change.
    pub(super) fn count_time(&mut self, now: SimTime) {
        let elapsed = now.saturating_since(self.counted_until).nanos() as f64;
        self.counted_until = now;
        self.counters.request_time += elapsed * self.inside as f64;
        self.counters.pod_time += elapsed * self.paid_pods as f64;
        self.counters.byte_time += elapsed * self.paid_bytes as f64;
    }
}
