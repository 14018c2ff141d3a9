//! The updater: carries out what the status of an object says, no more and no faster than its
//! limits of disruption allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_core::{SimDuration, SimTime};
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Duration, MissedTickBehavior};

use super::context::{Context, Key, Slots, key_of, now};
use super::countdown::without_countdown;
use super::report::{sim_time, time};
use crate::api::{
    Acting, ConditionReason, ConditionType, Mode, MultidimPodAutoscaler,
    MultidimPodAutoscalerStatus, Plan, Rollout as RolloutStatus, UpdateMode,
};
use crate::cluster::{ContainerRecord, PodRecord, ResizeState, TargetError, read_selector};
use crate::guard::{PAUSE_ANNOTATION, Pause};
use crate::update::{
    ANSWERED_WITHIN, Applied, Blocked, NextPods, PodStep, PodView, Rollout, Sizes, WantedSizes,
    apply, fits, may_be_done, next_pods, wanted_sizes,
};

/// Who owns the updater's part of a status.
const FIELD_MANAGER: &str = "homeostat-updater";

/// A recommendation older than this, and than some looks of the recommender, is not carried out:
/// whoever made it no longer looks.
const MOST_AGE: SimDuration = SimDuration::from_secs(180);

/// Looks of the recommender that may be missed before it counts as gone.
const MOST_LOOKS: u64 = 3;

/// Seconds that remain are told again after this, so that they do not mislead.
const RETOLD_AFTER: SimDuration = SimDuration::from_secs(60);

const HOUR: SimDuration = SimDuration::from_secs(3600);

/// A pod that was changed shows it in the cache by then, or the change came to nothing.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(30);

/// A node that has no room for this long, or does not get done, is not waited for any longer.
const MOST_DEFERRED: SimDuration = SimDuration::from_secs(300);

/// Who says no, such as a disruption budget, is asked again after this. Every time is written
/// down before, which wakes us up: without a pause there would be no end to it.
const ASKED_AGAIN_AFTER: SimDuration = SimDuration::from_secs(10);

/// Pods become ready and windows open without the object changing: it is looked at again.
const INTERVAL: Duration = Duration::from_secs(5);

/// A look that takes longer has lost its server, and is begun anew.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Carries out recommendations.
pub struct Updater {
    ctx: Arc<Context>,
    slots: Slots<Slot>,
}

/// What is remembered of one object. All of it can be lost: the status and the cluster say
/// what was done. But caches lag behind both, and must not make it be done twice.
#[derive(Default)]
struct Slot {
    /// The recommendation whose number of pods was asked for last, and the number: two of one
    /// second may differ.
    scaled_for: Option<(SimTime, u32)>,
    /// What is known to have been done, also if it could not be written.
    known: Option<Part>,
    /// What was written last, and when.
    written: Option<(Part, SimTime)>,
    /// Pods that were evicted or resized, by uid, and when.
    changed: BTreeMap<String, SimTime>,
    /// When the server last refused to go on, and why.
    refusal: Option<(SimTime, Refusal)>,
    /// Pods that the server does not resize to these sizes, by uid.
    refused: (WantedSizes, BTreeSet<String>),
}

/// Why steps are not gone on with, in one word and in a sentence.
type Refusal = (ConditionReason, String);

/// What came of the steps of one look.
#[derive(Default)]
struct Changes {
    /// Pods that were resized or evicted.
    done: usize,
    /// Why a pod cannot be resized where it is.
    not_resizable: Option<String>,
    /// Why the other steps were left.
    refused: Option<Refusal>,
}

impl Slot {
    /// Pods as they are once the cache shows what was done.
    fn views(&mut self, pods: &[PodRecord], wanted: &WantedSizes, now: SimTime) -> Vec<PodView> {
        if self.refused.0 != *wanted {
            self.refused = (wanted.clone(), BTreeSet::new());
        }
        self.changed.retain(|_, at| now < *at + SEEN_AFTER);
        let refused = &self.refused.1;
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
                    fits && since + MOST_DEFERRED <= now
                }
                None => false,
            };
            // One that is on its way to another size may be sent to this one.
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
                cannot_resize: is_stuck || refused.contains(&pod.uid),
                sizes,
            }
        };
        pods.iter().map(view).collect()
    }

    /// Whether a part says something that was not written yet.
    fn is_news(&self, part: &Part, now: SimTime) -> bool {
        self.written.as_ref().is_none_or(|(written, at)| {
            written.without_countdown() != part.without_countdown()
                || (written != part && *at + RETOLD_AFTER <= now)
        })
    }
}

/// The updater's part of a status.
#[derive(Debug, Clone, PartialEq, Default)]
struct Part {
    last_scale_time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
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
    /// One that has done nothing yet.
    pub fn new(ctx: Arc<Context>) -> Arc<Self> {
        Arc::new(Self { ctx, slots: Slots::default() })
    }

    /// Carries out what statuses say for as long as the program runs.
    pub async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Key>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let keys = tokio::select! {
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
                // Whoever leads meanwhile writes what we would remember otherwise.
                self.slots.retain(|_| false);
                continue;
            }
            for key in keys {
                let this = self.clone();
                tokio::spawn(async move {
                    if tokio::time::timeout(MOST_TIME, this.look(&key)).await.is_err() {
                        this.ctx.telemetry.server_silent("update", MOST_TIME);
                    }
                });
            }
        }
    }

    async fn look(&self, key: &Key) {
        let slot = self.slots.of(key);
        // Somebody is at it already, and will be again soon.
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
        let work = Work { ctx: &self.ctx, object, status, plan: &plan, now: now() };
        if work.is_about_to_be_recommended() {
            return;
        }
        let part = work.carry_out(&mut slot).await;
        slot.known = Some(part.clone());
        if slot.is_news(&part, work.now) && work.write(&part).await {
            slot.written = Some((part, work.now));
        }
    }
}

/// One object at one moment.
struct Work<'a> {
    ctx: &'a Context,
    object: &'a MultidimPodAutoscaler,
    status: &'a MultidimPodAutoscalerStatus,
    plan: &'a Plan,
    now: SimTime,
}

impl Work<'_> {
    async fn carry_out(&self, slot: &mut Slot) -> Part {
        let mut part = slot.known.clone().unwrap_or_else(|| Part {
            last_scale_time: self.status.last_scale_time.clone(),
            rollout: self.status.rollout.clone().unwrap_or_default(),
        });
        let (is_acting, reason, mut message) = match self.obstacle() {
            Some((reason, message)) => (false, reason, message),
            None => {
                let scaled = self.scale(slot, &mut part).await;
                let resized = self.resize(slot, &mut part).await;
                match scaled {
                    Err((reason, message)) => (false, reason, message),
                    Ok(()) => resized,
                }
            }
        };
        if let Some(ended) = self.ctx.webhook.as_ref().and_then(|shown| shown.ended_lately()) {
            message.push_str(&format!(
                "; the webhook's certificate had ended at {ended} and was replaced: pods that \
                 started in between have the size of their template"
            ));
        }
        part.rollout.acting = Some(Acting { is_acting, reason: reason.to_string(), message });
        part
    }

    /// Whether somebody has just written the object: the recommender looks at it in a moment, and
    /// nothing is done or said before.
    fn is_about_to_be_recommended(&self) -> bool {
        !self.is_of_this_spec()
            && self.recommended_at().is_some_and(|at| {
                self.now.saturating_since(at) <= most_age(self.ctx.options.interval)
            })
    }

    /// When the recommendation was made.
    fn recommended_at(&self) -> Option<SimTime> {
        self.status.recommended_at.as_ref().map(sim_time)
    }

    /// Whether the status is of the object as it is written now.
    fn is_of_this_spec(&self) -> bool {
        self.status.observed_generation == self.object.meta().generation
    }

    /// What keeps this object from being touched at all.
    fn obstacle(&self) -> Option<(ConditionReason, String)> {
        if !matches!(self.plan.mode, Mode::Auto | Mode::Canary) {
            let message = format!("mode {:?} changes nothing", self.plan.mode);
            return Some((ConditionReason::NotInMode, message));
        }
        let ready = ConditionType::Ready.to_string();
        let ready = self.status.conditions.iter().find(|condition| condition.type_ == ready);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let made_at = self.recommended_at();
        if !is_ready || !self.is_of_this_spec() || made_at.is_none() {
            let message = "there is no recommendation for the object as it is now".to_owned();
            return Some((ConditionReason::NoRecommendation, message));
        }
        let age = self.now.saturating_since(made_at.unwrap_or(self.now));
        if age > most_age(self.ctx.options.interval) {
            let message = format!("the recommendation is {:.0}s old", age.seconds());
            return Some((ConditionReason::NoRecommendation, message));
        }
        let pause = self.object.annotations().get(PAUSE_ANNOTATION);
        if pause.is_some_and(|value| !matches!(Pause::read(value), Ok(Pause::In | Pause::Out))) {
            let message = format!("annotation {PAUSE_ANNOTATION} pauses everything");
            return Some((ConditionReason::Paused, message));
        }
        None
    }

    /// Asks for the recommended number of pods, once for every recommendation.
    async fn scale(
        &self,
        slot: &mut Slot,
        part: &mut Part,
    ) -> Result<(), (ConditionReason, String)> {
        let (Some(current), Some(desired)) =
            (self.status.current_replicas, self.status.desired_replicas)
        else {
            return Ok(());
        };
        let asked_for = self.recommended_at().map(|at| (at, desired));
        if current == desired || slot.scaled_for == asked_for || !self.ctx.is_leader() {
            return Ok(());
        }
        let namespace = self.object.namespace().unwrap_or_default();
        let change = (current, desired);
        let set = self.ctx.targets.set_replicas(&namespace, &self.plan.target, change).await;
        match set {
            Ok(()) => {}
            Err(error @ (TargetError::Changed { .. } | TargetError::Busy { .. })) => {
                self.ctx.telemetry.outrun();
                let message = format!("{error}: the next recommendation is waited for");
                return Err((ConditionReason::NoRecommendation, message));
            }
            Err(error) => {
                self.ctx.telemetry.target_error(&error);
                let message = format!("the number of pods cannot be changed: {error}");
                return Err((ConditionReason::ServerUnavailable, message));
            }
        }
        slot.scaled_for = asked_for;
        part.last_scale_time = Some(time(self.now));
        self.ctx.telemetry.rescaled(current, desired);
        let why = self.status.decisions.first().map(|decision| decision.reasons.join("; "));
        let note = format!("{current} -> {desired} pods: {}", why.unwrap_or_default());
        self.ctx.tell(self.object, false, &ConditionReason::Rescaled.to_string(), &note).await;
        Ok(())
    }

    /// Resizes or evicts as many pods as may be now.
    async fn resize(&self, slot: &mut Slot, part: &mut Part) -> (bool, ConditionReason, String) {
        let fine = |message: &str| (true, ConditionReason::AsPlanned, message.to_owned());
        let wanted = wanted_sizes(self.status);
        let selector = self.status.selector.as_deref().and_then(|text| read_selector(text).ok());
        let (Some(wanted), Some(selector)) = (wanted, selector) else {
            return fine("nothing is to be resized");
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
        let kept = ConditionType::ObjectiveKept.to_string();
        let kept = self.status.conditions.iter().find(|condition| condition.type_ == kept);
        let is_kept = kept.and_then(|kept| match &kept.status[..] {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        });
        let inputs = NextPods {
            now: self.now,
            minute_of_week: minute_of_week(self.now),
            plan: self.plan,
            wanted: &wanted,
            pods: &views,
            replicas: self.status.desired_replicas.unwrap_or(views.len() as u32),
            can_resize: self.ctx.capabilities().resizes_pods,
            is_webhook_unknown: self.ctx.webhook.as_ref().is_some_and(|shown| !shown.is_believed()),
            is_kept,
            rollout: &rollout,
        };
        let (mut steps, mut blocked) = next_pods(&inputs);
        // Who leaves is counted no longer.
        let staying = pods.iter().filter(|pod| !pod.is_leaving).count();
        part.rollout.updated = inputs.updated();
        part.rollout.outdated = (staying as u32).saturating_sub(inputs.updated());
        part.rollout.canary_since = inputs.canary_since().map(time);
        let mut refused = None;
        if !steps.is_empty()
            && let Some((at, refusal)) = &slot.refusal
            && self.now < *at + ASKED_AGAIN_AFTER
        {
            refused = Some(refusal.clone());
            steps.clear();
        }
        if steps.iter().any(|step| matches!(step, PodStep::Evict(_)))
            && let Err(obstacle) = self.comes_back(&namespace).await
        {
            return obstacle;
        }
        if !self.write_ahead(slot, part, &steps, &rollout).await {
            let message = "what is about to be evicted cannot be written down".to_owned();
            return (false, ConditionReason::ServerUnavailable, message);
        }
        let wanted = (&wanted, &pods[..]);
        let changes = self.change(slot, &mut rollout, &steps, wanted).await;
        if let Some(refusal) = changes.refused {
            slot.refusal = Some((self.now, refusal.clone()));
            refused = Some(refusal);
        }
        part.rollout.evictions = rollout.evictions.iter().map(|at| time(*at)).collect();
        if changes.done > 0 {
            let note = format!("{} of {} pods get the recommended size", changes.done, views.len());
            self.ctx.tell(self.object, false, &ConditionReason::Resized.to_string(), &note).await;
            blocked = None;
        }
        if let Some((reason, why)) = refused {
            return (false, reason, why);
        }
        if changes.done == 0
            && let Some(why) = changes.not_resizable
        {
            let then = match self.plan.update_mode {
                UpdateMode::InPlace => "update mode InPlace evicts none",
                _ => "evictions are next",
            };
            let message = format!("pods cannot be resized where they are, and {then}: {why}");
            return (false, ConditionReason::ResizeRefused, message);
        }
        match blocked {
            None => fine("changes are carried out"),
            Some(blocked) => {
                let reason = match blocked {
                    Blocked::Mode | Blocked::InitialOnly | Blocked::CannotResize => {
                        ConditionReason::NotInMode
                    }
                    Blocked::ResizeRefused => ConditionReason::ResizeRefused,
                    Blocked::OutsideMaintenance => ConditionReason::OutsideMaintenance,
                    Blocked::Canary { .. } => ConditionReason::CanaryWatched,
                    Blocked::CanaryFailed => ConditionReason::ObjectiveBroken,
                    Blocked::WebhookUnknown | Blocked::NotSizedAtBirth => {
                        ConditionReason::WebhookSilent
                    }
                    Blocked::Unavailable { .. }
                    | Blocked::EvictionRate { .. }
                    | Blocked::TooYoung => ConditionReason::DisruptionLimited,
                };
                (false, reason, blocked.to_string())
            }
        }
    }

    /// Carries out steps one after the other, until the server says no.
    async fn change(
        &self,
        slot: &mut Slot,
        rollout: &mut Rollout,
        steps: &[PodStep],
        (wanted, pods): (&WantedSizes, &[PodRecord]),
    ) -> Changes {
        let namespace = self.object.namespace().unwrap_or_default();
        let mut changes = Changes::default();
        for step in steps {
            if !self.ctx.is_leader() {
                let why = "another copy leads now".to_owned();
                changes.refused = Some((ConditionReason::DisruptionLimited, why));
                break;
            }
            let (PodStep::Resize(name) | PodStep::Evict(name)) = step;
            let uid = pods.iter().find(|pod| pod.name == *name).map(|pod| pod.uid.clone());
            let uid = uid.unwrap_or_default();
            let applied = apply(&self.ctx.client, &namespace, step, wanted, pods).await;
            // What may have been done counts as done; what was refused does not.
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
            match applied {
                Ok(Applied::Done) => {
                    changes.done += 1;
                    self.ctx.telemetry.resized(step);
                }
                // Where evictions are wanted, the next look evicts it.
                Ok(Applied::CannotResize { why }) => {
                    tracing::info!(pod = name, why, "it cannot be resized");
                    slot.refused.1.insert(uid);
                    changes.not_resizable = Some(why);
                }
                Ok(Applied::BudgetSaysNo { why }) => {
                    changes.refused = Some((ConditionReason::DisruptionLimited, why));
                    break;
                }
                Ok(Applied::Gone) => {}
                Ok(Applied::Unanswered) => {
                    self.ctx.telemetry.server_silent("resize", ANSWERED_WITHIN);
                    let seconds = ANSWERED_WITHIN.as_secs();
                    let why = format!("the API server did not answer for {seconds}s");
                    changes.refused = Some((ConditionReason::ServerUnavailable, why));
                    break;
                }
                Err(error) => {
                    self.ctx.telemetry.server_error("resize", &error);
                    changes.refused = Some((ConditionReason::ServerUnavailable, error.to_string()));
                    break;
                }
            }
        }
        changes
    }

    /// Whether somebody makes evicted pods anew: the recommendation may be older than the end of
    /// its target.
    async fn comes_back(&self, namespace: &str) -> Result<(), (bool, ConditionReason, String)> {
        let asked = self.ctx.targets.scale(namespace, &self.plan.target).await;
        asked.map(|_| ()).map_err(|error| {
            let message = format!("nothing is evicted: {error}");
            (false, ConditionReason::NoRecommendation, message)
        })
    }

    /// Writes evictions down before they are done: whoever goes on after a crash knows of every
    /// one, and at worst of some that were not.
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
        // A look that is broken off does not say which of them were done.
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

fn sizes(pod: &PodRecord) -> Sizes {
    let size = |container: &ContainerRecord| {
        let cpu = container.cpu_request.unwrap_or_default();
        (container.name.clone(), (cpu, container.memory_request.unwrap_or_default()))
    };
    pod.containers.iter().map(size).collect()
}

/// The age that a recommendation may have, of a recommender that looks at this interval.
fn most_age(interval: Duration) -> SimDuration {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    MOST_AGE.max(SimDuration::from_nanos(nanos.saturating_mul(MOST_LOOKS)))
}

/// Minute of the week of a time, from Monday 00:00 UTC. The first of January 1970 was a
/// Thursday.
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
    fn what_was_done_counts_before_the_cache_shows_it() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let is_changing = |slot: &mut Slot, pod: PodRecord, seconds: u64| {
            slot.views(&[pod], &wanted, at(seconds))[0].is_changing
        };
        assert!(!is_changing(&mut slot, pod("a", 500), 0));
        slot.changed.insert("a".to_owned(), at(0));
        assert!(is_changing(&mut slot, pod("a", 500), 1));
        // Another of the same name, as those of a StatefulSet, was not touched.
        assert!(!is_changing(&mut slot, pod("b", 500), 2));
        // One that is resized shows it, and one that never does is tried again.
        assert!(!is_changing(&mut slot, pod("a", 250), 3));
        slot.changed.insert("a".to_owned(), at(3));
        assert!(!is_changing(&mut slot, pod("a", 500), 33));
    }

    #[test]
    fn a_node_that_refuses_is_believed_at_once_and_one_that_waits_after_a_while() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let mut is_stuck = |millicores: u64, resize: ResizeState, seconds: u64| {
            let pod = PodRecord { resize: Some(resize), ..pod("a", millicores) };
            slot.views(&[pod], &wanted, at(seconds))[0].cannot_resize
        };
        assert!(is_stuck(250, ResizeState::Infeasible, 1));
        // It was refused another size than the one that is wanted now.
        assert!(!is_stuck(500, ResizeState::Infeasible, 1));
        assert!(!is_stuck(250, ResizeState::Deferred { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Deferred { since: at(0) }, 300));
        // A smaller limit of memory than what is used is never reached.
        assert!(!is_stuck(250, ResizeState::Underway { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Underway { since: at(0) }, 300));
    }

    #[test]
    fn a_pod_on_its_way_to_a_size_that_is_wanted_no_longer_is_sent_to_the_new_one() {
        let is_changing = |millicores: u64| {
            let resize = Some(ResizeState::Underway { since: at(0) });
            let pod = PodRecord { resize, ..pod("a", millicores) };
            Slot::default().views(&[pod], &wanted(), at(1))[0].is_changing
        };
        assert!(is_changing(250));
        assert!(!is_changing(500));
    }

    #[test]
    fn seconds_that_remain_are_written_once_a_minute_and_pods_at_once() {
        let part = |updated: u32, seconds: u64| {
            let message = format!("the first pods are watched for another {seconds}s");
            let reason = ConditionReason::CanaryWatched.to_string();
            let acting = Some(Acting { is_acting: false, reason, message });
            let rollout = RolloutStatus { updated, acting, ..RolloutStatus::default() };
            Part { rollout, ..Part::default() }
        };
        let slot = Slot { written: Some((part(1, 290), at(0))), ..Slot::default() };
        assert!(!slot.is_news(&part(1, 285), at(5)));
        assert!(slot.is_news(&part(2, 285), at(5)));
        assert!(slot.is_news(&part(1, 230), at(60)));
        assert!(!slot.is_news(&part(1, 290), at(60)));
    }

    #[test]
    fn a_recommender_that_seldom_looks_is_given_three_looks() {
        assert_eq!(most_age(Duration::from_secs(15)), SimDuration::from_secs(180));
        assert_eq!(most_age(Duration::from_secs(300)), SimDuration::from_secs(900));
    }

    #[test]
    fn the_week_begins_on_monday() {
        // 2026-11-16 00:00:00 UTC is a Monday.
        assert_eq!(minute_of_week(at(1_794_787_200)), 0);
        assert_eq!(minute_of_week(at(1_794_787_200 + 90)), 1);
        assert_eq!(minute_of_week(at(1_794_787_200 - 60)), 7 * 24 * 60 - 1);
    }
}
