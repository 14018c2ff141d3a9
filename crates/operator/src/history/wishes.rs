//! What somebody wants of a workload that has no object: an objective and bounds.

use serde_json::{Value, json};

use crate::api::{Plan, PlanError};
use crate::cluster::Workload;

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wishes {
    /// The objective.
    pub goal: Option<GoalWishes>,
    /// Bounds.
    pub bounds: BoundWishes,
    /// Target of CPU use, in percent of the requests.
    pub cpu_target: Option<u32>,
}

/// An objective.
#[derive(Debug, Clone, PartialEq)]
pub enum GoalWishes {
    /// Latency at a percentile, at most; as the fields of an object.
    Latency {
        /// Percentile.
        percentile: String,
        /// Threshold.
        threshold: String,
        /// Query.
        query: String,
    },
    /// Requests per second, at least.
    Throughput {
        /// Threshold.
        threshold: String,
        /// Query.
        query: String,
    },
}

/// Bounds, as they are written in an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoundWishes {
    /// Fewest pods.
    pub min_replicas: Option<u32>,
    /// Most pods.
    pub max_replicas: Option<u32>,
    /// Least CPU of a container.
    pub min_cpu: Option<String>,
    /// Most CPU of a container.
    pub max_cpu: Option<String>,
    /// Least memory of a container.
    pub min_memory: Option<String>,
    /// Most memory of a container.
    pub max_memory: Option<String>,
}

impl Wishes {
    /// The plan of an object that would say so. Where nothing is said, the number of pods stays
    /// between the bounds of a horizontal autoscaler if there is one; else it does not go below
    /// two where there are two, so that one can die, and not above twice what it is.
    pub fn plan(&self, workload: &Workload, hpa: Option<(u32, u32)>) -> Result<Plan, PlanError> {
        let present = workload.replicas.max(1);
        let (least, most) = hpa.unwrap_or((present.min(2), present.saturating_mul(2).max(4)));
        let bounds = &self.bounds;
        let low = bounds
            .min_replicas
            .unwrap_or(least.max(1).min(bounds.max_replicas.unwrap_or(u32::MAX)));
        let high = bounds.max_replicas.unwrap_or(most.max(low));
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
            Some(GoalWishes::Latency { percentile, threshold, query }) => {
                goals["slo"]["latency"] =
                    json!({ "percentile": percentile, "threshold": threshold, "query": query });
            }
            Some(GoalWishes::Throughput { threshold, query }) => {
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
            "constraints": {
                "global": { "minReplicas": low, "maxReplicas": high },
                "container": [{ "name": "*", "requests": {
                    "minAllowed": amounts(&bounds.min_cpu, &bounds.min_memory),
                    "maxAllowed": amounts(&bounds.max_cpu, &bounds.max_memory),
                }}],
            },
        });
        Plan::try_new(&serde_json::from_value(spec).expect("every field is in its place"))
    }
}
