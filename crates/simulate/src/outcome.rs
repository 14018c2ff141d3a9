//! The figures of a simulation.

use homeostat_core::{Fraction, SimDuration};
use homeostat_decide::{Features, SimulatedPlant};
use serde::{Deserialize, Serialize};

/// One simulated run of one seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SimulationOutcome {
    /// The seed.
    pub seed: u64,
    /// Simulated seconds.
    pub duration_s: f64,
    /// All functions together.
    pub total: Figures,
    /// CPU time used over the cores of the cluster.
    pub node_use: f64,
    /// Proposals that were no numbers and were refused.
    pub refused: u64,
    /// Decisions that the nodes had no room for, or not for all of.
    pub ungranted: u64,
    /// Each function.
    pub functions: Vec<FunctionOutcome>,
}

impl SimulationOutcome {
    /// Functions that had requests and never a container.
    pub fn functions_without_room(&self) -> usize {
        let is_without = |function: &&FunctionOutcome| {
            function.figures.requests > 0 && function.figures.container_s == 0.0
        };
        self.functions.iter().filter(is_without).count()
    }
}

/// One function of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionOutcome {
    /// Its number on the platform.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its SLO in milliseconds.
    pub slo_ms: f64,
    /// Its figures.
    pub figures: Figures,
    /// Latencies in milliseconds at [`QUANTILES`], to draw their distribution.
    pub latency_ms: Vec<f64>,
}

/// The parts at which latencies are kept.
pub const QUANTILES: [f64; 15] =
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The figures that policies are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Requests that were answered, given up or lost, or were late already at the end.
    pub requests: u64,
    /// Fraction of them that violated the SLO, 0 to 1.
    pub slo_violation_ratio: f64,
    /// 99th percentile of the latency in milliseconds; of several functions, none.
    pub p99_ms: Option<f64>,
    /// The same over the SLO; of several functions, the geometric mean.
    pub p99_over_slo: f64,
    /// Mean SLO preservation over windows, as monitoring saw it.
    pub preservation: f64,
    /// Mean utilisation of the CPU given, as monitoring saw it.
    pub cpu_utilisation: f64,
    /// Mean utilisation of the memory limit, as monitoring saw it.
    pub memory_utilisation: f64,
    /// Mean reward of a window by the plan's preset, without penalties.
    pub reward: f64,
    /// Core-seconds used.
    pub cpu_s: f64,
    /// Container-seconds.
    pub container_s: f64,
    /// GiB-seconds of memory set aside.
    pub memory_gib_s: f64,
    /// Containers started.
    pub cold_starts: u64,
    /// Out-of-memory kills of containers.
    pub oom_kills: u64,
}

/// Means over the windows of one function.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowMeans {
    count: f64,
    sums: [f64; 4],
}

impl WindowMeans {
    pub(crate) fn add(&mut self, features: &[f32; Features::COUNT], reward: f64) {
        self.count += 1.0;
        let values = [features[0], features[1], features[2]].map(f64::from);
        let [preservation, cpu, memory] = values;
        for (sum, value) in self.sums.iter_mut().zip([preservation, cpu, memory, reward]) {
            *sum += value;
        }
    }

    fn means(&self) -> [f64; 4] {
        self.sums.map(|sum| sum / self.count.max(1.0))
    }
}

impl FunctionOutcome {
    pub(crate) fn new(
        number: usize,
        plant: &mut dyn SimulatedPlant,
        target: usize,
        windows: &WindowMeans,
    ) -> Self {
        let parts = QUANTILES.map(|part| Fraction::from_ratio(part).expect("parts lie in 0 to 1"));
        let totals = plant.totals(target, &parts);
        let ms = |latency: SimDuration| latency.seconds() * 1e3;
        let slo_ms = ms(totals.slo.threshold());
        let p99_ms = totals.slo_latency.map(ms);
        let [preservation, cpu_utilisation, memory_utilisation, reward] = windows.means();
        Self {
            number,
            name: plant.name(target).to_owned(),
            slo_ms,
            figures: Figures {
                requests: totals.requests,
                slo_violation_ratio: totals.slo_violations as f64 / totals.requests.max(1) as f64,
                p99_ms,
                p99_over_slo: p99_ms.unwrap_or(0.0) / slo_ms,
                preservation,
                cpu_utilisation,
                memory_utilisation,
                reward,
                cpu_s: totals.cpu_s,
                container_s: totals.container_s,
                memory_gib_s: totals.memory_gib_s,
                cold_starts: totals.cold_starts,
                oom_kills: totals.oom_kills,
            },
            latency_ms: totals.latency.iter().map(|latency| latency.map_or(0.0, ms)).collect(),
        }
    }
}

impl Figures {
    /// [`Figures::slo_violation_ratio`] in percent, for tables that people read.
    pub fn slo_violation_pct(&self) -> f64 {
        100.0 * self.slo_violation_ratio
    }

    /// All functions together: sums, means over functions, and SLO violations over requests.
    pub(crate) fn together(functions: &[FunctionOutcome]) -> Self {
        let count = functions.len().max(1) as f64;
        let all = || functions.iter().map(|function| &function.figures);
        let mean = |figure: fn(&Self) -> f64| all().map(figure).sum::<f64>() / count;
        let sum = |figure: fn(&Self) -> f64| all().map(figure).sum::<f64>();
        let requests: u64 = all().map(|figures| figures.requests).sum();
        let violations = sum(|figures| figures.slo_violation_ratio * figures.requests as f64);
        let served: Vec<f64> =
            all().map(|figures| figures.p99_over_slo).filter(|over| *over > 0.0).collect();
        let logs: f64 = served.iter().map(|over| over.ln()).sum();
        Self {
            requests,
            slo_violation_ratio: violations / requests.max(1) as f64,
            p99_ms: None,
            p99_over_slo: if served.is_empty() { 0.0 } else { (logs / served.len() as f64).exp() },
            preservation: mean(|figures| figures.preservation),
            cpu_utilisation: mean(|figures| figures.cpu_utilisation),
            memory_utilisation: mean(|figures| figures.memory_utilisation),
            reward: mean(|figures| figures.reward),
            cpu_s: sum(|figures| figures.cpu_s),
            container_s: sum(|figures| figures.container_s),
            memory_gib_s: sum(|figures| figures.memory_gib_s),
            cold_starts: all().map(|figures| figures.cold_starts).sum(),
            oom_kills: all().map(|figures| figures.oom_kills).sum(),
        }
    }
}
