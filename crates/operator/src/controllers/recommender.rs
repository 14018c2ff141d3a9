//! The recommender: reconciles every object at an interval, and single ones when they change.

mod checkpoints;
mod learning;
mod publish;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};

use futures::{StreamExt, stream};
use homeostat_autoscaler::api::{
    ConditionReason, LearnerActions, Mode, MultidimPodAutoscaler, MultidimPodAutoscalerStatus,
    Plan, PolicyFileRef, Recommender as PlanRecommender, event_reason,
};
use homeostat_autoscaler::guard::{PAUSE_ANNOTATION, Pause, read_pause};
use homeostat_autoscaler::learn::{Advice, Transition};
use homeostat_autoscaler::recommend::{
    Engine, Inputs, OomKills, Outage, Outcome, Refused, StatusBuilder,
};
use homeostat_autoscaler::workload::LimitRanges;
use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};
use homeostat_decide::{TeamSnapshot, Teams};
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant, MissedTickBehavior};

use self::checkpoints::{Restored, checkpoint_of, earlier, fits};
use self::learning::applied;
use self::publish::have_same_conditions;
use super::context::{ApiPermit, Context, Key, Slots, key_of, now};
use super::measurements::{Answers, Measurements, Usage, ask_all};
use super::resolved_target::{OtherAutoscalers, ResolvedTarget, list_all, resolve_target};
use super::watch::all_of;
use crate::learn::{LearningAgent, OfferedPolicy, PolicyFile};
use crate::supervisor::Heartbeat;

/// Field manager of the recommender's part of a status.
const FIELD_MANAGER: &str = "homeostat-recommender";

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
    /// The latest states of all objects for the other members of their teams.
    teams: Mutex<Teams<Key, Option<String>>>,
}

/// What is read once from the cluster for all objects.
struct ClusterSnapshot {
    /// The namespaces that had objects.
    namespaces: BTreeSet<String>,
    usage: Usage,
    others: OtherAutoscalers,
    /// Or why they could not be listed yet.
    limit_ranges: Result<Arc<LimitRanges>, String>,
    /// The teams as they were before any object of this resync was reconciled: what a member sees
    /// does not depend on the order of reconciles.
    teams: BTreeMap<Option<String>, TeamSnapshot<Key>>,
}

/// State of one object.
#[derive(Default)]
struct Slot {
    /// Uid of the object and generation of its spec that the engine was made for.
    version: Option<(Option<String>, Option<i64>)>,
    engine: Option<Engine>,
    policy_file: Option<PolicyFile>,
    offered_policy: Option<OfferedPolicy>,
    learning: Option<LearningAgent>,
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
            teams: Mutex::default(),
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
        self.teams.lock().expect(NOT_POISONED).retain(|key| self.ctx.object(key).is_some());
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
            let learning = slot.learning.as_ref();
            let checkpoint =
                slot.engine.as_ref().map(|engine| checkpoint_of(engine, learning, now()));
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
        self.teams.lock().expect(NOT_POISONED).retain(|_| false);
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
            teams: self.teams.lock().expect(NOT_POISONED).snapshot(now(), self.max_member_age()),
        };
        *self.snapshot.write().expect(NOT_POISONED) = Some(Arc::new(snapshot));
    }

    /// A member of a team that was not observed for longer is not part of it.
    fn max_member_age(&self) -> SimDuration {
        let options = &self.ctx.options;
        options.trust.max_age + SimDuration::from_nanos(options.interval.as_nanos() as u64)
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
            Some(Ok(plan)) if plan.mode != Mode::Off => ask_all(&self.ctx, &key.0, plan).await,
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
                        let status = builder.recommended(&plan, &target.scaled, &inputs, &outcome);
                        self.with_learning(status, slot.learning.as_ref(), &builder)
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
        let key = key_of(object);
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
            team: snapshot.teams.get(&plan.team).map(|team| team.others(&key)),
            now,
        };
        let inputs = measurements.inputs(self.ctx.options.interval);
        let pause = self.pause(object).await;
        let engine = slot.engine.as_mut().expect("it was prepared");
        engine.set_limits(resource_limits);
        let mut learned_from = None;
        let advice = match &plan.recommender {
            PlanRecommender::Joint | PlanRecommender::HpaVpa => None,
            PlanRecommender::Policy(at) => {
                let file = policy_file(&mut slot.policy_file, at);
                file.refresh(&self.ctx.client, &namespace, now).await;
                Some(file.advice())
            }
            PlanRecommender::Aware(learning) => {
                let found = match &learning.policy_file {
                    Some(at) => {
                        let file = policy_file(&mut slot.policy_file, at);
                        file.refresh(&self.ctx.client, &namespace, now).await;
                        Some(file.found())
                    }
                    None => match &self.ctx.options.collector {
                        Some(collector) => {
                            let offered = slot
                                .offered_policy
                                .get_or_insert_with(|| OfferedPolicy::new(&key.0, &key.1));
                            offered.refresh(collector, now).await;
                            Some(offered.found())
                        }
                        None => None,
                    },
                };
                learned_from = engine.show(&inputs);
                let agent = slot.learning.as_mut().expect("it was prepared");
                agent.observe(now, learned_from.as_ref(), applied(&plan, pause), found)
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
        if let (Some(agent), Some(transition)) = (&mut slot.learning, &learned_from) {
            agent.decided(now, transition, &outcome);
        }
        let news = self.publish_news(object, slot.learning.as_mut()).await;
        if let Some(state) = outcome.member {
            let mut teams = self.teams.lock().expect(NOT_POISONED);
            teams.report(key, plan.team.clone(), now, state);
        }
        let interval = self.ctx.options.checkpoint_interval;
        // There is nothing to lose at the first reconcile. Each object has its own offset in the
        // interval, or thousands of checkpoints would be written at once.
        let last = slot.checkpointed_at.get_or_insert_with(|| earlier(now, interval, object));
        // What was recorded is not recorded again after a restart.
        if news || now.saturating_since(*last).seconds() >= interval.as_secs_f64() {
            *last = now;
            self.checkpoint(object, checkpoint_of(engine, slot.learning.as_ref(), now)).await;
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
        let learning = slot.learning.take();
        let restored = match before.filter(|_| is_same) {
            Some(before) => fits(plan, before.plan().recommender.name(), &before.plan().target)
                .then(|| {
                    let mut memory = Snapshot::default();
                    before.save("engine", &mut memory);
                    Restored { memory, learning: learning.map(|agent| agent.saved()) }
                }),
            None => self.read_checkpoint(object, plan).await?,
        };
        let (memory, learning) =
            restored.map_or((None, None), |found| (Some(found.memory), found.learning));
        if let Some(memory) = memory
            && let Err(error) = engine.load("engine", &memory)
        {
            let note = format!("the history does not fit and is discarded: {error}");
            self.ctx.publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note).await;
            engine = Engine::new(plan.clone(), self.ctx.options.trust)
                .map_err(|error| unavailable(error.to_string()))?;
        }
        slot.learning = self.learning_agent(object, plan, learning.as_deref()).await?;
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
        let max_answer_time = Duration::from_nanos(timeout.nanos());
        match self.ctx.learners.session(&key_of(object), actions, max_answer_time) {
            Ok(session) => session.ask(transition, timeout).await,
            Err(not_served) => Advice::Unavailable { why: not_served.to_string() },
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
}

/// The policy file at a place; another place is another file.
fn policy_file<'a>(slot: &'a mut Option<PolicyFile>, at: &PolicyFileRef) -> &'a mut PolicyFile {
    if slot.as_ref().is_none_or(|file| file.at() != at) {
        *slot = Some(PolicyFile::new(at.clone()));
    }
    slot.as_mut().expect("it was made above")
}

/// All LimitRanges, or why they cannot be listed.
async fn limit_ranges_of(ctx: &Context) -> Result<Arc<LimitRanges>, String> {
    let api = all_of::<LimitRange>(&ctx.client, ctx.options.only_namespace.as_deref());
    let list = list_all(ctx, &api, "list limit ranges").await?;
    Ok(Arc::new(LimitRanges::new(list)))
}

fn is_recent(at: Timestamp) -> bool {
    Timestamp::now().duration_since(at) < OUTAGE_SHOWN_FOR
}
