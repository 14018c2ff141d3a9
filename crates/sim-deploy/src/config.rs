//! Settings, and the plan made of them.

use std::sync::Arc;

use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SeedTree, SimDuration, Slo, Stream};
use homeostat_decide::{Allocation, AllocationBounds, RewardPreset, ScalingAction};
use homeostat_load::LoadShape;
use homeostat_load::traffic::TrafficModel;
use serde::{Deserialize, Serialize};

use crate::isolated_latency::isolated_latency;
use crate::{
    Application, ApplicationPool, Change, ClusterConfig, Error, Half, Part, Resize, Result, Source,
};

/// The settings; `default.toml` says what they mean.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml describes each setting beside its default")]
pub struct DeployConfig {
    pub application: String,
    pub pool: Part,
    pub pool_seed: u64,
    pub deployments: usize,
    pub reward: RewardPreset,
    pub slo_over_isolated: f64,
    pub window_s: f64,
    pub steps: u32,
    pub load: LoadKind,
    pub demand_cores: f64,
    pub low_demand_cores: f64,
    pub change: Change,
    pub change_at_s: f64,
    pub nodes: usize,
    pub cores_per_node: f64,
    pub memory_per_node_gib: f64,
    pub resize: Resize,
    pub cpu_limit_over_request: f64,
    pub memory_limit_over_request: f64,
    pub create_s: f64,
    pub start_cpu_s: f64,
    pub grace_s: f64,
    pub timeout_s: f64,
    pub concurrency: u32,
    pub max_replicas: u32,
    pub max_memory_mib: u64,
    pub telemetry_delay_s: f64,
    pub telemetry_noise: f64,
    pub oracle: bool,
    pub random_start: bool,
}

/// The load of each Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Rhythms of Azure functions with more than 100 000 requests a day.
    AzureHigh,
    /// Rhythms of Azure functions with fewer.
    AzureLow,
    /// A constant rate.
    Poisson,
}

/// Settings that have been checked, and what follows from them.
#[derive(Debug, Clone)]
pub struct DeployPlan {
    config: Arc<DeployConfig>,
    applications: Arc<[Application]>,
    traffic: Arc<TrafficModel>,
    bounds: AllocationBounds,
    cluster: ClusterConfig,
    pub(crate) window: SimDuration,
    pub(crate) delay: SimDuration,
    pub(crate) noise: f64,
    /// Changes of the workloads in the order of time. Each replaces the one before.
    pub(crate) changes: Arc<[(SimDuration, Change)]>,
}

impl Default for DeployConfig {
    fn default() -> Self {
        #[derive(Deserialize)]
        struct Reference {
            deploy: DeployConfig,
        }
        let reference: Reference =
            toml::from_str(include_str!("default.toml")).expect("the reference is tested");
        reference.deploy
    }
}

impl DeployConfig {
    /// Checks the settings and makes a plan of them.
    pub fn build(&self) -> Result<DeployPlan> {
        self.validate()?;
        let applications = match self.application.as_str() {
            "each" => ApplicationPool::generate(self.pool_seed).part(self.pool).to_vec(),
            text => vec![Application::parse(text)?],
        };
        let (delay, noise) = match self.oracle {
            true => (SimDuration::ZERO, 0.0),
            false => (seconds(self.telemetry_delay_s), self.telemetry_noise),
        };
        Ok(DeployPlan {
            applications: applications.into(),
            traffic: Arc::new(TrafficModel::azure_2019()),
            bounds: self.bounds()?,
            cluster: self.cluster(),
            window: seconds(self.window_s),
            delay,
            noise,
            changes: match self.change {
                Change::None => Arc::default(),
                change => Arc::new([(seconds(self.change_at_s), change)]),
            },
            config: Arc::new(self.clone()),
        })
    }

    /// The bounds of every Deployment.
    pub(crate) fn bounds(&self) -> Result<AllocationBounds> {
        let memory = Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(self.max_memory_mib))?;
        let replicas = Bounds::try_new(1, self.max_replicas)?;
        Ok(AllocationBounds::with_dissertation_cpu(replicas, memory))
    }

    fn cluster(&self) -> ClusterConfig {
        let gib = f64::from(1 << 30);
        ClusterConfig {
            nodes: self.nodes,
            cores: self.cores_per_node,
            memory: Bytes::new((self.memory_per_node_gib * gib) as u64),
            resize: self.resize,
            cpu_limit_over_request: self.cpu_limit_over_request,
            memory_limit_over_request: self.memory_limit_over_request,
            create: seconds(self.create_s),
            start_cpu: seconds(self.start_cpu_s),
            grace: seconds(self.grace_s),
            timeout: seconds(self.timeout_s),
            concurrency: self.concurrency,
        }
    }

    fn validate(&self) -> Result<()> {
        let refused = |name: &str, value: String, expected: &str| {
            Err(Error::OutOfRange {
                key: format!("deploy.{name}"),
                value,
                expected: expected.to_owned(),
            })
        };
        let counts = [
            ("deployments", self.deployments as u64, 1, 10_000),
            ("steps", u64::from(self.steps), 1, 1_000_000),
            ("nodes", self.nodes as u64, 1, 10_000),
            ("concurrency", u64::from(self.concurrency), 1, 100_000),
            ("max_replicas", u64::from(self.max_replicas), 1, 1000),
            ("max_memory_mib", self.max_memory_mib, 64, 1_048_576),
        ];
        for (name, value, low, high) in counts {
            if !(low..=high).contains(&value) {
                return refused(
                    name,
                    value.to_string(),
                    &format!("it must be from {low} to {high}"),
                );
            }
        }
        let numbers = [
            ("slo_over_isolated", self.slo_over_isolated, 1.0, 1000.0),
            ("window_s", self.window_s, 0.1, 3600.0),
            ("demand_cores", self.demand_cores, 1e-3, 1000.0),
            ("low_demand_cores", self.low_demand_cores, 1e-3, 1000.0),
            ("change_at_s", self.change_at_s, 0.0, 1e9),
            // A pod has up to two cores and must fit on a node.
            ("cores_per_node", self.cores_per_node, 2.0, 1024.0),
            ("memory_per_node_gib", self.memory_per_node_gib, 0.25, 65_536.0),
            ("cpu_limit_over_request", self.cpu_limit_over_request, 1.0, 100.0),
            ("memory_limit_over_request", self.memory_limit_over_request, 1.0, 100.0),
            ("create_s", self.create_s, 1e-3, 3600.0),
            ("start_cpu_s", self.start_cpu_s, 1e-3, 3600.0),
            ("grace_s", self.grace_s, 1e-3, 3600.0),
            ("timeout_s", self.timeout_s, 1e-3, 3600.0),
            ("telemetry_noise", self.telemetry_noise, 0.0, 1.0),
        ];
        for (name, value, low, high) in numbers {
            if !(low..=high).contains(&value) {
                return refused(
                    name,
                    value.to_string(),
                    &format!("it must be from {low} to {high}"),
                );
            }
        }
        if !(0.0..self.window_s).contains(&self.telemetry_delay_s) {
            let value = self.telemetry_delay_s.to_string();
            return refused(
                "telemetry_delay_s",
                value,
                "it must be from 0 to below deploy.window_s",
            );
        }
        let node_mib = self.memory_per_node_gib * 1024.0 * self.memory_limit_over_request;
        if self.max_memory_mib as f64 > node_mib {
            let value = self.max_memory_mib.to_string();
            return refused("max_memory_mib", value, "a pod of it must fit on a node");
        }
        Ok(())
    }
}

impl DeployPlan {
    /// The settings.
    pub fn config(&self) -> &DeployConfig {
        &self.config
    }

    /// The same with these changes of the workloads instead of the settings' one, in the order of time.
    /// Each replaces the one before: [`Change::None`] is the workload as it was at first.
    pub fn with_changes(mut self, mut changes: Vec<(SimDuration, Change)>) -> Self {
        changes.sort_by_key(|(at, _)| *at);
        self.changes = changes.into();
        self
    }

    /// The bounds of every Deployment.
    pub fn bounds(&self) -> &AllocationBounds {
        &self.bounds
    }

    /// The cluster.
    pub fn cluster(&self) -> &ClusterConfig {
        &self.cluster
    }

    /// The application of the agent or Deployment with this number, around again after the last.
    pub fn application(&self, number: usize) -> &Application {
        &self.applications[number % self.applications.len()]
    }

    /// The SLO of an application: its p99 alone times a factor.
    pub(crate) fn slo(&self, application: &Application) -> Slo {
        let threshold = isolated_latency(application).seconds() * self.config.slo_over_isolated;
        Slo::try_new(Fraction::from_percent(99), seconds(threshold)).expect("requests take time")
    }

    /// The load of an application before or after a change of the load.
    pub(crate) fn source(&self, app: &Application, is_changed: bool, seeds: &SeedTree) -> Source {
        let config = &self.config;
        let half = match config.load {
            LoadKind::AzureLow => Half::Low,
            LoadKind::AzureHigh | LoadKind::Poisson => Half::High,
        };
        let half = if is_changed { half.other() } else { half };
        let cores = match half {
            Half::High => config.demand_cores,
            Half::Low => config.low_demand_cores,
        };
        let per_second = cores / app.mean_cpu().seconds();
        let seeds = seeds.child(if is_changed { "changed load" } else { "load" });
        match config.load {
            LoadKind::Poisson => {
                let shape = LoadShape::Poisson { per_second };
                Source::shape(&shape, seeds.stream("arrivals")).expect("the rate is above zero")
            }
            _ => Source::azure(&self.traffic, half, per_second, &seeds),
        }
    }

    /// Random, so that an agent meets every kind of allocation, or the same generous one. A pod has memory
    /// for all requests that it serves at once, as far as bounds allow: with less, a queue would kill
    /// each pod as it becomes ready, which only more memory ends.
    pub(crate) fn first_allocation(&self, app: &Application, rng: &mut Stream) -> Allocation {
        let step = ScalingAction::MEMORY_STEP.bytes();
        let need = app.full_memory(self.config.concurrency).bytes().div_ceil(step);
        let (replicas, cpu_steps, more) = if self.config.random_start {
            (1 + rng.below(6) as u32, 4 + rng.below(9) as u64, rng.below(4) as u64)
        } else {
            (4, 8, 2)
        };
        self.bounds.clamp(&Allocation {
            replicas,
            cpu: Millicores::new(cpu_steps * ScalingAction::CPU_STEP.millicores()),
            memory: Bytes::new((need + more) * step),
        })
    }
}

pub(crate) fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_nanos((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_out_of_range_is_named_with_its_range() {
        let check = |change: fn(&mut DeployConfig), expect: &str| {
            let mut config = DeployConfig::default();
            change(&mut config);
            assert_eq!(config.build().unwrap_err().to_string(), expect);
        };
        check(|c| c.nodes = 0, "deploy.nodes = 0 is out of range: it must be from 1 to 10000");
        check(
            |c| c.slo_over_isolated = f64::NAN,
            "deploy.slo_over_isolated = NaN is out of range: it must be from 1 to 1000",
        );
        check(
            |c| c.telemetry_delay_s = 15.0,
            "deploy.telemetry_delay_s = 15 is out of range: it must be from 0 to below \
             deploy.window_s",
        );
        check(
            |c| c.memory_per_node_gib = 1.0,
            "deploy.max_memory_mib = 2048 is out of range: a pod of it must fit on a node",
        );
    }

    #[test]
    fn every_application_of_the_pool_starts_with_memory_for_its_requests() {
        for pool in [Part::Train, Part::Test] {
            let plan = DeployConfig { pool, ..DeployConfig::default() }.build().unwrap();
            let mut rng = Stream::from_seed(3);
            for application in plan.applications.iter() {
                let first = plan.first_allocation(application, &mut rng);
                let need = application.full_memory(plan.config().concurrency);
                assert!(first.memory >= need, "{}", application.name());
                assert!(plan.slo(application).threshold() > isolated_latency(application));
            }
        }
    }
}
