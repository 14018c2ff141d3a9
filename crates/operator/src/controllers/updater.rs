//! The updater: applies the recommendation in an object's status to its workload, within the limits
//! of disruption.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_core::{SimDuration, SimTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Duration, MissedTickBehavior};

use super::context::{Context, Key, Slots, key_of, now};
use super::countdown::without_countdown;
use super::report::{sim_time, time};
use crate::api::{
    Acting, ConditionReason, ConditionType, Mode, MultidimPodAutoscaler,
    MultidimPodAutoscalerStatus, Plan, Rollout as RolloutStatus, UpdateMode,
};
use crate::cluster::{
    ContainerRecord, PodRecord, ReplicaChange, ResizeState, TargetError, read_selector,
};
use crate::guard::{PAUSE_ANNOTATION, Pause, read_pause};
use crate::supervisor::Heartbeat;
use crate::update::{
    Applied, Blocked, MAX_STEP_TIME, NextPods, PodStep, PodView, Rollout, Sizes, WantedSizes,
    apply, fits, may_be_done, next_pods, wanted_sizes,
};

/// Field manager of the updater's part of a status.
const FIELD_MANAGER: &str = "homeostat-updater";

/// An older recommendation is not applied: the recommender that made it has stopped. See also
/// [`MAX_MISSED_RESYNCS`].
const MIN_STALE_AGE: SimDuration = SimDuration::from_secs(180);

/// Resyncs that the recommender may miss before its recommendation counts as stale.
const MAX_MISSED_RESYNCS: u64 = 3;

/// A message whose remaining seconds have changed is written again after this time.
const REWRITE_AFTER: SimDuration = SimDuration::from_secs(60);

const HOUR: SimDuration = SimDuration::from_secs(3600);

/// The cache shows a change of a pod within this time, or the change had no effect.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(30);

/// A resize that a node has deferred, or has not finished, for this long has failed.
const MAX_DEFERRED: SimDuration = SimDuration::from_secs(300);

/// Time before a refused step, such as an eviction against a disruption budget, is tried again.
/// Every attempt is written into the status first, which triggers the updater: without this time it
/// would never rest.
const RETRY_AFTER: SimDuration = SimDuration::from_secs(10);

/// Pods become ready and maintenance windows open without a change of the object, so all objects
/// are updated at this interval.
const INTERVAL: Duration = Duration::from_secs(5);

/// An update that takes longer is waiting for a server that does not answer, and is cancelled.
const MAX_UPDATE_TIME: Duration = Duration::from_secs(60);

/// Several intervals: the updater only starts updates, and does not wait for them.
pub(crate) const UPDATER_DEADLINE: Duration = Duration::from_secs(30);

/// Applies recommendations.
pub struct Updater {
    ctx: Arc<Context>,
    slots: Slots<Slot>,
}

/// State of one object. It may be lost, since the status and the cluster tell what was done; but
/// the caches lag behind both, and without this state a change would be made twice.
#[derive(Default)]
struct Slot {
    /// Time and replicas of the last recommendation that was applied: two recommendations of the
    /// same second may differ.
    scaled_for: Option<(SimTime, u32)>,
    /// What was done, even if it could not be written.
    known: Option<Part>,
    /// What was written last, and when.
    written: Option<(Part, SimTime)>,
    /// Pods that were evicted or resized, by uid, and when.
    changed: BTreeMap<String, SimTime>,
    /// When and why the server last refused a step.
    refused_at: Option<(SimTime, Refusal)>,
    not_resizable: NotResizable,
}

/// Pods that the server refuses to resize to these sizes, by uid.
#[derive(Default)]
struct NotResizable {
    sizes: WantedSizes,
    pods: BTreeSet<String>,
}

/// Why the updater does not continue.
#[derive(Debug, Clone)]
struct Refusal {
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

impl Slot {
    /// The pods as they will be when the cache shows all changes.
    fn views(&mut self, pods: &[PodRecord], wanted: &WantedSizes, now: SimTime) -> Vec<PodView> {
        if self.not_resizable.sizes != *wanted {
            self.not_resizable = NotResizable { sizes: wanted.clone(), pods: BTreeSet::new() };
        }
        self.changed.retain(|_, at| now < *at + SEEN_AFTER);
        let not_resizable = &self.not_resizable.pods;
        let changed = &mut self.changed;
        let view = |pod: &PodRecord| {
            let sizes = sizes(pod);
            let fits = fits(&sizes, wanted);
            if pod.is_leaving || fits {
                changed.remove(&pod.uid);
            }
            let is_stuck = match pod.resize {
                Some(ResizeState::Infeasible) => fits,
                Some(ResizeState::Deferred { since } | ResizeState::Underway { since }) => {
                    fits && since + MAX_DEFERRED <= now
                }
                None => false,
            };
            // A resize to an outdated size may be replaced by one to this size.
            let is_underway = matches!(pod.resize, Some(ResizeState::Underway { .. }));
            PodView {
                name: pod.name.clone(),
                created: pod.started,
                ready_since: pod.ready_since,
                unready_since: pod.unready_since,
                has_failed: pod.has_failed,
                is_changing: pod.is_leaving
                    || (is_underway && fits && !is_stuck)
                    || changed.contains_key(&pod.uid),
                was_sized: pod.was_sized,
                cannot_resize: is_stuck || not_resizable.contains(&pod.uid),
                sizes,
            }
        };
        pods.iter().map(view).collect()
    }

    /// Whether a part differs from what was written last.
    fn is_change(&self, part: &Part, now: SimTime) -> bool {
        self.written.as_ref().is_none_or(|(written, at)| {
            written.without_countdown() != part.without_countdown()
                || (written != part && *at + REWRITE_AFTER <= now)
        })
    }
}

/// The updater's part of a status.
#[derive(Debug, Clone, PartialEq, Default)]
struct Part {
    last_scale_time: Option<Time>,
    rollout: RolloutStatus,
}

impl Part {
    fn without_countdown(&self) -> Self {
        let mut part = self.clone();
        part.rollout.acting = part.rollout.acting.as_ref().map(without_countdown);
        part
    }
}

impl Updater {
    /// An updater without state.
    pub fn new(ctx: Arc<Context>) -> Arc<Self> {
        Arc::new(Self { ctx, slots: Slots::default() })
    }

    /// Applies recommendations when a status changes and at an interval, as long as the process
    /// runs.
    pub async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Key>, heartbeat: Heartbeat) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut updates = JoinSet::new();
        loop {
            heartbeat.beat();
            let keys = tokio::select! {
                Some(update) = updates.join_next() => {
                    // A panic while one object is updated must not stop the updates of the others.
                    if update.is_err() {
                        self.ctx.telemetry.panicked();
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    let objects = self.ctx.objects.state();
                    objects.iter().map(|object| key_of(&**object)).collect()
                }
                key = changes.recv() => {
                    let Some(key) = key else { return };
                    vec![key]
                }
            };
            if !self.ctx.is_leader() {
                // The state would be outdated after the changes of another leader.
                self.slots.retain(|_| false);
                continue;
            }
            for key in keys {
                let this = self.clone();
                updates.spawn(async move {
                    if tokio::time::timeout(MAX_UPDATE_TIME, this.update(&key)).await.is_err() {
                        this.ctx.telemetry.server_timed_out("update", MAX_UPDATE_TIME);
                    }
                });
            }
        }
    }

    async fn update(&self, key: &Key) {
        let slot = self.slots.of(key);
        // Another update of the object is running, and the next one follows soon.
        let Ok(mut slot) = slot.try_lock() else { return };
        let Some(guarded) = self.ctx.object(key) else {
            self.slots.retain(|other| other != key);
            return;
        };
        let Ok(object) = &guarded.0 else { return };
        let (Some(status), Ok(plan)) = (&object.status, Plan::try_new(&object.spec)) else {
            return;
        };
        if object.meta().deletion_timestamp.is_some() {
            return;
        }
        let update = Update { ctx: &self.ctx, object, status, plan: &plan, now: now() };
        if update.is_about_to_be_recommended() {
            return;
        }
        let part = update.apply(&mut slot).await;
        slot.known = Some(part.clone());
        if slot.is_change(&part, update.now) && update.write(&part).await {
            slot.written = Some((part, update.now));
        }
    }
}

/// One update of one object.
struct Update<'a> {
    ctx: &'a Context,
    object: &'a MultidimPodAutoscaler,
    status: &'a MultidimPodAutoscalerStatus,
    plan: &'a Plan,
    now: SimTime,
}

impl Update<'_> {
    async fn apply(&self, slot: &mut Slot) -> Part {
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
    fn is_about_to_be_recommended(&self) -> bool {
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

    async fn write(&self, part: &Part) -> bool {
        let status = MultidimPodAutoscalerStatus {
            last_scale_time: part.last_scale_time.clone(),
            rollout: Some(part.rollout.clone()),
            ..MultidimPodAutoscalerStatus::default()
        };
        self.ctx.write_status(&key_of(self.object), FIELD_MANAGER, &status).await
    }
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

fn sizes(pod: &PodRecord) -> Sizes {
    let size = |container: &ContainerRecord| {
        let cpu = container.cpu_request.unwrap_or_default();
        (container.name.clone(), (cpu, container.memory_request.unwrap_or_default()))
    };
    pod.containers.iter().map(size).collect()
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
    use homeostat_core::{Bytes, Millicores};

    fn pod(uid: &str, millicores: u64) -> PodRecord {
        let container = ContainerRecord {
            name: "app".to_owned(),
            cpu_request: Some(Millicores::new(millicores)),
            memory_request: Some(Bytes::from_mib(64)),
            cpu_limit: None,
            memory_limit: None,
            oom_killed_at: None,
        };
        PodRecord {
            name: "checkout-0".to_owned(),
            uid: uid.to_owned(),
            started: SimTime::ZERO,
            ready_since: Some(SimTime::ZERO),
            unready_since: None,
            has_failed: false,
            is_leaving: false,
            was_sized: false,
            resize: None,
            containers: vec![container],
        }
    }

    fn wanted() -> WantedSizes {
        let size = (Millicores::new(250), Bytes::from_mib(64));
        WantedSizes::from([("app".to_owned(), size.into())])
    }

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    #[test]
    fn a_change_counts_before_the_cache_shows_it() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let is_changing = |slot: &mut Slot, pod: PodRecord, seconds: u64| {
            slot.views(&[pod], &wanted, at(seconds))[0].is_changing
        };
        assert!(!is_changing(&mut slot, pod("a", 500), 0));
        slot.changed.insert("a".to_owned(), at(0));
        assert!(is_changing(&mut slot, pod("a", 500), 1));
        // Another pod of the same name, as in a StatefulSet, was not changed.
        assert!(!is_changing(&mut slot, pod("b", 500), 2));
        // A pod that was resized shows it; one that never does is tried again.
        assert!(!is_changing(&mut slot, pod("a", 250), 3));
        slot.changed.insert("a".to_owned(), at(3));
        assert!(!is_changing(&mut slot, pod("a", 500), 33));
    }

    #[test]
    fn an_infeasible_resize_fails_at_once_and_a_deferred_one_after_a_while() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let mut is_stuck = |millicores: u64, resize: ResizeState, seconds: u64| {
            let pod = PodRecord { resize: Some(resize), ..pod("a", millicores) };
            slot.views(&[pod], &wanted, at(seconds))[0].cannot_resize
        };
        assert!(is_stuck(250, ResizeState::Infeasible, 1));
        // The node refused another size than the one that is wanted now.
        assert!(!is_stuck(500, ResizeState::Infeasible, 1));
        assert!(!is_stuck(250, ResizeState::Deferred { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Deferred { since: at(0) }, 300));
        // A memory limit below the usage is never reached.
        assert!(!is_stuck(250, ResizeState::Underway { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Underway { since: at(0) }, 300));
    }

    #[test]
    fn a_resize_to_an_outdated_size_is_replaced() {
        let is_changing = |millicores: u64| {
            let resize = Some(ResizeState::Underway { since: at(0) });
            let pod = PodRecord { resize, ..pod("a", millicores) };
            Slot::default().views(&[pod], &wanted(), at(1))[0].is_changing
        };
        assert!(is_changing(250));
        assert!(!is_changing(500));
    }

    #[test]
    fn remaining_seconds_are_written_once_a_minute_and_pods_at_once() {
        let part = |updated: u32, seconds: u64| {
            let message = format!("the canaries are observed for another {seconds}s");
            let reason = ConditionReason::CanaryWatched.to_string();
            let acting = Some(Acting { is_acting: false, reason, message });
            let rollout = RolloutStatus { updated, acting, ..RolloutStatus::default() };
            Part { rollout, ..Part::default() }
        };
        let slot = Slot { written: Some((part(1, 290), at(0))), ..Slot::default() };
        assert!(!slot.is_change(&part(1, 285), at(5)));
        assert!(slot.is_change(&part(2, 285), at(5)));
        assert!(slot.is_change(&part(1, 230), at(60)));
        assert!(!slot.is_change(&part(1, 290), at(60)));
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
