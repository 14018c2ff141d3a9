//! Settings, and the plan made of them.

use homeostat_core::{SeedTree, SimDuration};
use homeostat_load::LoadShape;
use homeostat_load::applications::{Application, Change, Half, Source};
use homeostat_load::traffic::TrafficModel;
use serde::{Deserialize, Serialize};

use crate::{Error, Machine, Processor, Result, Workload};

/// The settings; `default.toml` says what they mean.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml describes each setting beside its default")]
pub struct NodeConfig {
    pub processor: String,
    pub cores: u32,
    pub application: String,
    pub change: Change,
    pub load: NodeLoad,
    pub demand: f64,
    pub slo_over_isolated: f64,
    pub levels: usize,
    pub reward: FrequencyReward,
    pub power_weight: f64,
    pub alpha: f64,
    pub steps: u32,
}

/// The load of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeLoad {
    /// Rhythms of Azure functions with more than 100 000 requests a day.
    AzureHigh,
    /// Rhythms of Azure functions with fewer.
    AzureLow,
    /// A constant rate.
    Poisson,
}

/// What an agent is rewarded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrequencyReward {
    /// The preservation ratio of the SLO less the weighted extra power of the frequency.
    Power,
    /// Table A.4: the relative gain of instructions per second when the frequency was raised, and the preservation
    /// ratio. It has no term for power: lowering the frequency and raising it again pays.
    Paper,
}

/// Settings that have been checked, and what follows from them.
#[derive(Debug, Clone)]
pub struct NodePlan {
    pub(crate) config: NodeConfig,
    processor: Processor,
    workload: Workload,
    slo: SimDuration,
    traffic: TrafficModel,
}

impl Default for NodeConfig {
    fn default() -> Self {
        #[derive(Deserialize)]
        struct Reference {
            cpufreq: NodeConfig,
        }
        let reference: Reference =
            toml::from_str(include_str!("default.toml")).expect("a test reads it");
        reference.cpufreq
    }
}

impl NodeConfig {
    /// Checks the settings and makes a plan of them.
    pub fn build(&self) -> Result<NodePlan> {
        self.validate()?;
        let mut application = Application::parse(&self.application)?;
        if let Some(payload) = self.change.payload() {
            application = application.with_change(payload);
        }
        let isolated = isolated_p99(&application);
        Ok(NodePlan {
            processor: Processor::by_name(&self.processor)?,
            workload: Workload::new(application),
            slo: SimDuration::from_nanos((isolated * self.slo_over_isolated * 1e9) as u64),
            traffic: TrafficModel::azure_2019(),
            config: self.clone(),
        })
    }

    fn validate(&self) -> Result<()> {
        let within = |key: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::OutOfRange {
                key: format!("cpufreq.{key}"),
                value: value.to_string(),
                expected: format!("from {low} to {high}"),
            })
        };
        let processor = Processor::by_name(&self.processor)?;
        within("cores", self.cores.into(), 1.0, processor.cores.into())?;
        within("demand", self.demand, 0.001, 10.0)?;
        within("slo_over_isolated", self.slo_over_isolated, 0.1, 1000.0)?;
        within("levels", self.levels as f64, 2.0, 100.0)?;
        within("power_weight", self.power_weight, 0.0, 100.0)?;
        within("alpha", self.alpha, 0.0, 1.0)?;
        within("steps", self.steps.into(), 1.0, 1e6)
    }
}

impl NodePlan {
    /// The workload of the machine.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The processor of the machine.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// The SLO: most that the 99th percentile of latency may be.
    pub fn slo(&self) -> SimDuration {
        self.slo
    }

    pub(crate) fn machine(&self, seeds: &SeedTree) -> Machine {
        let mean = self.workload.application.mean_cpu().seconds();
        let per_second = self.config.demand * f64::from(self.config.cores) / mean;
        let seeds_of_load = seeds.child("load");
        let source = match self.config.load {
            NodeLoad::AzureHigh => {
                Source::azure(&self.traffic, Half::High, per_second, &seeds_of_load)
            }
            NodeLoad::AzureLow => {
                Source::azure(&self.traffic, Half::Low, per_second, &seeds_of_load)
            }
            NodeLoad::Poisson => {
                let shape = LoadShape::Poisson { per_second };
                Source::shape(&shape, seeds_of_load.stream("arrivals"))
                    .expect("a demand above zero is a rate above zero")
            }
        };
        let draws = seeds.stream("requests");
        Machine::new(
            self.processor,
            self.config.cores,
            self.workload.clone(),
            self.slo,
            source,
            draws,
        )
    }
}

/// The 99th percentile of latency alone on the first processor at its nominal frequency, in seconds.
fn isolated_p99(application: &Application) -> f64 {
    let mut rng = SeedTree::new(0).stream("profile");
    let mut latencies: Vec<f64> = (0..4000)
        .map(|_| {
            let need = application.draw(&mut rng);
            need.cpu.seconds() + need.io.seconds()
        })
        .collect();
    latencies.sort_by(f64::total_cmp);
    let rank = 0.99 * latencies.len() as f64;
    latencies[rank as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        NodeConfig::default().build().unwrap();
        let refused = |config: NodeConfig, part: &str| {
            let error = config.build().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let config = NodeConfig::default;
        refused(NodeConfig { demand: f64::NAN, ..config() }, "cpufreq.demand = NaN");
        refused(NodeConfig { cores: 15, ..config() }, "cpufreq.cores = 15");
        refused(NodeConfig { levels: 1, ..config() }, "cpufreq.levels = 1");
        refused(NodeConfig { processor: "z80".to_owned(), ..config() }, "`z80`");
        refused(NodeConfig { application: "tea".to_owned(), ..config() }, "`tea`");
    }
}
