//! What is measured, how long, and on which clock.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use homeostat_testbed::Load;
use serde::Serialize;

use crate::arm::Arm;

/// CPU work of a request on an idle core.
pub(crate) const WORK_MILLISECONDS: u64 = 10;
/// The SLO: 99 of 100 requests within this time. It is 25 times the work of a request:
/// room for some queueing and for two or three periods of the kernel's CPU quota (100 ms each),
/// which is what a pod that is full makes its requests wait for, but not for a queue that grows.
pub(crate) const THRESHOLD_MILLISECONDS: u64 = 250;
/// The mean load, in requests a second: 0.3 cores. The highest peak, that of the spike, is 0.65
/// cores, so that a machine of two cores carries pods, cluster and generator without being the
/// limit itself.
pub(crate) const MEAN_RATE: f64 = 30.0;
/// Initial and minimum number of pods: two, as for services that survive the loss of a node.
pub(crate) const MIN_REPLICAS: u32 = 2;
/// Pods at most: with VPA's size at the mean load this many fit on two cores.
pub(crate) const MAX_REPLICAS: u32 = 8;

/// Compares the stock HPA with ours under the same load on one real node.
///
/// Every load is run under every arm, several times. The stock HPA runs with three targets of CPU
/// use; `hpa` is the best of them: fewest SLO violations, then fewest core-seconds. Every arm starts from
/// the same requests, which VPA's rule gives at the mean load, and gets the same requests at the
/// same times.
#[derive(Parser, Debug)]
#[command(name = "tests/cluster/bench")]
pub(crate) struct Arguments {
    /// How often each load is run under each arm.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Loads, with commas between.
    #[arg(long, value_delimiter = ',', default_value = "step,ramp,spike")]
    pub(crate) loads: Vec<LoadName>,
    /// Arms, with commas between.
    #[arg(long, value_delimiter = ',', default_value = "hpa50,hpa60,hpa70,ours")]
    pub(crate) arms: Vec<Arm>,
    /// The policy file of the arm `policy`, such as runs/NAME/policies/agent-0.policy. Without one,
    /// tests/cluster/bench trains simppo+ on three functions (seconds) and keeps the file for the
    /// next time.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Pods without a CPU limit, under every arm: they may use idle CPU, as containers do in the
    /// simulation that policies are trained in. Otherwise limits equal requests.
    #[arg(long)]
    pub(crate) no_cpu_limits: bool,
    /// What is printed.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    /// Stock timings (a look every 15 s, 300 s of stabilisation) and loads of 15 minutes.
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Seconds of a load; 60, or 900 with --real-time.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Seconds that both wait before they scale in; 20, or 300 with --real-time.
    #[arg(long)]
    pub(crate) stabilization: Option<u32>,
    /// Seed of the arrivals of the first run; each further run has the next one.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// An empty directory for the servers' data and logs, which is kept. Without one, all is gone in
    /// the end.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
    /// Directory of Kubernetes' binaries.
    #[arg(long, value_name = "FOLDER", env = "HOMEOSTAT_TEST_KUBERNETES")]
    pub(crate) kubernetes: PathBuf,
    /// The operator's program.
    #[arg(long, value_name = "FILE")]
    pub(crate) operator: PathBuf,
}

/// What is printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Aligned columns.
    Table,
    /// Every number of every run.
    Json,
}

/// The loads.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LoadName {
    /// Two and a half times the load at once, and back after nearly half of the time.
    Step,
    /// Slowly up to four times the load, and faster down again.
    Ramp,
    /// Nearly three times the load for a seventh of the time.
    Spike,
}

impl LoadName {
    /// The load, and when its first change is.
    pub(crate) fn load(self, seconds: f64) -> (Load, f64) {
        let (points, change) = match self {
            Self::Step => {
                let jumps = [(0.0, 0.6), (0.1, 0.6), (0.1, 1.5), (0.55, 1.5), (0.55, 0.6)];
                ([&jumps[..], &[(1.0, 0.6)]].concat(), 0.1)
            }
            Self::Ramp => (vec![(0.0, 0.4), (0.6, 1.7), (1.0, 0.6)], 0.0),
            Self::Spike => {
                let jumps = [(0.0, 0.8), (0.25, 0.8), (0.25, 2.2), (0.4, 2.2), (0.4, 0.8)];
                ([&jumps[..], &[(1.0, 0.8)]].concat(), 0.25)
            }
        };
        (Load::new(points).scaled(MEAN_RATE, seconds), change * seconds)
    }
}

/// The clock that both autoscalers run on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    /// Whether these are the stock timings.
    pub(crate) is_real_time: bool,
    /// Of a load.
    pub(crate) seconds: f64,
    /// At the load's first rate, before anything counts.
    pub(crate) warm_up_s: f64,
    /// Both look this often.
    pub(crate) sync_s: u64,
    /// Both wait this long before they scale in.
    pub(crate) stabilization_s: u32,
    /// The stock HPA's cpu-initialization-period. Ours has no such flag and stays at 300 s.
    pub(crate) hpa_cpu_initialization_s: u32,
    /// The stock HPA's initial-readiness-delay. Ours has no such flag and stays at 30 s.
    pub(crate) hpa_readiness_delay_s: u32,
    /// Whether pods are limited to what they request.
    pub(crate) has_cpu_limits: bool,
    /// Range of the SLO's query.
    pub(crate) query_range_s: u32,
    #[serde(skip)]
    pub(crate) metrics_interval: Duration,
    #[serde(skip)]
    pub(crate) scrape_interval: Duration,
    pub(crate) min_replicas: u32,
    pub(crate) max_replicas: u32,
    pub(crate) work_ms: u64,
    pub(crate) threshold_ms: u64,
    pub(crate) mean_rate: f64,
    pub(crate) seed: u64,
}

impl Settings {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let real = arguments.real_time;
        // A third of the stock period: the metrics are as old in proportion.
        let sync_s = if real { 15 } else { 5 };
        Self {
            is_real_time: real,
            seconds: arguments.seconds.unwrap_or(if real { 900.0 } else { 60.0 }),
            warm_up_s: if real { 60.0 } else { 12.0 },
            sync_s,
            stabilization_s: arguments.stabilization.unwrap_or(if real { 300 } else { 20 }),
            hpa_cpu_initialization_s: if real { 300 } else { 60 },
            hpa_readiness_delay_s: if real { 30 } else { 6 },
            has_cpu_limits: !arguments.no_cpu_limits,
            query_range_s: if real { 60 } else { 15 },
            metrics_interval: Duration::from_secs(sync_s),
            scrape_interval: Duration::from_secs(if real { 5 } else { 1 }),
            min_replicas: MIN_REPLICAS,
            max_replicas: MAX_REPLICAS,
            work_ms: WORK_MILLISECONDS,
            threshold_ms: THRESHOLD_MILLISECONDS,
            mean_rate: MEAN_RATE,
            seed: arguments.seed,
        }
    }

    pub(crate) fn controller_manager_arguments(&self) -> Vec<String> {
        let flag =
            |name: &str, seconds: u64| format!("--horizontal-pod-autoscaler-{name}={seconds}s");
        vec![
            flag("sync-period", self.sync_s),
            flag("downscale-stabilization", self.stabilization_s.into()),
            flag("cpu-initialization-period", self.hpa_cpu_initialization_s.into()),
            flag("initial-readiness-delay", self.hpa_readiness_delay_s.into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_the_same_mean_and_fits_on_the_machine() {
        for name in [LoadName::Step, LoadName::Ramp, LoadName::Spike] {
            let (load, change) = name.load(60.0);
            assert!((load.mean() - MEAN_RATE).abs() < 1e-9, "{name:?}");
            let cores = load.peak() * WORK_MILLISECONDS as f64 / 1e3;
            assert!(cores < 1.1, "{name:?} needs {cores} cores");
            assert!(change < load.seconds());
        }
    }
}
