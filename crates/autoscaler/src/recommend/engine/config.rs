//! The settings of the policies that an engine runs.

use homeostat_core::{Bytes, Millicores, SimDuration};
use homeostat_decide::{HpaMetric, JointConfig, SloKind, Vpa, VpaConfig};

use crate::api::{Goal, Plan};

/// For this long after an out-of-memory kill, even a slightly larger size replaces a pod: pods are
/// changed one by one.
const OOM_MEMORY: SimDuration = SimDuration::from_secs(600);

/// The settings of VPA for a pod.
pub(super) fn vpa_config() -> VpaConfig {
    VpaConfig { oom_memory: OOM_MEMORY, ..VpaConfig::default() }
}

/// The usage history of one container. The minimum that VPA gives a pod is not the need of a
/// container: with it, a small container would take from a large one.
pub(super) fn container_history() -> Vpa {
    let config = VpaConfig {
        pod_minimum_cpu: Millicores::ZERO,
        pod_minimum_memory: Bytes::ZERO,
        ..vpa_config()
    };
    config.build().expect("the defaults are valid")
}

/// The metrics of a plan: utilisation first, then queries.
pub(super) fn hpa_metrics(plan: &Plan) -> Vec<HpaMetric> {
    let queries = plan.query_metrics.iter().enumerate();
    let queries = queries.map(|(index, (_, target))| HpaMetric::Query { index, target: *target });
    plan.resource_metrics.iter().copied().chain(queries).collect()
}

/// The settings of the default recommender. It keeps a target of CPU utilisation that the plan
/// sets; without one, it learns the target from the SLO.
pub(super) fn joint(plan: &Plan, metrics: &[HpaMetric]) -> JointConfig {
    let fixed_target_utilization = metrics.iter().find_map(|metric| match metric {
        HpaMetric::CpuUtilization { target_percent } => Some(*target_percent),
        _ => None,
    });
    let is_cpu = |metric: &&HpaMetric| matches!(metric, HpaMetric::CpuUtilization { .. });
    let default = JointConfig::default();
    JointConfig {
        fixed_target_utilization,
        slo: match plan.goal {
            None => SloKind::None,
            Some(Goal::Latency { .. }) => SloKind::Latency,
            Some(Goal::Throughput { .. }) => SloKind::Throughput,
        },
        metrics: metrics.iter().filter(|metric| !is_cpu(metric)).copied().collect(),
        min_replicas: plan.replicas.low(),
        max_replicas: plan.replicas.high(),
        behavior: plan.behavior(default.behavior),
        vpa: vpa_config(),
        ..default
    }
}
