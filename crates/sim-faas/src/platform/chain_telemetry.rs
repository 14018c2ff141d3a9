//! What can be seen of a chain from end to end: windows and totals.

use homeostat_core::{Fraction, SimDuration, SimTime, Slo};
use homeostat_des::Histogram;

use super::Platform;
use super::chains::{Chain, ChainId, Journey};

/// One closed window of one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainWindow {
    /// Length of the window.
    pub length: SimDuration,
    /// The SLO.
    pub slo: Slo,
    /// Latency at the SLO's percentile when the chain runs alone.
    pub isolated_latency: SimDuration,
    /// End-to-end latency at the SLO's percentile; requests that are late already count
    /// with their age, lost ones as never answered. Nothing without requests.
    pub latency: Option<SimDuration>,
    /// The same at the median.
    pub median: Option<SimDuration>,
    /// Requests that came.
    pub arrived: u64,
    /// Requests answered by every stage.
    pub completed: u64,
    /// Requests that violated the SLO: late or lost.
    pub slo_violations: u64,
    /// Requests of which a stage's invocation was given up or lost.
    pub lost: u64,
}

/// What a chain has seen since it was added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChainTotals {
    /// Requests that came.
    pub arrived: u64,
    /// Requests answered by every stage, however late.
    pub completed: u64,
    /// Requests that violated the SLO: late or lost.
    pub slo_violations: u64,
    /// Requests of which a stage's invocation was given up or lost.
    pub lost: u64,
    /// Requests inside that are late already; counted at the end of a run only.
    pub unsettled: u64,
    /// End-to-end latency of settled requests. Lost ones were never answered: they have one
    /// timeout for each stage of the longest way, or ten times the SLO where that is
    /// longer.
    pub latency: Histogram,
}

impl ChainTotals {
    /// Requests that were answered too late, or are late already.
    pub fn late(&self) -> u64 {
        self.slo_violations - self.lost
    }

    /// Requests that are settled, or inside and late already.
    pub fn judged(&self) -> u64 {
        self.completed + self.lost + self.unsettled
    }

    /// Fraction of them that violated the SLO.
    pub fn slo_violation_ratio(&self) -> f64 {
        self.slo_violations as f64 / self.judged().max(1) as f64
    }

    fn add(&mut self, window: &ChainCounters) {
        self.arrived += window.arrived;
        self.completed += window.completed;
        self.slo_violations += window.slo_violations;
        self.lost += window.lost;
        self.latency.merge(&window.latency);
    }
}

/// What is counted in a window of a chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChainCounters {
    pub(crate) arrived: u64,
    pub(crate) completed: u64,
    pub(crate) slo_violations: u64,
    pub(crate) lost: u64,
    pub(crate) latency: Histogram,
}

impl Platform {
    /// Ends a chain's window, reports it and begins the next.
    pub fn close_chain_window(&mut self, id: ChainId) -> ChainWindow {
        self.give_up_old_stages(id.0);
        let now = self.now;
        let chain = &mut self.chains[id.0];
        let mut counters = std::mem::take(&mut chain.window);
        chain.totals.add(&counters);
        for age in late_ages(chain, now) {
            counters.latency.record(age);
        }
        let window = ChainWindow {
            length: now.saturating_since(chain.window_began),
            slo: chain.slo,
            isolated_latency: chain.isolated_latency,
            latency: counters.latency.quantile(chain.slo.percentile()),
            median: counters.latency.quantile(Fraction::from_percent(50)),
            arrived: counters.arrived,
            completed: counters.completed,
            slo_violations: counters.slo_violations,
            lost: counters.lost,
        };
        counters.latency.clear();
        chain.window = ChainCounters { latency: counters.latency, ..ChainCounters::default() };
        chain.window_began = now;
        window
    }

    /// Everything a chain has seen, the open window included.
    pub fn chain_totals(&mut self, id: ChainId) -> ChainTotals {
        self.give_up_old_stages(id.0);
        let chain = &self.chains[id.0];
        let mut totals = chain.totals.clone();
        totals.add(&chain.window);
        totals
    }

    /// Everything a chain has seen at the end of a run: requests inside that are late already
    /// have violated the SLO, whatever becomes of them.
    pub fn final_chain_totals(&mut self, id: ChainId) -> ChainTotals {
        let mut totals = self.chain_totals(id);
        for age in late_ages(&self.chains[id.0], self.now) {
            totals.slo_violations += 1;
            totals.unsettled += 1;
            totals.latency.record(age);
        }
        totals
    }

    /// Requests of a chain that are on their way.
    pub fn inside_chain(&self, id: ChainId) -> u64 {
        under_way(&self.chains[id.0]).count() as u64
    }
}

/// Requests that may still be answered.
fn under_way(chain: &Chain) -> impl Iterator<Item = &Journey> {
    chain.journeys.iter().filter(|journey| journey.under_way > 0 && !journey.is_lost)
}

/// Ages of those beyond the SLO's threshold.
fn late_ages(chain: &Chain, now: SimTime) -> impl Iterator<Item = SimDuration> {
    let threshold = chain.slo.threshold();
    let ages = under_way(chain).map(move |journey| now.saturating_since(journey.arrived));
    ages.filter(move |age| *age > threshold)
}
