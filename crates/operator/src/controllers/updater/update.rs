//! One update of one object: the number of replicas, then the sizes of pods.

use homeostat_autoscaler::api::{
    Acting, ConditionReason, ConditionType, Mode, MultidimPodAutoscaler,
    MultidimPodAutoscalerStatus, Plan, UpdateMode,
};
use homeostat_autoscaler::guard::{PAUSE_ANNOTATION, Pause, read_pause};
use homeostat_autoscaler::recommend::{sim_time, time};
use homeostat_autoscaler::update::{
    Blocked, NextPods, PodStep, Rollout, WantedSizes, next_pods, wanted_sizes,
};
use homeostat_autoscaler::workload::{PodRecord, read_selector};
use homeostat_core::{SimDuration, SimTime};
use kube::{Resource, ResourceExt};
use tokio::time::Duration;

use super::slot::{Part, Slot};
use crate::cluster::{ReplicaChange, TargetError};
use crate::controllers::context::{Context, key_of};
use crate::update::{Applied, MAX_STEP_TIME, apply, may_be_done};

/// Field manager of the updater's part of a status.
const FIELD_MANAGER: &str = "homeostat-updater";

/// An older recommendation is not applied: the recommender that made it has stopped. See also
/// [`MAX_MISSED_RESYNCS`].
const MIN_STALE_AGE: SimDuration = SimDuration::from_secs(180);

/// Resyncs that the recommender may miss before its recommendation counts as stale.
const MAX_MISSED_RESYNCS: u64 = 3;

const HOUR: SimDuration = SimDuration::from_secs(3600);

/// Time before a refused step, such as an eviction against a disruption budget, is tried again.
/// Every attempt is written into the status first, which triggers the updater: without this time it
/// would never rest.
const RETRY_AFTER: SimDuration = SimDuration::from_secs(10);

/// One update of one object.
pub(super) struct Update<'a> {
    pub(super) ctx: &'a Context,
    pub(super) object: &'a MultidimPodAutoscaler,
    pub(super) status: &'a MultidimPodAutoscalerStatus,
    pub(super) plan: &'a Plan,
    pub(super) now: SimTime,
}

impl Update<'_> {
    pub(super) async fn apply(&self, slot: &mut Slot) -> Part {
        let mut part = slot.known.clone().unwrap_or_else(|| Part {
            last_scale_time: self.status.last_scale_time.clone(),
            rollout: self.status.rollout.clone().unwrap_or_default(),
        });
        let mut acting = match self.obstacle() {
            Some(refusal) => refusal.acting(),
            None => {
                let scaled = self.scale(slot, &mut part).await;
                let resized = self.resize(slot, &mut part).await;
                scaled.err().map_or(resized, Refusal::acting)
            }
        };
        let webhook = self.ctx.webhook.as_ref();
        if let Some(expired) = webhook.and_then(|certificate| certificate.expired_recently()) {
            acting.message.push_str(&format!(
                "; the webhook's certificate expired at {expired} and was renewed: pods that \
                 started in between have the size of their template"
            ));
        }
        part.rollout.acting = Some(acting);
        part
    }

    /// Whether the spec has just changed: the recommender reconciles it in a moment, and nothing is
    /// applied or reported before.
    pub(super) fn is_about_to_be_recommended(&self) -> bool {
        !self.is_of_this_spec()
            && self.recommended_at().is_some_and(|at| {
                self.now.saturating_since(at) <= stale_age(self.ctx.options.interval)
            })
    }

    fn recommended_at(&self) -> Option<SimTime> {
        self.status.recommended_at.as_ref().map(sim_time)
    }

    /// Whether the status belongs to the current spec.
    fn is_of_this_spec(&self) -> bool {
        self.status.observed_generation == self.object.meta().generation
    }

    /// Why the workload must not be changed at all.
    fn obstacle(&self) -> Option<Refusal> {
        if !matches!(self.plan.mode, Mode::Auto | Mode::Canary) {
            let message = format!("mode {:?} changes nothing", self.plan.mode);
            return Some(Refusal::new(ConditionReason::NotInMode, message));
        }
        let ready = ConditionType::Ready.to_string();
        let ready = self.status.conditions.iter().find(|condition| condition.type_ == ready);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let recommended_at = self.recommended_at().filter(|_| is_ready && self.is_of_this_spec());
        let Some(recommended_at) = recommended_at else {
            let message = "there is no recommendation for the current spec";
            return Some(Refusal::new(ConditionReason::NoRecommendation, message));
        };
        let age = self.now.saturating_since(recommended_at);
        if age > stale_age(self.ctx.options.interval) {
            let message = format!("the recommendation is {:.0}s old", age.seconds());
            return Some(Refusal::new(ConditionReason::NoRecommendation, message));
        }
        let pause = self.object.annotations().get(PAUSE_ANNOTATION);
        if pause.is_some_and(|value| !matches!(read_pause(value), Ok(Pause::In | Pause::Out))) {
            let message = format!("annotation {PAUSE_ANNOTATION} pauses everything");
            return Some(Refusal::new(ConditionReason::Paused, message));
        }
        None
    }

    /// Sets the recommended number of replicas, once for every recommendation.
    async fn scale(&self, slot: &mut Slot, part: &mut Part) -> Result<(), Refusal> {
        let (Some(from), Some(to)) = (self.status.current_replicas, self.status.desired_replicas)
        else {
            return Ok(());
        };
        let recommendation = self.recommended_at().map(|at| (at, to));
        if from == to || slot.scaled_for == recommendation || !self.ctx.is_leader() {
            return Ok(());
        }
        let namespace = self.object.namespace().unwrap_or_default();
        let change = ReplicaChange { from, to };
        match self.ctx.targets.set_replicas(&namespace, &self.plan.target, change).await {
            Ok(()) => {}
            Err(error @ (TargetError::Changed { .. } | TargetError::Busy { .. })) => {
                self.ctx.telemetry.rescale_conflict();
                let message = format!("{error}: waiting for the next recommendation");
                return Err(Refusal::new(ConditionReason::NoRecommendation, message));
            }
            Err(error) => {
                self.ctx.telemetry.target_error(&error);
                let message = format!("the number of replicas cannot be changed: {error}");
                return Err(Refusal::new(ConditionReason::ServerUnavailable, message));
            }
        }
        slot.scaled_for = recommendation;
        part.last_scale_time = Some(time(self.now));
        self.ctx.telemetry.rescaled(from, to);
        let why = self.status.decisions.first().map(|decision| decision.reasons.join("; "));
        let note = format!("{from} -> {to} pods: {}", why.unwrap_or_default());
        let reason = ConditionReason::Rescaled.to_string();
        self.ctx.publish_event(self.object, false, &reason, &note).await;
        Ok(())
    }

    /// Resizes or evicts as many pods as the limits allow now.
    async fn resize(&self, slot: &mut Slot, part: &mut Part) -> Acting {
        let wanted = wanted_sizes(self.status);
        let selector = self.status.selector.as_deref().and_then(|text| read_selector(text).ok());
        let (Some(wanted), Some(selector)) = (wanted, selector) else {
            return as_planned("there is no size to apply");
        };
        let namespace = self.object.namespace().unwrap_or_default();
        let pods = self.ctx.pods.selected(&namespace, &selector);
        let views = slot.views(&pods, &wanted, self.now);
        let mut rollout = Rollout {
            evictions: part
                .rollout
                .evictions
                .iter()
                .map(sim_time)
                .filter(|at| self.now.saturating_since(*at) < HOUR)
                .collect(),
            canary_since: part.rollout.canary_since.as_ref().map(sim_time),
        };
        let inputs = NextPods {
            now: self.now,
            minute_of_week: minute_of_week(self.now),
            plan: self.plan,
            wanted: &wanted,
            pods: &views,
            replicas: self.status.desired_replicas.unwrap_or(views.len() as u32),
            can_resize: self.ctx.capabilities().resizes_pods,
            is_webhook_unknown: self.ctx.webhook.as_ref().is_some_and(|shown| !shown.is_trusted()),
            is_slo_met: self.is_slo_met(),
            rollout: &rollout,
        };
        let (mut steps, mut blocked) = next_pods(&inputs);
        let staying = pods.iter().filter(|pod| !pod.is_leaving).count();
        part.rollout.updated = inputs.updated();
        part.rollout.outdated = (staying as u32).saturating_sub(inputs.updated());
        part.rollout.canary_since = inputs.canary_since().map(time);
        let mut refused = None;
        if !steps.is_empty()
            && let Some((at, refusal)) = &slot.refused_at
            && self.now < *at + RETRY_AFTER
        {
            refused = Some(refusal.clone());
            steps.clear();
        }
        if steps.iter().any(|step| matches!(step, PodStep::Evict(_)))
            && let Err(refusal) = self.check_target(&namespace).await
        {
            return refusal.acting();
        }
        if !self.write_ahead(slot, part, &steps, &rollout).await {
            let message = "the status cannot be written, which must precede evictions";
            return Refusal::new(ConditionReason::ServerUnavailable, message).acting();
        }
        let sizing = Sizing { steps: &steps, wanted: &wanted, pods: &pods };
        let changes = self.take_steps(slot, &mut rollout, sizing).await;
        if let Some(refusal) = changes.refused {
            slot.refused_at = Some((self.now, refusal.clone()));
            refused = Some(refusal);
        }
        part.rollout.evictions = rollout.evictions.iter().map(|at| time(*at)).collect();
        if changes.done > 0 {
            let note = format!("{} of {} pods get the recommended size", changes.done, views.len());
            let reason = ConditionReason::Resized.to_string();
            self.ctx.publish_event(self.object, false, &reason, &note).await;
            blocked = None;
        }
        if let Some(refusal) = refused {
            return refusal.acting();
        }
        if changes.done == 0
            && let Some(why) = changes.not_resizable
        {
            let then = match self.plan.update_mode {
                UpdateMode::InPlace => "update mode InPlace does not evict them",
                _ => "they are evicted next",
            };
            let message = format!("pods cannot be resized in place, and {then}: {why}");
            return Refusal::new(ConditionReason::ResizeRefused, message).acting();
        }
        match blocked {
            None => as_planned("recommendations are applied"),
            Some(blocked) => Refusal::new(reason_of(blocked), blocked.to_string()).acting(),
        }
    }

    /// Whether the SLO is met; none if that is not known.
    fn is_slo_met(&self) -> Option<bool> {
        let slo_met = ConditionType::SloMet.to_string();
        let condition = self.status.conditions.iter().find(|one| one.type_ == slo_met)?;
        match &condition.status[..] {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    }

    /// Takes steps one after the other, until the server refuses one.
    async fn take_steps(
        &self,
        slot: &mut Slot,
        rollout: &mut Rollout,
        Sizing { steps, wanted, pods }: Sizing<'_>,
    ) -> Changes {
        let namespace = self.object.namespace().unwrap_or_default();
        let mut changes = Changes::default();
        for step in steps {
            if !self.ctx.is_leader() {
                let why = "another replica leads now";
                changes.refused = Some(Refusal::new(ConditionReason::DisruptionLimited, why));
                break;
            }
            let (PodStep::Resize(name) | PodStep::Evict(name)) = step;
            let uid = pods.iter().find(|pod| pod.name == *name).map(|pod| pod.uid.clone());
            let uid = uid.unwrap_or_default();
            let applied = apply(&self.ctx.client, &namespace, step, wanted, pods).await;
            // A step that may have been taken counts as taken.
            let counts = match &applied {
                Ok(Applied::Done | Applied::Unanswered) => true,
                Ok(_) => false,
                Err(error) => may_be_done(error),
            };
            if counts {
                if matches!(step, PodStep::Evict(_)) {
                    rollout.evictions.push(self.now);
                }
                slot.changed.insert(uid.clone(), self.now);
            }
            let unavailable = |why| Refusal::new(ConditionReason::ServerUnavailable, why);
            match applied {
                Ok(Applied::Done) => {
                    changes.done += 1;
                    self.ctx.telemetry.resized(step);
                }
                // The next update evicts it, if the update mode allows.
                Ok(Applied::CannotResize { why }) => {
                    tracing::info!(pod = name, why, "the pod cannot be resized");
                    slot.not_resizable.pods.insert(uid);
                    changes.not_resizable = Some(why);
                }
                Ok(Applied::BudgetExhausted { why }) => {
                    changes.refused = Some(Refusal::new(ConditionReason::DisruptionLimited, why));
                    break;
                }
                Ok(Applied::Gone) => {}
                Ok(Applied::Unanswered) => {
                    self.ctx.telemetry.server_timed_out("resize", MAX_STEP_TIME);
                    let seconds = MAX_STEP_TIME.as_secs();
                    let why = format!("the API server did not answer for {seconds}s");
                    changes.refused = Some(unavailable(why));
                    break;
                }
                Err(error) => {
                    self.ctx.telemetry.server_error("resize", &error);
                    changes.refused = Some(unavailable(error.to_string()));
                    break;
                }
            }
        }
        changes
    }

    /// Refuses evictions if the target no longer exists, since it would not create new pods.
    async fn check_target(&self, namespace: &str) -> Result<(), Refusal> {
        let scaled = self.ctx.targets.scale(namespace, &self.plan.target).await;
        scaled.map(|_| ()).map_err(|error| {
            let message = format!("nothing is evicted: {error}");
            Refusal::new(ConditionReason::NoRecommendation, message)
        })
    }

    /// Writes evictions into the status before they are made: after a crash, the next leader counts
    /// every eviction, and at worst some that were not made.
    async fn write_ahead(
        &self,
        slot: &mut Slot,
        part: &Part,
        steps: &[PodStep],
        rollout: &Rollout,
    ) -> bool {
        let evictions = steps.iter().filter(|step| matches!(step, PodStep::Evict(_)));
        let planned = evictions.map(|_| self.now).collect::<Vec<_>>();
        if planned.is_empty() {
            return true;
        }
        let all = rollout.evictions.iter().chain(&planned);
        let mut ahead = part.clone();
        ahead.rollout.evictions = all.map(|at| time(*at)).collect();
        if !self.write(&ahead).await {
            return false;
        }
        // An update that is cancelled does not tell which of them were made.
        slot.known = Some(ahead.clone());
        slot.written = Some((ahead, self.now));
        true
    }

    pub(super) async fn write(&self, part: &Part) -> bool {
        let status = MultidimPodAutoscalerStatus {
            last_scale_time: part.last_scale_time.clone(),
            rollout: Some(part.rollout.clone()),
            ..MultidimPodAutoscalerStatus::default()
        };
        self.ctx.write_status(&key_of(self.object), FIELD_MANAGER, &status).await
    }
}

/// Why the updater does not continue.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    reason: ConditionReason,
    message: String,
}

impl Refusal {
    fn new(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    fn acting(self) -> Acting {
        Acting { is_acting: false, reason: self.reason.to_string(), message: self.message }
    }
}

/// The result of the steps of one update.
#[derive(Default)]
struct Changes {
    /// Pods that were resized or evicted.
    done: usize,
    /// Why a pod cannot be resized in place.
    not_resizable: Option<String>,
    /// Why the remaining steps were not taken.
    refused: Option<Refusal>,
}

/// Steps to bring pods to their wanted sizes.
struct Sizing<'a> {
    steps: &'a [PodStep],
    wanted: &'a WantedSizes,
    pods: &'a [PodRecord],
}

fn as_planned(message: &str) -> Acting {
    let reason = ConditionReason::AsPlanned.to_string();
    Acting { is_acting: true, reason, message: message.to_owned() }
}

fn reason_of(blocked: Blocked) -> ConditionReason {
    match blocked {
        Blocked::Mode | Blocked::InitialOnly | Blocked::CannotResize => ConditionReason::NotInMode,
        Blocked::ResizeRefused => ConditionReason::ResizeRefused,
        Blocked::OutsideMaintenance => ConditionReason::OutsideMaintenance,
        Blocked::Canary { .. } => ConditionReason::CanaryWatched,
        Blocked::CanaryFailed => ConditionReason::SloViolated,
        Blocked::WebhookUnknown | Blocked::NotSizedAtCreation => ConditionReason::WebhookSilent,
        Blocked::Unavailable { .. } | Blocked::EvictionRate { .. } | Blocked::TooYoung => {
            ConditionReason::DisruptionLimited
        }
    }
}

/// The age at which a recommendation is stale, for a recommender with this interval.
fn stale_age(interval: Duration) -> SimDuration {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    MIN_STALE_AGE.max(SimDuration::from_nanos(nanos.saturating_mul(MAX_MISSED_RESYNCS)))
}

/// Minute of the week from Monday 00:00 UTC. The first of January 1970 was a Thursday.
fn minute_of_week(at: SimTime) -> u32 {
    const WEEK: u64 = 7 * 24 * 60;
    const THURSDAY: u64 = 3 * 24 * 60;
    let minutes = at.nanos() / 60_000_000_000;
    ((minutes + THURSDAY) % WEEK) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    #[test]
    fn a_recommendation_is_stale_after_three_missed_resyncs() {
        assert_eq!(stale_age(Duration::from_secs(15)), SimDuration::from_secs(180));
        assert_eq!(stale_age(Duration::from_secs(300)), SimDuration::from_secs(900));
    }

    #[test]
    fn the_week_begins_on_monday() {
        // 2026-11-16 00:00:00 UTC is a Monday.
        assert_eq!(minute_of_week(at(1_794_787_200)), 0);
        assert_eq!(minute_of_week(at(1_794_787_200 + 90)), 1);
        assert_eq!(minute_of_week(at(1_794_787_200 - 60)), 7 * 24 * 60 - 1);
    }
}
