//! A virtual machine on some cores of a processor: requests share the cores, each on one core at most.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use homeostat_core::{SimDuration, SimTime, Stream};
use homeostat_decide::{CpuObservation, Kilohertz};
use homeostat_load::applications::Source;

use crate::{Processor, Workload};

/// A virtual machine that serves one application.
pub struct Machine {
    processor: Processor,
    cores: u32,
    workload: Workload,
    slo: SimDuration,
    frequency: Kilohertz,
    source: Source,
    next_arrival: Option<SimTime>,
    draws: Stream,
    now: SimTime,
    /// Work that every request inside has got since the beginning, in seconds of the reference core: with equal
    /// shares, requests leave in the order of the work at which they end.
    attained: f64,
    inside: BinaryHeap<Reverse<Request>>,
    totals: Totals,
    interval: Interval,
}

/// Counts since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that left.
    pub answered: u64,
    /// Requests whose latency was above the SLO.
    pub slo_violations: u64,
}

/// What happened since the last observation.
#[derive(Debug, Default)]
struct Interval {
    began: SimTime,
    busy_core_s: f64,
    work: f64,
    arrived: u64,
    latencies: Vec<f64>,
}

#[derive(Debug, PartialEq)]
struct Request {
    ends: f64,
    number: u64,
    arrived: SimTime,
    waits: SimDuration,
}

impl Eq for Request {}

impl PartialOrd for Request {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Request {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.ends.total_cmp(&other.ends).then(self.number.cmp(&other.number))
    }
}

impl Machine {
    /// An idle machine at the nominal frequency.
    pub fn new(
        processor: Processor,
        cores: u32,
        workload: Workload,
        slo: SimDuration,
        mut source: Source,
        draws: Stream,
    ) -> Self {
        Self {
            frequency: processor.base,
            next_arrival: source.next_arrival(),
            processor,
            cores,
            workload,
            slo,
            source,
            draws,
            now: SimTime::ZERO,
            attained: 0.0,
            inside: BinaryHeap::new(),
            totals: Totals::default(),
            interval: Interval::default(),
        }
    }

    /// Counts since the beginning.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Requests inside.
    pub fn inside(&self) -> usize {
        self.inside.len()
    }

    /// The processor.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    pub(crate) fn set_frequency(&mut self, frequency: Kilohertz) {
        self.frequency = frequency;
    }

    /// Goes on for this long, and returns what an agent on the node sees of it.
    pub(crate) fn advance(&mut self, by: SimDuration) -> CpuObservation {
        let until = self.now + by;
        let speed = self.workload.speed(&self.processor, self.frequency.gigahertz());
        loop {
            // The work of each request in a second.
            let share = (f64::from(self.cores) / self.inside.len().max(1) as f64).min(1.0);
            let rate = share * speed;
            let leaves = self.inside.peek().map(|Reverse(request)| {
                let seconds = (request.ends - self.attained).max(0.0) / rate;
                self.now + SimDuration::from_nanos((seconds * 1e9).ceil() as u64)
            });
            let arrives = self.next_arrival.filter(|at| *at < until);
            let leaves = leaves.filter(|at| *at < until);
            let at = match (arrives, leaves) {
                (None, None) => until,
                (arrives, leaves) => arrives.into_iter().chain(leaves).min().unwrap_or(until),
            };
            let seconds = at.seconds() - self.now.seconds();
            let busy = (self.inside.len() as f64).min(f64::from(self.cores)) * seconds;
            self.interval.busy_core_s += busy;
            self.interval.work += busy * speed;
            self.attained += rate * seconds;
            self.now = at;
            match (arrives, leaves) {
                (None, None) => break,
                (_, Some(leaves)) if leaves == at => self.leave(),
                _ => self.arrive(),
            }
        }
        self.observe()
    }

    fn arrive(&mut self) {
        let need = self.workload.application.draw(&mut self.draws);
        let number = self.totals.arrived;
        let request = Request {
            ends: self.attained + need.cpu.seconds(),
            number,
            arrived: self.now,
            waits: need.io,
        };
        self.inside.push(Reverse(request));
        self.totals.arrived += 1;
        self.interval.arrived += 1;
        self.next_arrival = self.source.next_arrival();
    }

    fn leave(&mut self) {
        let Some(Reverse(request)) = self.inside.pop() else { return };
        // Rounding of times must not leave work behind.
        self.attained = self.attained.max(request.ends);
        let latency = self.now.seconds() - request.arrived.seconds() + request.waits.seconds();
        self.totals.answered += 1;
        self.totals.slo_violations += u64::from(latency > self.slo.seconds());
        self.interval.latencies.push(latency);
    }

    fn observe(&mut self) -> CpuObservation {
        let mut interval = std::mem::take(&mut self.interval);
        self.interval.began = self.now;
        let seconds = (self.now.seconds() - interval.began.seconds()).max(1e-9);
        let cpu_usage = interval.busy_core_s / (f64::from(self.cores) * seconds);
        interval.latencies.sort_by(f64::total_cmp);
        let rank = (0.99 * interval.latencies.len() as f64).ceil() as usize;
        let latency = rank.checked_sub(1).map(|place| interval.latencies[place]);
        let preserved = |ratio: f64| ratio.min(1.0);
        let answered = interval.latencies.len() as f64;
        CpuObservation {
            now: self.now,
            frequency: self.frequency,
            instructions_per_s: interval.work * self.workload.instructions_per_cpu_s() / seconds,
            cpu_usage,
            latency_preservation: latency
                .map(|latency| preserved(self.slo.seconds() / latency.max(1e-9))),
            throughput_preservation: (interval.arrived > 0)
                .then(|| preserved(answered / interval.arrived as f64)),
            power_w: Some(self.processor.power_w(self.cores, self.frequency, cpu_usage)),
        }
    }
}
