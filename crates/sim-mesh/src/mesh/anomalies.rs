//! Injected anomalies: what each does to a replica, and its end.

use homeostat_anomalies::AnomalyKind;
use homeostat_core::SimDuration;
use homeostat_load::{Arrivals, LoadShape};

use super::requests::seconds;
use super::{CPU, DISK, Event, Mesh, NETWORK, ReplicaId};
use crate::anomaly::{
    DELAY_DEVIATION, FULL_DELAY_MS, FULL_LOAD, FULL_STREAMS, FULL_STRESS, stressed_resource,
};
use crate::delays::Delay;

/// An anomaly, numbered in the order of injections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnomalyId(u32);

/// What an anomaly does while it lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    kind: AnomalyKind,
    replica: u32,
    intensity: f64,
    /// What it wants of its resource, and as how many jobs.
    wants: (f64, f64),
    is_over: bool,
}

/// Requests beside those of the load.
#[derive(Debug, Clone)]
pub(super) struct Surge {
    anomaly: u32,
    kind: u32,
    arrivals: Arrivals,
    offset: SimDuration,
}

impl Mesh {
    /// Injects an anomaly into a replica for a time. Intensity lies between zero and one.
    /// Several may overlap, also of one type in one replica.
    pub fn inject(
        &mut self,
        kind: AnomalyKind,
        replica: ReplicaId,
        intensity: f64,
        length: SimDuration,
    ) -> crate::Result<AnomalyId> {
        if !(0.0..=1.0).contains(&intensity) {
            return Err(crate::Error::OutOfRange {
                key: "intensity".to_owned(),
                value: intensity.to_string(),
                expected: "it must be from 0 to 1".to_owned(),
            });
        }
        let number = replica.0;
        let lane_limit = |resource| self.lanes[Self::lane(number, resource)].limit();
        let this = &self.replicas[replica.number()];
        let over = FULL_STRESS * intensity;
        let streams = (FULL_STREAMS * intensity).max(1.0);
        let wants = match kind {
            AnomalyKind::Workload | AnomalyKind::NetworkDelay => (0.0, 0.0),
            // As many threads as the cores that they want.
            AnomalyKind::Cpu => (over * lane_limit(CPU), over * lane_limit(CPU)),
            AnomalyKind::Cache => (over * this.cache_limit, 1.0),
            AnomalyKind::MemoryBandwidth => (over * this.memory_limit, 1.0),
            AnomalyKind::Disk => (over * lane_limit(DISK), streams),
            AnomalyKind::NetworkBandwidth => (over * lane_limit(NETWORK), streams),
        };
        let id = AnomalyId(self.anomalies.len() as u32);
        self.anomalies.push(Active { kind, replica: number, intensity, wants, is_over: false });
        if kind == AnomalyKind::Workload {
            self.add_surges(id.0, intensity)?;
        }
        self.stress_again(number);
        self.events.schedule(self.now + length, Event::AnomalyEnd { anomaly: id.0 });
        Ok(id)
    }

    pub(super) fn end_anomaly(&mut self, anomaly: u32) {
        let this = &mut self.anomalies[anomaly as usize];
        this.is_over = true;
        let replica = this.replica;
        self.stress_again(replica);
    }

    /// Sums what all anomalies in a replica want.
    fn stress_again(&mut self, number: u32) {
        let mut wants = [(0.0, 0.0); 5];
        let mut delay_ms = 0.0;
        for active in self.anomalies.iter().filter(|a| a.replica == number && !a.is_over) {
            match stressed_resource(active.kind) {
                Some(resource) => {
                    let sum: &mut (f64, f64) = &mut wants[resource.index()];
                    *sum = (sum.0 + active.wants.0, sum.1 + active.wants.1);
                }
                None if active.kind == AnomalyKind::NetworkDelay => {
                    delay_ms += FULL_DELAY_MS * active.intensity;
                }
                None => {}
            }
        }
        let replica = &mut self.replicas[number as usize];
        if replica.phase == super::replicas::Phase::Gone {
            return;
        }
        replica.memory_stress = wants[1].0;
        replica.cache_stress = wants[2].0;
        replica.delay = (delay_ms > 0.0)
            .then_some(Delay { mean_ms: delay_ms, deviation_ms: DELAY_DEVIATION * delay_ms });
        for (lane, (wanted, jobs)) in [(CPU, wants[0]), (DISK, wants[3]), (NETWORK, wants[4])] {
            let lane = Self::lane(number, lane);
            self.lanes[lane].advance(self.now);
            self.lanes[lane].set_stress(wanted, jobs);
            self.after_change(lane);
        }
    }

    /// More requests of every type that needs the service.
    fn add_surges(&mut self, anomaly: u32, intensity: f64) -> crate::Result<()> {
        let service = self.replicas[self.anomalies[anomaly as usize].replica as usize].service;
        for kind in 0..self.setup.topology.requests.len() {
            let rate = self.arrivals[kind].rate_per_second() * (FULL_LOAD - 1.0) * intensity;
            let visits = self.setup.topology.requests[kind].visits[service as usize];
            if visits == 0.0 || rate <= 0.0 {
                continue;
            }
            let seed = self.operations.next_u64();
            let rng = homeostat_core::Stream::from_seed(seed);
            let arrivals = Arrivals::new(&LoadShape::Poisson { per_second: rate }, rng)?;
            let offset = self.now.saturating_since(homeostat_core::SimTime::ZERO);
            let surge = self.surges.len() as u32;
            self.surges.push(Surge { anomaly, kind: kind as u32, arrivals, offset });
            self.schedule_surge(surge);
        }
        Ok(())
    }

    fn schedule_surge(&mut self, number: u32) {
        let surge = &mut self.surges[number as usize];
        if let Some(at) = surge.arrivals.next_arrival() {
            self.events.schedule(at + surge.offset, Event::Surge { surge: number });
        }
    }

    pub(super) fn surge(&mut self, number: u32) {
        let Surge { anomaly, kind, .. } = self.surges[number as usize];
        if !self.anomalies[anomaly as usize].is_over {
            self.begin_request(kind);
            self.schedule_surge(number);
        }
    }

    /// Whether an anomaly still lasts.
    pub fn is_active(&self, anomaly: AnomalyId) -> bool {
        self.anomalies.get(anomaly.0 as usize).is_some_and(|anomaly| !anomaly.is_over)
    }

    /// Plays for so many seconds.
    pub fn run_for(&mut self, length_s: f64) {
        self.run_until(self.now + seconds(length_s));
    }
}
