//! SLO and bounds of a workload without an object.

use serde_json::{Value, json};

use crate::api::{LoadMetrics, Plan, PlanError};
use crate::workload::Workload;

/// SLO, bounds and utilisation target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadSpec {
    /// The SLO.
    pub goal: Option<SloSpec>,
    /// Bounds.
    pub bounds: BoundsSpec,
    /// Target of the CPU utilisation in percent of the requests.
    pub cpu_target: Option<u32>,
    /// How the load is measured.
    pub load: Option<LoadMetrics>,
}

/// An SLO.
#[derive(Debug, Clone, PartialEq)]
pub enum SloSpec {
    /// Maximum latency at a percentile, written as in an object.
    Latency {
        /// Percentile.
        percentile: String,
        /// Threshold.
        threshold: String,
        /// Query.
        query: String,
    },
    /// Minimum of requests per second.
    Throughput {
        /// Threshold.
        threshold: String,
        /// Query.
        query: String,
    },
}

/// Bounds, written as in an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoundsSpec {
    /// Minimum number of pods.
    pub min_replicas: Option<u32>,
    /// Maximum number of pods.
    pub max_replicas: Option<u32>,
    /// Minimum CPU of a container.
    pub min_cpu: Option<String>,
    /// Maximum CPU of a container.
    pub max_cpu: Option<String>,
    /// Minimum memory of a container.
    pub min_memory: Option<String>,
    /// Maximum memory of a container.
    pub max_memory: Option<String>,
}

impl WorkloadSpec {
    /// The plan of an object with this spec. By default the bounds of the number of pods are those of
    /// the HPA; without one, at least two if there are two now, for redundancy, and at most twice the
    /// current number.
    pub fn plan(&self, workload: &Workload, hpa: Option<(u32, u32)>) -> Result<Plan, PlanError> {
        let present = workload.replicas.max(1);
        let (min, max) = hpa.unwrap_or((present.min(2), present.saturating_mul(2).max(4)));
        let bounds = &self.bounds;
        let low =
            bounds.min_replicas.unwrap_or(min.max(1).min(bounds.max_replicas.unwrap_or(u32::MAX)));
        let high = bounds.max_replicas.unwrap_or(max.max(low));
        let amounts = |cpu: &Option<String>, memory: &Option<String>| {
            let mut amounts = json!({});
            if let Some(cpu) = cpu {
                amounts["cpu"] = json!(cpu);
            }
            if let Some(memory) = memory {
                amounts["memory"] = json!(memory);
            }
            amounts
        };
        let mut goals = json!({});
        match &self.goal {
            Some(SloSpec::Latency { percentile, threshold, query }) => {
                goals["slo"]["latency"] =
                    json!({ "percentile": percentile, "threshold": threshold, "query": query });
            }
            Some(SloSpec::Throughput { threshold, query }) => {
                goals["slo"]["throughput"] = json!({ "threshold": threshold, "query": query });
            }
            None => {}
        }
        if let Some(percent) = self.cpu_target {
            let resource = json!({ "name": "cpu", "averageUtilization": percent });
            goals["metrics"] = json!([{ "resource": resource }]);
        }
        let spec: Value = json!({
            "scaleTargetRef": workload.target,
            "goals": goals,
            "load": self.load,
            "constraints": {
                "global": { "minReplicas": low, "maxReplicas": high },
                "container": [{ "name": "*", "requests": {
                    "minAllowed": amounts(&bounds.min_cpu, &bounds.min_memory),
                    "maxAllowed": amounts(&bounds.max_cpu, &bounds.max_memory),
                }}],
            },
        });
        Plan::try_new(&serde_json::from_value(spec).expect("it has every field"))
    }
}
