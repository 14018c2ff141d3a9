//! Settings, and the plan made of them.

use std::sync::Arc;

use homeostat_anomalies::{Campaign, RandomAnomalies};
use homeostat_core::{Fraction, SeedTree, SimDuration, Slo};
use homeostat_decide::{ContainerBounds, ContainerLimits};
use homeostat_load::LoadShape;
use serde::{Deserialize, Serialize};

use crate::service_kind::REQUEST_BYTES;
use crate::{Error, Interference, Mesh, MeshSetup, NodeSize, Result, Topology};

/// The settings; `default.toml` says what they mean.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml describes each setting beside its default")]
pub struct MeshConfig {
    pub topology: String,
    pub service: String,
    pub requests_per_s: f64,
    pub load: MeshLoad,
    pub slo_over_isolated: f64,
    pub alpha: f64,
    pub window_s: f64,
    pub steps: u32,
    pub nodes: usize,
    pub cores_per_node: f64,
    pub memory_gb_per_s: f64,
    pub cache_mb: f64,
    pub disk_mb_per_s: f64,
    pub network_mb_per_s: f64,
    pub link_us: f64,
    pub replicas: u32,
    pub max_replicas: u32,
    pub limit_over_use: f64,
    pub limit_range: f64,
    pub max_queue: usize,
    pub timeout_s: f64,
    pub anomalies_per_s: f64,
    pub anomaly_s: f64,
    pub queueing: f64,
    pub miss_penalty: f64,
    pub miss_traffic: f64,
    pub telemetry_noise: f64,
    pub oracle: bool,
}

/// How the rate of requests changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeshLoad {
    /// It is constant.
    Poisson,
    /// It swings by half, with a period of ten minutes.
    Diurnal,
    /// It doubles for five seconds in a minute, on average.
    Bursty,
}

impl MeshLoad {
    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Diurnal => "diurnal",
            Self::Bursty => "bursty",
        }
    }
}

/// Settings that have been checked, and what follows from them.
#[derive(Debug, Clone)]
pub struct MeshPlan {
    config: Arc<MeshConfig>,
    topology: Arc<Topology>,
    limits: Arc<[ContainerLimits]>,
    bounds: Arc<[ContainerBounds]>,
    slos: Arc<[Slo]>,
    /// The service that every agent controls, if the settings name one.
    pub(crate) service: Option<usize>,
    pub(crate) window: SimDuration,
    /// What a simulation injects.
    pub(crate) campaign: Arc<Campaign>,
}

impl Default for MeshConfig {
    fn default() -> Self {
        #[derive(Deserialize)]
        struct Reference {
            mesh: MeshConfig,
        }
        let reference: Reference =
            toml::from_str(include_str!("default.toml")).expect("the reference is tested");
        reference.mesh
    }
}

/// Limits at the start are at least these: a core, 200 MB/s of memory, 1 MB of cache, 20 MB/s of
/// disk and network.
const MIN_START: [f64; 5] = [1000.0, 2e8, 1e6, 2e7, 2e7];

impl MeshConfig {
    /// Checks the settings and makes a plan of them, with SLOs from a minute of play without anomalies.
    pub fn build(&self) -> Result<MeshPlan> {
        self.validate()?;
        let topology = Topology::by_name(&self.topology)?;
        let service = match self.service.as_str() {
            "any" | "each" => None,
            name => Some(topology.service(name).ok_or_else(|| Error::OutOfRange {
                key: "mesh.service".to_owned(),
                value: name.to_owned(),
                expected: format!(
                        "choose \"any\", \"each\" or a service of {}: {}",
                        topology.name(),
                        topology
                            .services()
                            .iter()
                            .map(|s| s.name.as_str())
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
            })?),
        };
        let limits = self.start_limits(&topology);
        let bounds = self.bounds(&topology, &limits)?;
        let mut plan = MeshPlan {
            config: Arc::new(self.clone()),
            limits: limits.into(),
            bounds: bounds.into(),
            slos: Arc::new([]),
            service,
            window: seconds(self.window_s),
            topology: Arc::new(topology),
            campaign: Arc::new(self.campaign()?),
        };
        plan.slos = plan.isolated_slos()?.into();
        Ok(plan)
    }

    /// Limits in proportion to the mean use at the load of the settings.
    fn start_limits(&self, topology: &Topology) -> Vec<ContainerLimits> {
        let replicas = f64::from(self.replicas);
        let limits = (0..topology.services().len()).map(|service| {
            let demand = &topology.services()[service].demand;
            let calls = topology.visits(service) * self.requests_per_s / replicas;
            let cpu_s = calls * demand.cpu_us / 1e6;
            let sent = demand.response_bytes
                + REQUEST_BYTES * topology.services()[service].callees.len() as f64;
            let use_ = [
                cpu_s * 1e3,
                cpu_s * demand.memory_bytes_per_cpu_s,
                // The working set does not grow with load.
                1.25 * demand.working_set / self.limit_over_use,
                calls * demand.disk_bytes,
                calls * sent,
            ];
            let capacity = self.node_amounts();
            let limits = std::array::from_fn(|index| {
                let wanted = (use_[index] * self.limit_over_use).max(MIN_START[index]);
                wanted.min(capacity[index]) as u64
            });
            ContainerLimits { replicas: self.replicas, limits }
        });
        limits.collect()
    }

    /// A node in the units of limits.
    fn node_amounts(&self) -> [f64; 5] {
        let node = self.node();
        [node.cores * 1e3, node.memory_bandwidth, node.cache, node.disk, node.network]
    }

    fn bounds(
        &self,
        topology: &Topology,
        start: &[ContainerLimits],
    ) -> Result<Vec<ContainerBounds>> {
        let capacity = self.node_amounts();
        let bounds = topology.services().iter().zip(start).map(|(service, start)| {
            let mut high = start.limits.map(|limit| limit as f64 * self.limit_range);
            // More cores than threads have no effect.
            high[0] = high[0].min(f64::from(service.demand.threads) * 1e3);
            let high: [u64; 5] = std::array::from_fn(|index| {
                (high[index].min(capacity[index]) as u64).max(start.limits[index])
            });
            let low = start.limits.map(|limit| ((limit as f64 / self.limit_range) as u64).max(1));
            Ok(ContainerBounds::try_new(
                ContainerLimits { replicas: 1, limits: low },
                ContainerLimits { replicas: self.max_replicas.max(self.replicas), limits: high },
            )?)
        });
        bounds.collect()
    }

    fn node(&self) -> NodeSize {
        NodeSize {
            cores: self.cores_per_node,
            memory_bandwidth: self.memory_gb_per_s * 1e9,
            cache: self.cache_mb * 1e6,
            disk: self.disk_mb_per_s * 1e6,
            network: self.network_mb_per_s * 1e6,
        }
    }

    /// Random anomalies in all services.
    fn campaign(&self) -> Result<Campaign> {
        Ok(Campaign::random(RandomAnomalies::new(self.anomalies_per_s, self.anomaly_s))?)
    }

    fn load(&self, per_second: f64) -> LoadShape {
        match self.load {
            MeshLoad::Poisson => LoadShape::Poisson { per_second },
            MeshLoad::Diurnal => LoadShape::Diurnal { per_second, swing: 0.5, period_s: 600.0 },
            MeshLoad::Bursty => LoadShape::Bursty {
                calm_per_second: per_second,
                burst_per_second: 2.0 * per_second,
                calm_s: 55.0,
                burst_s: 5.0,
            },
        }
    }

    fn validate(&self) -> Result<()> {
        let check = |name: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::OutOfRange {
                key: format!("mesh.{name}"),
                value: value.to_string(),
                expected: format!("it must be from {low} to {high}"),
            })
        };
        let ranges = [
            ("requests_per_s", self.requests_per_s, 0.1, 1e6),
            ("slo_over_isolated", self.slo_over_isolated, 1.0, 1000.0),
            ("alpha", self.alpha, 0.0, 1.0),
            ("window_s", self.window_s, 0.01, 3600.0),
            ("steps", f64::from(self.steps), 1.0, 1e6),
            ("nodes", self.nodes as f64, 1.0, 1000.0),
            ("cores_per_node", self.cores_per_node, 1.0, 1024.0),
            ("memory_gb_per_s", self.memory_gb_per_s, 0.2, 1e5),
            ("cache_mb", self.cache_mb, 1.0, 1e5),
            ("disk_mb_per_s", self.disk_mb_per_s, 20.0, 1e6),
            ("network_mb_per_s", self.network_mb_per_s, 20.0, 1e6),
            ("link_us", self.link_us, 0.0, 1e6),
            ("replicas", f64::from(self.replicas), 1.0, 100.0),
            ("max_replicas", f64::from(self.max_replicas), 1.0, 1000.0),
            ("limit_over_use", self.limit_over_use, 1.0, 100.0),
            ("limit_range", self.limit_range, 1.0, 1000.0),
            ("max_queue", self.max_queue as f64, 0.0, 1e6),
            ("timeout_s", self.timeout_s, 1e-3, 3600.0),
            ("anomalies_per_s", self.anomalies_per_s, 0.0, 1000.0),
            ("anomaly_s", self.anomaly_s, 1e-3, 3600.0),
            ("queueing", self.queueing, 0.0, 100.0),
            ("miss_penalty", self.miss_penalty, 0.0, 100.0),
            ("miss_traffic", self.miss_traffic, 0.0, 100.0),
            ("telemetry_noise", self.telemetry_noise, 0.0, 1.0),
        ];
        ranges.into_iter().try_for_each(|(name, value, low, high)| check(name, value, low, high))
    }
}

impl MeshPlan {
    /// The settings.
    pub fn config(&self) -> &MeshConfig {
        &self.config
    }

    /// The service graph.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The names of the services.
    pub fn service_names(&self) -> Vec<&str> {
        self.topology.services().iter().map(|service| service.name.as_str()).collect()
    }

    /// The setting of a service at the start.
    pub fn limits(&self, service: usize) -> &ContainerLimits {
        &self.limits[service]
    }

    /// The bounds of a service.
    pub fn bounds(&self, service: usize) -> &ContainerBounds {
        &self.bounds[service]
    }

    /// The SLO of each type of requests.
    pub fn slos(&self) -> &[Slo] {
        &self.slos
    }

    /// The cluster at its start.
    pub fn setup(&self) -> MeshSetup {
        let config = &self.config;
        let types = self.topology.request_types().count();
        MeshSetup {
            topology: Arc::clone(&self.topology),
            nodes: config.nodes,
            node: config.node(),
            limits: self.limits.to_vec(),
            loads: vec![config.load(config.requests_per_s / types as f64); types],
            link: seconds(config.link_us / 1e6),
            max_queue: config.max_queue,
            timeout: seconds(config.timeout_s),
            interference: Interference {
                queueing: config.queueing,
                miss_penalty: config.miss_penalty,
                miss_traffic: config.miss_traffic,
            },
            record_every: 0,
        }
    }

    /// The p99 of each type without anomalies, times a factor.
    fn isolated_slos(&self) -> Result<Vec<Slo>> {
        /// A few hundred requests of each type.
        const REQUESTS: f64 = 500.0;
        let types = self.topology.request_types().count();
        let length = (REQUESTS * types as f64 / self.config.requests_per_s).clamp(10.0, 600.0);
        let mut mesh = Mesh::new(self.setup(), &SeedTree::new(0).child("isolated"))?;
        mesh.run_for(length);
        let slos = (0..types).map(|kind| {
            let p99 = mesh.p99(kind).ok_or_else(|| Error::OutOfRange {
                key: "mesh.requests_per_s".to_owned(),
                value: self.config.requests_per_s.to_string(),
                expected: "some requests of each type must be answered in ten minutes".to_owned(),
            })?;
            let threshold = seconds(p99.seconds() * self.config.slo_over_isolated);
            Ok(Slo::try_new(Fraction::from_percent(99), threshold)?)
        });
        slos.collect()
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
        let check = |change: fn(&mut MeshConfig), expect: &str| {
            let mut config = MeshConfig::default();
            change(&mut config);
            assert_eq!(config.build().unwrap_err().to_string(), expect);
        };
        check(|c| c.nodes = 0, "mesh.nodes = 0 is out of range: it must be from 1 to 1000");
        check(|c| c.alpha = f64::NAN, "mesh.alpha = NaN is out of range: it must be from 0 to 1");
        check(
            |c| c.topology = "hotel".to_owned(),
            "mesh.topology = hotel is out of range: choose of hotel-reservation, media, \
             social-network, train-ticket",
        );
        let config = MeshConfig { service: "nobody".to_owned(), ..MeshConfig::default() };
        let error = config.build().unwrap_err().to_string();
        assert!(
            error.contains("mesh.service = nobody") && error.contains("nginx-thrift"),
            "{error}"
        );
    }

    #[test]
    fn every_topology_meets_its_slos_at_the_load_of_the_settings() {
        for topology in Topology::names() {
            let config = MeshConfig { topology: topology.to_owned(), ..MeshConfig::default() };
            let plan = config.build().unwrap();
            let mut mesh = Mesh::new(plan.setup(), &SeedTree::new(5)).unwrap();
            mesh.run_for(20.0);
            for (kind, slo) in plan.slos().iter().enumerate() {
                let p99 = mesh.p99(kind).unwrap();
                assert!(p99 <= slo.threshold(), "{topology} {kind}: {p99} over {slo}");
                assert_eq!(mesh.totals(kind).dropped, 0);
            }
        }
    }
}
