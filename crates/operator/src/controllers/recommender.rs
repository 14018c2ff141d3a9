//! The recommender: reconciles every object at an interval, and single ones when they change.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, RwLock};

use futures::{StreamExt, stream};
use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::context::{ApiPermit, Context, Key, Slots, key_of, now};
use super::measurements::{Answers, Measurements, Usage, ask_all};
use super::oom_kills::OomKills;
use super::report::{StatusBuilder, time};
use super::resolved_target::{OtherAutoscalers, Refused, ResolvedTarget, list_all, resolve_target};
use super::watch::all_of;
use crate::api::{
    ConditionReason, ConditionType, LearnerActions, Mode, MultidimPodAutoscaler,
    MultidimPodAutoscalerCheckpoint, MultidimPodAutoscalerCheckpointSpec,
    MultidimPodAutoscalerStatus, Plan, Recommender as PlanRecommender, ScaleTargetRef,
    event_reason,
};
use crate::cluster::LimitRanges;
use crate::guard::{PAUSE_ANNOTATION, Pause, read_pause};
use crate::learn::{Advice, PolicyFile, Transition};
use crate::recommend::{Engine, Inputs, Outcome, from_text, to_text};
use crate::supervisor::Heartbeat;
use crate::telemetry::Outage;

/// Field manager of the recommender's part of a status.
const FIELD_MANAGER: &str = "homeostat-recommender";

/// An unchanged status is written again after this time, so that its age shows that the
/// recommender works.
const REWRITE_AFTER: SimDuration = SimDuration::from_secs(60);

/// The cache shows what was written within this time.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(3);

/// A reconcile that takes longer is waiting for a server that does not answer, and is cancelled.
const MAX_RECONCILE_TIME: Duration = Duration::from_secs(60);

/// A resync takes at most this long: every request to a server has a time limit, and together they
/// stay below it.
const MAX_RESYNC_TIME: Duration = Duration::from_secs(180);

/// The condition `Ready` mentions an outage of the API server for this long.
const OUTAGE_SHOWN_FOR: SignedDuration = SignedDuration::from_mins(10);

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Writes recommendations into the status of every object.
pub struct Recommender {
    ctx: Arc<Context>,
    slots: Slots<Slot>,
    /// None before the first resync.
    snapshot: RwLock<Option<Arc<ClusterSnapshot>>>,
    /// Held while the snapshot is refreshed for a new namespace: other reconciles wait for it.
    refreshing: tokio::sync::Mutex<()>,
    /// Reconciles of objects with an external learner.
    waiting_for_learners: Mutex<JoinSet<()>>,
}

/// What is read once from the cluster for all objects.
struct ClusterSnapshot {
    /// The namespaces that had objects.
    namespaces: BTreeSet<String>,
    usage: Usage,
    others: OtherAutoscalers,
    /// Or why they could not be listed yet.
    limit_ranges: Result<Arc<LimitRanges>, String>,
}

/// State of one object.
#[derive(Default)]
struct Slot {
    /// Uid of the object and generation of its spec that the engine was made for.
    version: Option<(Option<String>, Option<i64>)>,
    engine: Option<Engine>,
    policy_file: Option<PolicyFile>,
    oom_kills: OomKills,
    written: Option<(MultidimPodAutoscalerStatus, SimTime)>,
    checkpointed_at: Option<SimTime>,
    /// The last outage of the API server for which an event was published.
    published_outage: Option<Outage>,
}

/// What a recommendation for one object is made from.
struct Request<'a> {
    object: &'a MultidimPodAutoscaler,
    plan: Plan,
    answers: Answers,
    snapshot: &'a ClusterSnapshot,
    now: SimTime,
}

/// A recommendation, and what it was made from.
struct Recommended {
    plan: Plan,
    target: ResolvedTarget,
    inputs: Inputs,
    outcome: Outcome,
}

impl Recommender {
    /// A recommender without state.
    pub fn new(ctx: Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            slots: Slots::default(),
            snapshot: RwLock::default(),
            refreshing: tokio::sync::Mutex::default(),
            waiting_for_learners: Mutex::default(),
        })
    }

    /// The time within which a resync starts and ends.
    pub fn deadline(&self) -> Duration {
        self.ctx.options.interval * 2 + MAX_RESYNC_TIME
    }

    /// Resyncs all objects at an interval, and reconciles single ones when they change, as long as
    /// the process runs.
    pub async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Key>, heartbeat: Heartbeat) {
        let mut ticks = tokio::time::interval(self.ctx.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leads = self.ctx.leads.from_now_on();
        // At most one.
        let mut resyncs = JoinSet::new();
        let mut reconciles = JoinSet::new();
        loop {
            tokio::select! {
                // Objects were not reconciled since the previous leader was lost.
                () = leads.changed() => ticks.reset_immediately(),
                _ = ticks.tick() => {
                    if !self.ctx.is_leader() {
                        // The next leader continues from the checkpoints; this memory is outdated.
                        self.forget();
                        heartbeat.beat();
                    } else if resyncs.is_empty() {
                        let this = self.clone();
                        resyncs.spawn(async move { this.resync().await });
                    }
                }
                Some(resync) = resyncs.join_next() => match resync {
                    Ok(()) => heartbeat.beat(),
                    Err(error) => if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    },
                },
                Some(reconcile) = reconciles.join_next() => self.count_panic(&reconcile),
                key = changes.recv() => {
                    let Some(key) = key else { return };
                    if self.ctx.is_leader() {
                        let this = self.clone();
                        reconciles.spawn(async move { this.reconcile(&key).await });
                    }
                }
            }
        }
    }

    /// A panic while one object is reconciled must not keep the others from being reconciled.
    fn count_panic(&self, reconcile: &Result<(), JoinError>) {
        if reconcile.is_err() {
            self.ctx.telemetry.panicked();
        }
    }

    /// Reconciles every object once.
    pub async fn resync(self: &Arc<Self>) {
        let started = Instant::now();
        let keys: Vec<Key> =
            self.ctx.objects.state().iter().map(|object| key_of(&**object)).collect();
        self.refresh_snapshot().await;
        self.slots.retain(|key| {
            let is_there = self.ctx.object(key).is_some();
            if !is_there {
                self.ctx.telemetry.forget(key);
            }
            is_there
        });
        self.ctx.learners.retain(|key| self.ctx.object(key).is_some());
        let objects = keys.len();
        let mut reconciles = JoinSet::new();
        for key in keys {
            let this = self.clone();
            if !self.has_external_learner(&key) {
                reconciles.spawn(async move { this.reconcile(&key).await });
            } else if self.slots.of(&key).try_lock().is_ok() {
                // A resync does not wait for learners, which may take longer than the interval.
                let mut waiting = self.waiting_for_learners.lock().expect(NOT_POISONED);
                waiting.spawn(async move { this.reconcile(&key).await });
            }
        }
        while let Some(reconcile) = reconciles.join_next().await {
            self.count_panic(&reconcile);
        }
        let mut waiting = self.waiting_for_learners.lock().expect(NOT_POISONED);
        while let Some(reconcile) = waiting.try_join_next() {
            self.count_panic(&reconcile);
        }
        self.ctx.telemetry.resynced(objects, started.elapsed());
    }

    fn has_external_learner(&self, key: &Key) -> bool {
        let object = self.ctx.object(key);
        let object = object.as_ref().and_then(|guarded| guarded.0.as_ref().ok());
        let plan = object.and_then(|object| Plan::try_new(&object.spec).ok());
        plan.is_some_and(|plan| matches!(plan.recommender, PlanRecommender::External(..)))
    }

    /// Writes the checkpoint of every object, before the process ends. From here on nothing is
    /// decided, since no later checkpoint would contain it.
    pub async fn checkpoint_all(&self) {
        // A recommender that does not act forgets its slots, so they are taken first.
        let slots = self.slots.all();
        self.ctx.stop_acting();
        let write = async |(key, slot): (Key, Arc<tokio::sync::Mutex<Slot>>)| {
            let Some(object) = self.ctx.object(&key) else { return };
            let slot = slot.lock().await;
            let checkpoint = slot.engine.as_ref().map(|engine| checkpoint_of(engine, now()));
            drop(slot);
            if let (Ok(object), Some(checkpoint)) = (&object.0, checkpoint) {
                self.checkpoint(object, checkpoint).await;
            }
        };
        // Concurrently: little time is left, and another replica waits for the lease.
        let concurrency = self.ctx.options.concurrency;
        stream::iter(slots).for_each_concurrent(concurrency, write).await;
    }

    fn forget(&self) {
        self.slots.retain(|_| false);
        *self.snapshot.write().expect(NOT_POISONED) = None;
        self.ctx.telemetry.forget_all();
    }

    /// Reads once what the reconciles of all objects need.
    async fn refresh_snapshot(&self) {
        let objects = self.ctx.objects.state();
        let namespaces: BTreeSet<String> =
            objects.iter().map(|object| key_of(&**object).0).collect();
        let before = self.snapshot.read().expect(NOT_POISONED).clone();
        let (others, limit_ranges) =
            before.map(|before| (before.others.clone(), before.limit_ranges.clone())).unzip();
        let snapshot = ClusterSnapshot {
            usage: Usage::of(&self.ctx, &namespaces).await,
            others: OtherAutoscalers::of(&self.ctx, others.unwrap_or_default()).await,
            // No answer does not mean that they were deleted.
            limit_ranges: match (limit_ranges_of(&self.ctx).await, limit_ranges) {
                (Err(_), Some(Ok(before))) => Ok(before),
                (listed, _) => listed,
            },
            namespaces,
        };
        *self.snapshot.write().expect(NOT_POISONED) = Some(Arc::new(snapshot));
    }

    /// The snapshot for an object; none before the first resync, which reconciles all objects. It
    /// is refreshed for the first object of a namespace, whose usage it does not contain.
    async fn snapshot_for(&self, (namespace, _): &Key) -> Option<Arc<ClusterSnapshot>> {
        let latest = || self.snapshot.read().expect(NOT_POISONED).clone();
        let contains_namespace =
            |snapshot: &Arc<ClusterSnapshot>| snapshot.namespaces.contains(namespace);
        let snapshot = latest()?;
        if contains_namespace(&snapshot) {
            return Some(snapshot);
        }
        let _refreshing = self.refreshing.lock().await;
        if !latest().as_ref().is_some_and(contains_namespace) {
            self.refresh_snapshot().await;
        }
        latest()
    }

    async fn reconcile(&self, key: &Key) {
        let reconcile = self.reconcile_object(key);
        if tokio::time::timeout(MAX_RECONCILE_TIME, reconcile).await.is_err() {
            self.ctx.telemetry.server_timed_out("reconcile", MAX_RECONCILE_TIME);
        }
    }

    async fn reconcile_object(&self, key: &Key) {
        let Some(snapshot) = self.snapshot_for(key).await else { return };
        let slot = self.slots.of(key);
        let mut slot = slot.lock().await;
        let Some(guarded) = self.ctx.object(key) else { return };
        if guarded.meta().deletion_timestamp.is_some() {
            return;
        }
        let outage = self.ctx.telemetry.outage().filter(|outage| is_recent(outage.ended));
        let builder = |previous| StatusBuilder {
            generation: guarded.meta().generation,
            previous,
            now: now(),
            outage,
        };
        let plan = guarded.0.as_ref().ok().map(|object| Plan::try_new(&object.spec));
        let answers = match &plan {
            Some(Ok(plan)) if plan.mode != Mode::Off => ask_all(&self.ctx, plan).await,
            _ => Answers::default(),
        };
        let mut permit = self.ctx.api_permit().await;
        let started = Instant::now();
        match &guarded.0 {
            Ok(object) => {
                let previous = object.status.clone().unwrap_or_default();
                let builder = builder(&previous);
                let recommended = match plan.expect("an object that can be read has a spec") {
                    Ok(plan) => {
                        let snapshot = &snapshot;
                        let request = Request { object, plan, answers, snapshot, now: builder.now };
                        self.recommend(request, &mut slot, &mut permit).await
                    }
                    Err(error) => {
                        Err(Refused::new(ConditionReason::InvalidSpec, error.to_string()))
                    }
                };
                let status = match recommended {
                    Ok(Recommended { plan, target, inputs, outcome }) => {
                        builder.recommended(&plan, &target, &inputs, &outcome)
                    }
                    Err(refused) => builder.refused(&refused),
                };
                self.ctx.telemetry.recommended(key, object, &status);
                self.write(object, &mut slot, status, builder.now).await;
                self.publish_outage(object, &mut slot, outage).await;
            }
            Err(invalid) => {
                let previous = MultidimPodAutoscalerStatus::default();
                let builder = builder(&previous);
                let refused = Refused::new(ConditionReason::InvalidSpec, invalid.error.clone());
                let status = builder.refused(&refused);
                let written = slot.written.as_ref();
                if written.is_none_or(|(written, _)| !have_same_conditions(written, &status)) {
                    self.ctx.write_status(key, FIELD_MANAGER, &status).await;
                    self.export_conditions(key, &status);
                    slot.written = Some((status, builder.now));
                }
            }
        }
        self.ctx.telemetry.reconciled(started.elapsed());
    }

    async fn recommend(
        &self,
        request: Request<'_>,
        slot: &mut Slot,
        permit: &mut ApiPermit<'_>,
    ) -> Result<Recommended, Refused> {
        let Request { object, plan, answers, snapshot, now } = request;
        let target = resolve_target(&self.ctx, &snapshot.others, object, &plan).await?;
        let namespace = object.namespace().unwrap_or_default();
        let resource_limits = match &snapshot.limit_ranges {
            Ok(ranges) => ranges.limits(&namespace, &target.pods),
            Err(why) if matches!(plan.mode, Mode::Auto | Mode::Canary) => {
                let message =
                    format!("LimitRanges cannot be listed, and they might reject pods: {why}");
                return Err(Refused::new(ConditionReason::ServerUnavailable, message));
            }
            Err(_) => BTreeMap::new(),
        };
        self.prepare(object, &plan, slot).await?;
        let measurements = Measurements {
            namespace: &namespace,
            target: &target,
            usage: &snapshot.usage,
            answers,
            oom_kills: slot.oom_kills.count(&target.pods, now),
            now,
        };
        let inputs = measurements.inputs(self.ctx.options.interval);
        let pause = self.pause(object).await;
        let engine = slot.engine.as_mut().expect("it was prepared");
        engine.confine(resource_limits);
        let advice = match &plan.recommender {
            PlanRecommender::Joint | PlanRecommender::HpaVpa => None,
            PlanRecommender::Policy(at) => {
                if slot.policy_file.as_ref().is_none_or(|file| file.at() != at) {
                    slot.policy_file = Some(PolicyFile::new(at.clone()));
                }
                let file = slot.policy_file.as_mut().expect("it was made above");
                file.refresh(&self.ctx.client, &namespace, now).await;
                Some(file.advice())
            }
            // Only an external learner needs the transition.
            PlanRecommender::External(actions, timeout) => match engine.show(&inputs) {
                Some(transition) => {
                    let advice = self.ask_learner(object, *actions, *timeout, transition);
                    // Other objects do not wait for this one's learner.
                    Some(permit.released_during(advice).await)
                }
                None => None,
            },
        };
        let outcome = engine.recommend(&inputs, pause, advice.as_ref()).ok_or_else(|| {
            let message = format!("{:?} has no pods to learn from yet", plan.target.name);
            Refused::new(ConditionReason::NoPods, message)
        })?;
        let interval = self.ctx.options.checkpoint_interval;
        // There is nothing to lose at the first reconcile. Each object has its own offset in the
        // interval, or thousands of checkpoints would be written at once.
        let last = slot.checkpointed_at.get_or_insert_with(|| earlier(now, interval, object));
        if now.saturating_since(*last).seconds() >= interval.as_secs_f64() {
            *last = now;
            self.checkpoint(object, checkpoint_of(engine, now)).await;
        }
        Ok(Recommended { plan, target, inputs, outcome })
    }

    /// Makes the engine of a plan. For a new generation of the object it takes over the state of
    /// the engine before, for a new object that of the checkpoint.
    async fn prepare(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
        slot: &mut Slot,
    ) -> Result<(), Refused> {
        let version = Some((object.uid(), object.meta().generation));
        if slot.version == version && slot.engine.is_some() {
            return Ok(());
        }
        let unavailable = |why: String| Refused::new(ConditionReason::RecommenderUnavailable, why);
        let mut engine = Engine::new(plan.clone(), self.ctx.options.trust)
            .map_err(|error| unavailable(error.to_string()))?;
        let before = slot.engine.take();
        let is_same = slot.version.as_ref().is_some_and(|(uid, _)| *uid == object.uid());
        let memory = match before.filter(|_| is_same) {
            Some(before) => fits(plan, before.plan().recommender.name(), &before.plan().target)
                .then(|| {
                    let mut memory = Snapshot::default();
                    before.save("engine", &mut memory);
                    memory
                }),
            None => self.read_checkpoint(object, plan).await?,
        };
        if let Some(memory) = memory
            && let Err(error) = engine.load("engine", &memory)
        {
            let note = format!("the history does not fit and is discarded: {error}");
            self.ctx.publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note).await;
            engine = Engine::new(plan.clone(), self.ctx.options.trust)
                .map_err(|error| unavailable(error.to_string()))?;
        }
        slot.engine = Some(engine);
        slot.version = version;
        Ok(())
    }

    async fn ask_learner(
        &self,
        object: &MultidimPodAutoscaler,
        actions: LearnerActions,
        timeout: SimDuration,
        transition: Transition,
    ) -> Advice {
        let patience = std::time::Duration::from_nanos(timeout.nanos());
        match self.ctx.learners.desk(&key_of(object), actions, patience) {
            Ok(session) => session.ask(transition, timeout).await,
            Err(no_session) => Advice::Unavailable { why: no_session.to_string() },
        }
    }

    async fn pause(&self, object: &MultidimPodAutoscaler) -> Option<Pause> {
        let value = object.annotations().get(PAUSE_ANNOTATION)?;
        match read_pause(value) {
            Ok(pause) => Some(pause),
            Err(unknown) => {
                let note = unknown.to_string();
                self.ctx.publish_event(object, true, event_reason::UNKNOWN_PAUSE, &note).await;
                Some(Pause::All)
            }
        }
    }

    async fn write(
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
    fn export_conditions(&self, key: &Key, status: &MultidimPodAutoscalerStatus) {
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
    async fn publish_outage(
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

    async fn checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        spec: MultidimPodAutoscalerCheckpointSpec,
    ) {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let mut checkpoint = MultidimPodAutoscalerCheckpoint::new(&object.name_any(), spec);
        // It is deleted with its object, but does not block the deletion: on clusters that check
        // owner references, that needs the right to update finalizers.
        let owner: Option<OwnerReference> = object.owner_ref(&());
        checkpoint.metadata = ObjectMeta {
            name: Some(object.name_any()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        // Another replica that leads by now writes its own.
        if !self.ctx.leads.is_held() {
            return;
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&object.name_any(), &params, &Patch::Apply(&checkpoint)).await;
        if let Err(error) = written {
            self.ctx.telemetry.server_error("checkpoint", &error);
        }
    }

    async fn read_checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
    ) -> Result<Option<Snapshot>, Refused> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let found = match api.get_opt(&object.name_any()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.ctx.telemetry.server_error("checkpoint", &error);
                // The same error would follow at every retry: the object starts without history.
                let is_final = matches!(&error, kube::Error::SerdeError(_))
                    || matches!(&error, kube::Error::Api(no) if (400..429).contains(&no.code));
                if is_final {
                    let note = format!("the checkpoint cannot be read and is ignored: {error}");
                    self.ctx
                        .publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note)
                        .await;
                    return Ok(None);
                }
                // Starting without history would soon overwrite the checkpoint: retry instead.
                let message = format!("the checkpoint cannot be read now: {error}");
                return Err(Refused::new(ConditionReason::ServerUnavailable, message));
            }
        };
        // It may belong to a deleted object of the same name.
        let is_ours =
            found.owner_references().iter().any(|owner| Some(&owner.uid) == object.uid().as_ref());
        let target = found.spec.scale_target_ref.as_ref().unwrap_or(&plan.target);
        if !is_ours || !fits(plan, &found.spec.recommender, target) {
            return Ok(None);
        }
        match from_text(&found.spec.memory) {
            Ok(memory) => Ok(Some(memory)),
            Err(error) => {
                let note = format!("the checkpoint cannot be read and is ignored: {error}");
                self.ctx
                    .publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note)
                    .await;
                Ok(None)
            }
        }
    }
}

/// All LimitRanges, or why they cannot be listed.
async fn limit_ranges_of(ctx: &Context) -> Result<Arc<LimitRanges>, String> {
    let api = all_of::<LimitRange>(&ctx.client, ctx.options.only_namespace.as_deref());
    let list = list_all(ctx, &api, "list limit ranges").await?;
    Ok(Arc::new(LimitRanges::new(list)))
}

/// Whether the state of a recommender for a workload fits a plan. The usage of one workload says
/// nothing about another.
fn fits(plan: &Plan, recommender: &str, target: &ScaleTargetRef) -> bool {
    recommender == plan.recommender.name() && *target == plan.target
}

/// A time within the interval before now, with an offset that is fixed for each object.
fn earlier(now: SimTime, interval: Duration, object: &MultidimPodAutoscaler) -> SimTime {
    let mut hasher = DefaultHasher::new();
    object.uid().hash(&mut hasher);
    let ago = interval.as_nanos() as u64 / 1000 * (hasher.finish() % 1000);
    SimTime::from_nanos(now.nanos().saturating_sub(ago))
}

fn is_recent(at: Timestamp) -> bool {
    Timestamp::now().duration_since(at) < OUTAGE_SHOWN_FOR
}

fn checkpoint_of(engine: &Engine, now: SimTime) -> MultidimPodAutoscalerCheckpointSpec {
    let mut memory = Snapshot::default();
    engine.save("engine", &mut memory);
    MultidimPodAutoscalerCheckpointSpec {
        taken_at: time(now),
        recommender: engine.plan().recommender.name().to_owned(),
        scale_target_ref: Some(engine.plan().target.clone()),
        memory: to_text(&memory),
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
fn have_same_conditions(a: &MultidimPodAutoscalerStatus, b: &MultidimPodAutoscalerStatus) -> bool {
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
