//! Writes statuses, and publishes their changes as events and metrics.

use homeostat_autoscaler::api::{
    ConditionReason, ConditionType, MultidimPodAutoscaler, MultidimPodAutoscalerStatus,
};
use homeostat_autoscaler::recommend::{Outage, time};
use homeostat_core::{SimDuration, SimTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{FIELD_MANAGER, Recommender, Slot};
use crate::controllers::context::{Key, key_of};

/// An unchanged status is written again after this time, so that its age shows that the
/// recommender works.
const REWRITE_AFTER: SimDuration = SimDuration::from_secs(60);

/// The cache shows what was written within this time.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(3);

impl Recommender {
    pub(super) async fn write(
        &self,
        object: &MultidimPodAutoscaler,
        slot: &mut Slot,
        status: MultidimPodAutoscalerStatus,
        now: SimTime,
    ) {
        let is_old = |at: SimTime| now.saturating_since(at) >= REWRITE_AFTER;
        // Another client changed it: the updater must not act on that.
        let is_foreign = |written: &MultidimPodAutoscalerStatus, at: SimTime| {
            let is_seen = now.saturating_since(at) >= SEEN_AFTER;
            let seen = object.status.as_ref();
            is_seen && seen.is_some_and(|seen| acted_on(seen) != acted_on(written))
        };
        let is_due = slot.written.as_ref().is_none_or(|(written, at)| {
            is_old(*at)
                || is_foreign(written, *at)
                || without_times(written) != without_times(&status)
        });
        if !is_due || !self.ctx.write_status(&key_of(object), FIELD_MANAGER, &status).await {
            return;
        }
        let previous = slot.written.take().map(|(written, _)| written);
        let previous = previous.or_else(|| object.status.clone()).unwrap_or_default();
        self.publish_conditions(object, &previous, &status).await;
        slot.written = Some((status, now));
    }

    /// Exports conditions as metrics; a condition that is absent from the status has none.
    pub(super) fn export_conditions(&self, key: &Key, status: &MultidimPodAutoscalerStatus) {
        for kind in ConditionType::ALL {
            let name = kind.to_string();
            let condition = status.conditions.iter().find(|condition| condition.type_ == name);
            self.ctx.telemetry.condition(key, kind, condition);
        }
    }

    /// Publishes an event for every condition whose status or reason changed.
    async fn publish_conditions(
        &self,
        object: &MultidimPodAutoscaler,
        previous: &MultidimPodAutoscalerStatus,
        status: &MultidimPodAutoscalerStatus,
    ) {
        self.export_conditions(&key_of(object), status);
        for condition in &status.conditions {
            let before = previous.conditions.iter().find(|before| before.type_ == condition.type_);
            let has_changed = before.is_none_or(|before| {
                before.status != condition.status || before.reason != condition.reason
            });
            if has_changed {
                self.ctx.telemetry.condition_changed(condition);
            }
            if has_changed && is_worth_an_event(before, condition) {
                let note = format!("{}: {}", condition.type_, condition.message);
                let is_substituted = condition.type_ == ConditionType::Ready.to_string()
                    && condition.reason != ConditionReason::AsPlanned.to_string();
                let is_warning = is_problem(condition) || is_substituted;
                self.ctx.publish_event(object, is_warning, &condition.reason, &note).await;
            }
        }
    }

    /// Publishes an event about an outage of the API server after it, since none can be written
    /// during it.
    pub(super) async fn publish_outage(
        &self,
        object: &MultidimPodAutoscaler,
        slot: &mut Slot,
        outage: Option<Outage>,
    ) {
        let Some(outage) = outage.filter(|outage| slot.published_outage.as_ref() != Some(outage))
        else {
            return;
        };
        slot.published_outage = Some(outage);
        let note = format!(
            "the API server did not answer for {}s: nothing was changed meanwhile",
            outage.lasted.as_secs()
        );
        let reason = ConditionReason::ServerUnavailable.to_string();
        self.ctx.publish_event(object, true, &reason, &note).await;
    }
}

/// Whether the status of a condition means a problem.
fn is_problem(condition: &Condition) -> bool {
    let is_limit = condition.type_ == ConditionType::ScalingLimited.to_string();
    condition.status == if is_limit { "True" } else { "False" }
}

/// Whether a condition that changed deserves an event.
fn is_worth_an_event(before: Option<&Condition>, condition: &Condition) -> bool {
    let has = |reason: ConditionReason| condition.reason == reason.to_string();
    // Limits are normal operation, except for a rollback; the mode is what the user chose.
    let is_normal = condition.type_ == ConditionType::ScalingLimited.to_string()
        && !has(ConditionReason::RolledBack)
        || has(ConditionReason::NotInMode);
    let is_good_from_the_start =
        before.is_none() && !is_problem(condition) && !has(ConditionReason::RecommenderUnavailable);
    !is_normal && !is_good_from_the_start
}

/// Whether two statuses have the same conditions, apart from times.
pub(super) fn have_same_conditions(
    a: &MultidimPodAutoscalerStatus,
    b: &MultidimPodAutoscalerStatus,
) -> bool {
    let conditions = |status: &MultidimPodAutoscalerStatus| {
        let texts = |one: &Condition| {
            (one.type_.clone(), one.status.clone(), one.reason.clone(), one.message.clone())
        };
        status.conditions.iter().map(texts).collect::<Vec<_>>()
    };
    conditions(a) == conditions(b)
}

/// What the updater and the webhook act on.
fn acted_on(status: &MultidimPodAutoscalerStatus) -> impl PartialEq + '_ {
    let replicas = (status.current_replicas, status.desired_replicas);
    (replicas, &status.recommendation, &status.selector)
}

/// A status without the times and figures that change at every reconcile.
fn without_times(status: &MultidimPodAutoscalerStatus) -> MultidimPodAutoscalerStatus {
    let mut status = status.clone();
    status.recommended_at = None;
    for metric in &mut status.current_metrics {
        metric.measured_at = None;
        metric.value = None;
    }
    if let Some(decision) = status.decisions.first_mut() {
        decision.at = time(SimTime::ZERO);
        decision.reasons.iter_mut().for_each(without_digits);
    }
    if let Some(alternatives) = &mut status.alternatives {
        alternatives.reasons.iter_mut().for_each(without_digits);
    }
    if let Some(alternatives) = &mut status.alternatives {
        alternatives.policy = None;
    }
    if let Some(learning) = &mut status.learning {
        learning.recent_reward = None;
        learning.waiting_for.iter_mut().for_each(without_digits);
    }
    for condition in &mut status.conditions {
        without_digits(&mut condition.message);
    }
    status
}

/// Messages contain remaining seconds and measured figures: only other words are a change.
fn without_digits(text: &mut String) {
    text.retain(|c| !c.is_ascii_digit());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: ConditionType, status: &str, reason: ConditionReason) -> Condition {
        Condition {
            last_transition_time: time(SimTime::ZERO),
            message: String::new(),
            observed_generation: None,
            reason: reason.to_string(),
            status: status.to_owned(),
            type_: kind.to_string(),
        }
    }

    #[test]
    fn a_rollback_is_a_warning_and_other_limits_are_no_event() {
        use ConditionReason::{AsPlanned, Limited, RolledBack};
        let limited =
            |status: &str, reason| condition(ConditionType::ScalingLimited, status, reason);
        let free = limited("False", AsPlanned);
        let rolled_back = limited("True", RolledBack);
        assert!(is_worth_an_event(Some(&free), &rolled_back));
        assert!(is_problem(&rolled_back));
        assert!(!is_worth_an_event(Some(&free), &limited("True", Limited)));
        assert!(!is_problem(&free));
    }

    #[test]
    fn what_is_good_from_the_start_is_no_event() {
        use ConditionReason::{AsPlanned, SloViolated};
        let met = condition(ConditionType::SloMet, "True", AsPlanned);
        let violated = condition(ConditionType::SloMet, "False", SloViolated);
        assert!(!is_worth_an_event(None, &met));
        assert!(is_worth_an_event(None, &violated));
        assert!(is_worth_an_event(Some(&violated), &met));
        assert!(is_problem(&violated) && !is_problem(&met));
    }
}
