//! Whether pods are sized when they are created.

use homeostat_core::SimTime;
use homeostat_decide::CanaryConfig;

use super::next_pods::pods_of;
use crate::api::{ConditionType, Mode, MultidimPodAutoscalerStatus, Plan};

/// Whether new pods get the recommended size: always in mode `Auto`; in mode `Canary` only the
/// canaries, until their observation has ended and the SLO is met.
pub fn sizes_new_pods(plan: &Plan, status: &MultidimPodAutoscalerStatus, now: SimTime) -> bool {
    match plan.mode {
        Mode::Off | Mode::Recommend => false,
        Mode::Auto => true,
        Mode::Canary => {
            let CanaryConfig { share, watch, .. } = plan.canary;
            let rollout = status.rollout.clone().unwrap_or_default();
            let pods = status.desired_replicas.unwrap_or(rollout.updated + rollout.outdated);
            let slo_met = ConditionType::SloMet.to_string();
            let is_violated = status
                .conditions
                .iter()
                .any(|condition| condition.type_ == slo_met && condition.status == "False");
            let is_watched = rollout.canary_since.as_ref().is_some_and(|since| {
                let since = u64::try_from(since.0.as_nanosecond()).unwrap_or(0);
                now < SimTime::from_nanos(since) + watch
            });
            // Without canaries the size is proven: it is not the cause of a violation now.
            let is_proven = rollout.canary_since.is_none();
            is_proven || rollout.updated < pods_of(share, pods) || (!is_watched && !is_violated)
        }
    }
}
